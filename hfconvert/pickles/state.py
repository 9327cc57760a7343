"""The state of a pickle machine: stack, marks, memo, what was imported, what may still be spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sized
from dataclasses import replace
from typing import Any

from hfconvert.pickles.keys import hashable
from hfconvert.pickles.limits import OVERHEAD, Limits
from hfconvert.pickles.stream import Stream
from hfconvert.pickles.values import (
    ArrayRef,
    ArrayType,
    Global,
    Group,
    Plain,
    Span,
    Stub,
    Table,
    TensorRef,
)

Rebuild = Callable[[tuple[Any, ...]], Any]
PersistentLoad = Callable[[Any], Any]
UNFIT = (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError)
GETATTR = {Global("builtins", "getattr"), Global("__builtin__", "getattr")}
NEW = {Global("copyreg", "__newobj__"), Global("copy_reg", "__newobj__")}
TYPED = {
    Global("torch._tensor", "_rebuild_from_type_v2"),
    Global("torch._tensor", "_rebuild_from_type"),
}
MAX_NAME = 1000  # characters of a module or name
MAX_NAMES = 20_000


class RefusedError(Exception):
    """A pickle that breaks the rules or a bound; the message says how."""


class Budget:
    """What may still be spent, over all the pickles of one file."""

    __slots__ = ("containers", "limits", "operations", "text")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.operations = limits.operations
        self.containers = limits.containers
        self.text = limits.text

    def operate(self, count: int) -> None:
        """Spend operations."""
        self.operations -= count
        if self.operations < 0:
            raise RefusedError(f"it takes more than {self.limits.operations} operations")

    def contain(self) -> None:
        """Spend one container or object."""
        self.containers -= 1
        if self.containers < 0:
            raise RefusedError(f"it holds more than {self.limits.containers} objects")

    def hold(self, size: int) -> None:
        """Spend bytes of strings and numbers."""
        self.text -= size
        if self.text < 0:
            raise RefusedError(f"its strings take more than {self.limits.text} bytes")


class State:
    """One running pickle. Opcode handlers are functions of it."""

    __slots__ = (
        "budget",
        "getattr_abused",
        "imports",
        "marks",
        "memo",
        "persistent",
        "rebuilds",
        "stack",
        "stream",
        "stubbed",
    )

    def __init__(
        self,
        stream: Stream,
        budget: Budget,
        rebuilds: Mapping[Global, Rebuild],
        persistent: PersistentLoad,
        imports: Counter[Global],
        stubbed: Counter[str],
    ) -> None:
        self.stream = stream
        self.budget = budget
        self.rebuilds = rebuilds
        self.persistent = persistent
        self.imports = imports
        self.stubbed = stubbed
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.getattr_abused = False

    def pop_mark(self) -> list[Any]:
        """What was pushed since the last mark."""
        items = self.stack
        if not self.marks:
            raise RefusedError("it closes a group that it never opened")
        self.stack = self.marks.pop()
        return items

    def text(self, size: int) -> bytes:
        """The next bytes of the stream, held in memory."""
        if size > self.stream.left:
            raise RefusedError(f"a string of {size} bytes reaches past the end")
        self.budget.hold(size + OVERHEAD)
        return self.stream.take(size)

    def data(self, size: int) -> bytes | Span:
        """The next bytes: held when they are few, else left in the source."""
        if size <= self.budget.limits.held:
            return self.text(size)
        return Span(self.stream.source, self.stream.skip(size), size)

    def named(self, module: str, name: str) -> Global:
        """Refer to a name, and note that the pickle asks for it."""
        if len(module) + len(name) > MAX_NAME or len(self.imports) > MAX_NAMES:
            raise RefusedError("it asks for a name that is too long, or for too many names")
        found = Global(module, name)
        self.imports[found] += 1
        return found

    def call(self, function: Any, args: Any, kwargs: Any = None) -> Any:
        """What a call gives: an inert value for the few names known, else a Stub."""
        self.budget.contain()
        if type(args) is not tuple:
            args = (args,)
        if type(function) is not Global:
            self.getattr_abused |= type(function) is Stub and _is_getattr(function.kind)
            return self._stub(function, args, kwargs)
        rebuild = self.rebuilds.get(function)
        if rebuild is not None and not kwargs:
            return self._rebuilt(rebuild, function, args)
        if function in GETATTR:
            return self._getattr(function, args)
        if function in TYPED:
            return self._typed(function, args)
        if function in NEW and args and type(args[0]) is Global and args[0] not in NEW:
            return self.call(args[0], args[1:])
        return self._stub(function, args, kwargs)

    def _rebuilt(self, rebuild: Rebuild, function: Global, args: tuple[Any, ...]) -> Any:
        self.budget.operate(_copied(args, (list, tuple, dict)))
        self.budget.hold(_copied(args, (str, bytes)))
        try:
            made = rebuild(args)
        except UNFIT:
            made = Stub(function, args)
        if type(made) is Stub:
            self.stubbed[made.name] += 1
        return made

    def _stub(self, function: Any, args: tuple[Any, ...], kwargs: Any = None) -> Stub:
        made = Stub(function, args, kwargs)
        self.stubbed[made.name] += 1
        return made

    def _typed(self, function: Global, args: tuple[Any, ...]) -> Any:
        """A tensor of a subclass: `(function, type, arguments, state)`; the type is kept as `detail`."""
        if len(args) != 4 or type(args[0]) is not Global or type(args[2]) is not tuple:
            return self._stub(function, args)
        rebuild = self.rebuilds.get(args[0])
        made = (
            self._stub(args[0], args[2])
            if rebuild is None
            else self._rebuilt(rebuild, args[0], args[2])
        )
        return replace(made, detail=args[1:4:2]) if isinstance(made, TensorRef) else made

    def _getattr(self, function: Global, args: tuple[Any, ...]) -> Any:
        """A class in a class, a member of an enum (both judged by their whole name), or a bound method.

        Anything else is abuse, and so is calling a bound method.
        """
        match args:
            case (Global(module, name), str(attribute)):
                self.getattr_abused |= not _is_public(attribute)
                return self.named(module, f"{name}.{attribute}")
            case (Stub(), str(attribute)):
                self.getattr_abused |= not _is_public(attribute)
            case _:
                self.getattr_abused = True
        return self._stub(function, args)


def put(target: Any, pairs: list[tuple[Any, Any]]) -> None:
    """Store items in a dictionary, or as data in a Stub; what has no items takes none."""
    if isinstance(target, dict):
        for key, value in pairs:
            target[hashable(key)] = value
    elif type(target) is Stub:
        if target.items is None:
            target.items = []
        target.items += pairs
    elif type(target) is not Plain:
        raise RefusedError(f"it sets items of a {type(target).__name__}")


def extend(target: Any, values: list[Any]) -> None:
    """Append to a list or a Stub."""
    if type(target) is list:
        target.extend(values)
    elif type(target) is Group:
        target.items.extend(values)
    elif type(target) is Stub:
        if target.appended is None:
            target.appended = []
        target.appended += values
    else:
        raise RefusedError(f"it appends to a {type(target).__name__}")


def build(target: Any, value: Any) -> None:
    """Give an object its state. Plain data has none and keeps its values."""
    if isinstance(target, (Stub, Table, Plain)):
        target.state = value
    elif isinstance(target, ArrayRef):
        _build_array(target, value)
    elif isinstance(target, ArrayType) and type(value) is tuple and len(value) > 1:
        target.order = value[1] if type(value[1]) is str else target.order
        target.fields = value[3:5] if len(value) > 4 and value[4] is not None else None


def _is_getattr(kind: Any) -> bool:
    return type(kind) is Global and kind in GETATTR


def _is_public(attribute: str) -> bool:
    """A name that a class gives away; `__new__` is how protocol 2 makes objects with keywords."""
    return attribute.isidentifier() and (not attribute.startswith("__") or attribute == "__new__")


def _build_array(target: ArrayRef, value: Any) -> None:
    """The state that `numpy.ndarray.__reduce__` gives: version, shape, dtype, Fortran order, data."""
    if type(value) is not tuple or len(value) != 5:
        raise RefusedError("a numpy array has a state of another form")
    _, shape, dtype, fortran, data = value
    target.shape, target.dtype, target.fortran, target.data = shape, dtype, bool(fortran), data


def _copied(args: tuple[Any, ...], kinds: tuple[type[Sized], ...]) -> int:
    """How many items of its arguments a rebuilt value may copy."""
    total = 0
    for argument in args:
        if isinstance(argument, kinds):
            total += len(argument)
    return total
