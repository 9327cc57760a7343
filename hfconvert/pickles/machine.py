"""Run a pickle as data: bounded in time and memory, never beyond its own table of inert rebuilders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from hfconvert.pickles import containers, objects, scalars
from hfconvert.pickles.limits import DEFAULT, Limits
from hfconvert.pickles.state import GETATTR, Budget, PersistentLoad, Rebuild, RefusedError, State
from hfconvert.pickles.stream import EndOfPickleError, Stream
from hfconvert.pickles.values import Global, Import
from hfconvert.pickles.verdicts import judge

OPCODES: Mapping[bytes, Callable[[State], None]] = {
    b"\x80": containers.check_protocol,
    b"\x95": containers.pass_frame,
    b"(": containers.open_mark,
    b"0": containers.drop_top,
    b"1": containers.drop_marked,
    b"2": containers.duplicate,
    b"p": containers.put_line,
    b"q": containers.put1,
    b"r": containers.put4,
    b"\x94": containers.memoize,
    b"g": containers.get_line,
    b"h": containers.get1,
    b"j": containers.get4,
    b")": containers.push_tuple0,
    b"\x85": containers.push_tuple1,
    b"\x86": containers.push_tuple2,
    b"\x87": containers.push_tuple3,
    b"t": containers.close_tuple,
    b"]": containers.push_list,
    b"l": containers.close_list,
    b"a": containers.append,
    b"e": containers.append_marked,
    b"}": containers.push_dict,
    b"d": containers.close_dict,
    b"s": containers.set_item,
    b"u": containers.set_marked,
    b"\x8f": containers.push_set,
    b"\x90": containers.add_marked,
    b"\x91": containers.close_frozenset,
    b"N": scalars.push_none,
    b"\x88": scalars.push_true,
    b"\x89": scalars.push_false,
    b"I": scalars.push_int_line,
    b"L": scalars.push_int_line,
    b"F": scalars.push_float_line,
    b"J": scalars.push_int4,
    b"K": scalars.push_int1,
    b"M": scalars.push_int2,
    b"\x8a": scalars.push_long1,
    b"\x8b": scalars.push_long4,
    b"G": scalars.push_float8,
    b"S": scalars.push_string_line,
    b"U": scalars.push_string1,
    b"T": scalars.push_string4,
    b"V": scalars.push_unicode_line,
    b"\x8c": scalars.push_unicode1,
    b"X": scalars.push_unicode4,
    b"\x8d": scalars.push_unicode8,
    b"C": scalars.push_bytes1,
    b"B": scalars.push_bytes4,
    b"\x8e": scalars.push_bytes8,
    b"\x96": scalars.push_bytes8,
    b"c": objects.push_global,
    b"\x93": objects.push_stack_global,
    b"\x82": objects.push_extension1,
    b"\x83": objects.push_extension2,
    b"\x84": objects.push_extension4,
    b"R": objects.reduce,
    b"\x81": objects.new_object,
    b"\x92": objects.new_object_with_keywords,
    b"i": objects.instance,
    b"o": objects.object_of_class,
    b"b": objects.build_object,
    b"P": objects.load_persistent_line,
    b"Q": objects.load_persistent,
    b"\x97": objects.refuse_buffer,
    b"\x98": objects.pass_readonly,
}

_HANDLERS = [OPCODES.get(bytes([code]), objects.refuse_opcode) for code in range(256)]
_STOP = ord(".")
_DAMAGE = (EndOfPickleError, IndexError, KeyError, ValueError, OverflowError)


class BrokenPickleError(Exception):
    """A pickle that cannot be read to its end; `position` is the byte that it was read up to."""

    def __init__(self, what: str, position: int) -> None:
        super().__init__(f"{what} (byte {position})")
        self.what = what
        self.position = position


class Unpickler:
    """Reads the pickles of one file one after the other, with one budget and one list of imports.

    `rebuilds` maps exact names to functions that give inert values; `persistent` answers persistent ids.
    """

    def __init__(
        self,
        rebuilds: Mapping[Global, Rebuild],
        persistent: PersistentLoad | None = None,
        limits: Limits = DEFAULT,
    ) -> None:
        self._rebuilds = rebuilds
        self._persistent = persistent or _no_persistent
        self._budget = Budget(limits)
        self._counts: Counter[Global] = Counter()
        self._stubbed: Counter[str] = Counter()
        self._abuses: list[None] = []

    def another(self, persistent: PersistentLoad | None = None) -> Unpickler:
        """One for other pickles of the same file: the same budget and list of imports."""
        made = copy(self)
        made._persistent = persistent or _no_persistent  # noqa: SLF001  # of this class
        return made

    def teach(self, name: Global, rebuild: Rebuild) -> None:
        """Rebuild one more name, here and in those that are made of this one from now on."""
        self._rebuilds = {**self._rebuilds, name: rebuild}

    def load(self, stream: Stream) -> Any:
        """The value of the next pickle of the stream. BrokenPickleError where it has none."""
        state = State(
            stream, self._budget, self._rebuilds, self._persistent, self._counts, self._stubbed
        )
        try:
            return self._run(state)
        except RefusedError as error:
            raise BrokenPickleError(str(error), stream.position) from None
        except _DAMAGE as error:
            raise BrokenPickleError(_describe(error), stream.position) from None
        finally:
            if state.getattr_abused:
                self._abuses.append(None)

    def _run(self, state: State) -> Any:
        """The loop: every opcode is one operation of the budget."""
        byte, handlers, budget = state.stream.byte, _HANDLERS, self._budget
        operations = 0
        try:
            for operations in range(budget.operations):  # noqa: B007  # it is spent at the end
                code = byte()
                if code == _STOP:
                    return state.stack.pop()
                handlers[code](state)
        finally:
            budget.operations -= operations
        return budget.operate(budget.operations + 1)

    @property
    def imports(self) -> tuple[Import, ...]:
        """Every name that the pickles so far asked for, judged, in the order of the file."""
        return tuple(
            Import(found.module, found.name, judge(found.module, found.name), count)
            if found not in GETATTR or self._abuses
            else Import(found.module, found.name, "unknown", count)
            for found, count in self._counts.items()
        )

    @property
    def stubbed(self) -> tuple[str, ...]:
        """Classes and functions that stubs stand for, each once, in the order of the file."""
        return tuple(self._stubbed)


def _no_persistent(_: Any) -> Any:
    raise RefusedError("it refers to objects outside the pickle")


def _describe(error: Exception) -> str:
    if isinstance(error, EndOfPickleError):
        return "it ends in the middle"
    if isinstance(error, KeyError):
        return f"it recalls memo entry {error}, which it never stored"
    if isinstance(error, IndexError):
        return "it takes from an empty stack"
    return "it holds a number or string that is none"
