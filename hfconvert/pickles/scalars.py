"""Opcodes that push numbers and strings."""

from __future__ import annotations

import re
import struct
from typing import Any

from hfconvert.pickles.state import RefusedError, State
from hfconvert.pickles.values import Span

_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|[0-7]{1,3}|[^x0-7])", re.DOTALL)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def push_none(state: State) -> None:
    """NONE."""
    state.stack.append(None)


def push_true(state: State) -> None:
    """NEWTRUE."""
    state.stack.append(True)


def push_false(state: State) -> None:
    """NEWFALSE."""
    state.stack.append(False)


def push_int_line(state: State) -> None:
    """INT and LONG: decimal, maybe with an L; 00 and 01 are the booleans of protocol 1."""
    line = _number_line(state)
    if line in (b"00", b"01"):
        state.stack.append(line == b"01")
    else:
        state.stack.append(int(line.removesuffix(b"L") or b"0"))


def push_float_line(state: State) -> None:
    """FLOAT."""
    state.stack.append(float(_number_line(state)))


def push_int4(state: State) -> None:
    """BININT."""
    state.stack.append(int.from_bytes(state.stream.take(4), "little", signed=True))


def push_int1(state: State) -> None:
    """BININT1."""
    state.stack.append(state.stream.byte())


def push_int2(state: State) -> None:
    """BININT2."""
    state.stack.append(int.from_bytes(state.stream.take(2), "little"))


def push_long1(state: State) -> None:
    """LONG1."""
    _push_long(state, state.stream.byte())


def push_long4(state: State) -> None:
    """LONG4."""
    _push_long(state, int.from_bytes(state.stream.take(4), "little", signed=True))


def push_float8(state: State) -> None:
    """BINFLOAT: big-endian, unlike everything else."""
    state.stack.append(struct.unpack(">d", state.stream.take(8))[0])


def push_string_line(state: State) -> None:
    """STRING: a quoted Python 2 string with escapes."""
    line = _line(state).strip()
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
        raise RefusedError("a string is not quoted")
    state.stack.append(_decoded(_ESCAPE.sub(_unescape, line[1:-1])))


def push_string1(state: State) -> None:
    """SHORT_BINSTRING."""
    state.stack.append(_decoded(state.data(state.stream.byte())))


def push_string4(state: State) -> None:
    """BINSTRING."""
    state.stack.append(_decoded(state.data(_size(state, 4))))


def push_unicode_line(state: State) -> None:
    """UNICODE."""
    state.stack.append(_line(state).decode("raw-unicode-escape"))


def push_unicode1(state: State) -> None:
    """SHORT_BINUNICODE."""
    state.stack.append(_unicode(state, state.stream.byte()))


def push_unicode4(state: State) -> None:
    """BINUNICODE."""
    state.stack.append(_unicode(state, _size(state, 4)))


def push_unicode8(state: State) -> None:
    """BINUNICODE8."""
    state.stack.append(_unicode(state, _size(state, 8)))


def push_bytes1(state: State) -> None:
    """SHORT_BINBYTES."""
    state.stack.append(state.data(state.stream.byte()))


def push_bytes4(state: State) -> None:
    """BINBYTES."""
    state.stack.append(state.data(_size(state, 4)))


def push_bytes8(state: State) -> None:
    """BINBYTES8 and BYTEARRAY8; both as bytes, since nothing here is ever changed."""
    state.stack.append(state.data(_size(state, 8)))


def _unicode(state: State, size: int) -> str:
    return state.text(size).decode("utf-8", "surrogatepass")


def _push_long(state: State, size: int) -> None:
    if not 0 <= size <= state.budget.limits.number:
        raise RefusedError(f"an integer of {size} bytes")
    state.stack.append(int.from_bytes(state.text(size), "little", signed=True))


def _size(state: State, width: int) -> int:
    return int.from_bytes(state.stream.take(width), "little")


def _line(state: State) -> bytes:
    line = state.stream.line()
    state.budget.hold(len(line))
    return line


def _number_line(state: State) -> bytes:
    line = _line(state)
    if len(line) > state.budget.limits.number:
        raise RefusedError(f"a number of {len(line)} digits")
    return line


def _decoded(value: bytes | Span) -> Any:
    """A Python 2 string: text where it is UTF-8, else bytes."""
    if isinstance(value, Span):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


def _unescape(match: re.Match[bytes]) -> bytes:
    escape = match.group(1)
    if escape[:1] == b"x":
        return bytes([int(escape[1:], 16)])
    if escape.isdigit():
        return bytes([int(escape, 8) & 255])
    return b"" if escape == b"\n" else _NAMED.get(escape, escape)
