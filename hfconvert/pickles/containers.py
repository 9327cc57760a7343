"""Opcodes of the stack, the memo and the containers."""

from __future__ import annotations

from typing import Any

from hfconvert.pickles.keys import hashable
from hfconvert.pickles.state import RefusedError, State, extend, put
from hfconvert.pickles.values import Group

_PROTOCOLS = range(6)
_MEMO_END = 1 << 31


def check_protocol(state: State) -> None:
    """PROTO."""
    protocol = state.stream.byte()
    if protocol not in _PROTOCOLS:
        raise RefusedError(f"it says pickle protocol {protocol}; there are 0 to 5")


def pass_frame(state: State) -> None:
    """FRAME: only a hint on how to read."""
    state.stream.take(8)


def open_mark(state: State) -> None:
    """MARK."""
    state.marks.append(state.stack)
    state.stack = []


def drop_top(state: State) -> None:
    """POP: the topmost item, or an empty group."""
    if state.stack:
        state.stack.pop()
    else:
        state.pop_mark()


def drop_marked(state: State) -> None:
    """POP_MARK."""
    state.pop_mark()


def duplicate(state: State) -> None:
    """DUP."""
    state.stack.append(state.stack[-1])


def put_line(state: State) -> None:
    """PUT."""
    index = int(state.stream.line()[:12])
    if not 0 <= index < _MEMO_END:
        raise RefusedError(f"memo index {index}")
    state.memo[index] = state.stack[-1]


def put1(state: State) -> None:
    """BINPUT."""
    state.memo[state.stream.byte()] = state.stack[-1]


def put4(state: State) -> None:
    """LONG_BINPUT."""
    state.memo[int.from_bytes(state.stream.take(4), "little")] = state.stack[-1]


def memoize(state: State) -> None:
    """MEMOIZE."""
    state.memo[len(state.memo)] = state.stack[-1]


def get_line(state: State) -> None:
    """GET."""
    state.stack.append(state.memo[int(state.stream.line()[:12])])


def get1(state: State) -> None:
    """BINGET."""
    state.stack.append(state.memo[state.stream.byte()])


def get4(state: State) -> None:
    """LONG_BINGET."""
    state.stack.append(state.memo[int.from_bytes(state.stream.take(4), "little")])


def push_tuple0(state: State) -> None:
    """EMPTY_TUPLE."""
    state.stack.append(())


def push_tuple1(state: State) -> None:
    """TUPLE1."""
    state.stack[-1] = (state.stack[-1],)


def push_tuple2(state: State) -> None:
    """TUPLE2."""
    last = state.stack.pop()
    state.stack[-1] = (state.stack[-1], last)


def push_tuple3(state: State) -> None:
    """TUPLE3."""
    last, middle = state.stack.pop(), state.stack.pop()
    state.stack[-1] = (state.stack[-1], middle, last)


def close_tuple(state: State) -> None:
    """TUPLE."""
    items = state.pop_mark()
    state.stack.append(tuple(items))


def push_list(state: State) -> None:
    """EMPTY_LIST."""
    _push_new(state, [])


def close_list(state: State) -> None:
    """LIST."""
    items = state.pop_mark()
    _push_new(state, items)


def append(state: State) -> None:
    """APPEND."""
    value = state.stack.pop()
    extend(state.stack[-1], [value])


def append_marked(state: State) -> None:
    """APPENDS."""
    values = state.pop_mark()
    extend(state.stack[-1], values)


def push_dict(state: State) -> None:
    """EMPTY_DICT."""
    _push_new(state, {})


def close_dict(state: State) -> None:
    """DICT."""
    items = _pairs(state.pop_mark())
    _push_new(state, {hashable(key): value for key, value in items})


def set_item(state: State) -> None:
    """SETITEM."""
    value, key = state.stack.pop(), state.stack.pop()
    put(state.stack[-1], [(key, value)])


def set_marked(state: State) -> None:
    """SETITEMS."""
    items = _pairs(state.pop_mark())
    put(state.stack[-1], items)


def push_set(state: State) -> None:
    """EMPTY_SET."""
    _push_new(state, Group("set", []))


def add_marked(state: State) -> None:
    """ADDITEMS."""
    values = state.pop_mark()
    extend(state.stack[-1], values)


def close_frozenset(state: State) -> None:
    """FROZENSET."""
    items = state.pop_mark()
    _push_new(state, Group("frozenset", items))


def _push_new(state: State, container: Any) -> None:
    state.budget.contain()
    state.stack.append(container)


def _pairs(items: list[Any]) -> list[tuple[Any, Any]]:
    if len(items) % 2:
        raise RefusedError("a key has no value")
    return list(zip(items[::2], items[1::2], strict=True))
