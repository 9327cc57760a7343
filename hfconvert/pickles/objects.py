"""Opcodes that name, call and build objects. Nothing is imported and nothing is called."""

from __future__ import annotations

from hfconvert.pickles.state import RefusedError, State, build
from hfconvert.pickles.values import Global


def push_global(state: State) -> None:
    """GLOBAL: module and name, a line each."""
    module, name = _name_line(state), _name_line(state)
    state.stack.append(state.named(module, name))


def push_stack_global(state: State) -> None:
    """STACK_GLOBAL: module and name from the stack."""
    name, module = state.stack.pop(), state.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise RefusedError("a module or name that is no string")
    state.stack.append(state.named(module, name))


def push_extension1(state: State) -> None:
    """EXT1."""
    _push_extension(state, 1)


def push_extension2(state: State) -> None:
    """EXT2."""
    _push_extension(state, 2)


def push_extension4(state: State) -> None:
    """EXT4."""
    _push_extension(state, 4)


def reduce(state: State) -> None:
    """REDUCE."""
    args, function = state.stack.pop(), state.stack.pop()
    state.stack.append(state.call(function, args))


def new_object(state: State) -> None:
    """NEWOBJ."""
    reduce(state)


def new_object_with_keywords(state: State) -> None:
    """NEWOBJ_EX."""
    keywords, args, kind = state.stack.pop(), state.stack.pop(), state.stack.pop()
    state.stack.append(state.call(kind, args, keywords))


def instance(state: State) -> None:
    """INST: the class by lines, its arguments since the mark."""
    kind = state.named(_name_line(state), _name_line(state))
    args = tuple(state.pop_mark())
    state.stack.append(state.call(kind, args))


def object_of_class(state: State) -> None:
    """OBJ: class and arguments since the mark."""
    kind, *args = state.pop_mark()
    state.stack.append(state.call(kind, tuple(args)))


def build_object(state: State) -> None:
    """BUILD."""
    value = state.stack.pop()
    build(state.stack[-1], value)


def load_persistent_line(state: State) -> None:
    """PERSID."""
    state.stack.append(state.persistent(_name_line(state)))


def load_persistent(state: State) -> None:
    """BINPERSID."""
    state.stack[-1] = state.persistent(state.stack[-1])


def refuse_buffer(_: State) -> None:
    """NEXT_BUFFER: data that lies outside the file."""
    raise RefusedError("its data lies in buffers outside the file")


def refuse_opcode(state: State) -> None:
    """A byte that no protocol has."""
    raise RefusedError(f"byte {state.stream.position - 1} is no pickle opcode")


def pass_readonly(state: State) -> None:
    """READONLY_BUFFER: nothing here is ever changed."""
    _ = state.stack[-1]


def _name_line(state: State) -> str:
    line = state.stream.line()
    state.budget.hold(len(line))
    return line.decode("utf-8", "backslashreplace")


def _push_extension(state: State, width: int) -> None:
    code = int.from_bytes(state.stream.take(width), "little")
    state.stack.append(Global("copyreg extension", str(code)))
    state.imports[state.stack[-1]] += 1
