"""Rebuilders for numpy arrays, scalars and dtypes, under the module names of numpy 1 and 2.

The pickled forms are those that `numpy.ndarray.__reduce__` and `numpy.generic.__reduce__` give.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from hfconvert.pickles.values import ArrayRef, ArrayType, Global, Plain, Span

_CORES = ("numpy.core", "numpy._core")
_SCALARS = {
    "b1": "?",
    "i1": "b",
    "u1": "B",
    "i2": "h",
    "u2": "H",
    "i4": "i",
    "u4": "I",
    "i8": "q",
    "u8": "Q",
    "f2": "e",
    "f4": "f",
    "f8": "d",
    "c8": "ff",
    "c16": "dd",
}


def array(args: tuple[Any, ...]) -> ArrayRef:
    """`_reconstruct(ndarray, (0,), b"b")`; the state follows."""
    _ = args[1]
    return ArrayRef()


def array_of_buffer(args: tuple[Any, ...]) -> ArrayRef:
    """`_frombuffer(buffer, dtype, shape, order)`: protocol 5."""
    data, dtype, shape, order = args[:4]
    if not isinstance(data, (bytes, Span)) or not isinstance(dtype, ArrayType):
        raise TypeError(args)
    return ArrayRef(shape, dtype, order == "F", data)


def dtype(args: tuple[Any, ...]) -> ArrayType:
    """`dtype("f4", False, True)`; the state brings the byte order."""
    if type(args[0]) is not str:
        raise TypeError(args)
    code = args[0]
    return ArrayType(code.lstrip("<>=|"), code[0] if code[0] in "<>=|" else "=")


def scalar(args: tuple[Any, ...]) -> Any:
    """`scalar(dtype, bytes)`: a Python number where it is one."""
    kind, data = args
    form = _SCALARS.get(kind.code)
    if form is None or type(data) is not bytes:
        return Plain(f"numpy scalar {kind.code}", (data,))
    values = struct.unpack((">" if kind.order == ">" else "<") + form, data)
    return complex(*values) if len(values) == 2 else values[0]


REBUILDS: Mapping[Global, Callable[[tuple[Any, ...]], Any]] = {
    **{Global(f"{core}.multiarray", "_reconstruct"): array for core in _CORES},
    **{Global(f"{core}.multiarray", "scalar"): scalar for core in _CORES},
    **{Global(f"{core}.numeric", "_frombuffer"): array_of_buffer for core in _CORES},
    Global("numpy", "dtype"): dtype,
}
