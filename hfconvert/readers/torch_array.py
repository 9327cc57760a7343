"""Numpy arrays in a pickle as lazy tensors."""

from __future__ import annotations

from math import prod

from hfconvert.pickles.values import ArrayRef, Span
from hfconvert.readers.torch_rewritten import Rewritten
from hfconvert.readers.torch_sources import Memory, flattened
from hfconvert.readers.torch_tensor import tensor_problem
from hfconvert.tensors.box import Shape
from hfconvert.tensors.dtype import BY_TORCH
from hfconvert.tensors.lazy import LazyTensor, TensorSpec
from hfconvert.tensors.leaf import Leaf, row_major
from hfconvert.tensors.source import ByteSource
from hfconvert.tensors.unreadable import UNKNOWN, Unreadable

_CODES = {
    "b1": "bool",
    "i1": "int8",
    "u1": "uint8",
    "i2": "int16",
    "u2": "uint16",
    "i4": "int32",
    "u4": "uint32",
    "i8": "int64",
    "u8": "uint64",
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "c8": "complex64",
}
_MAX_DIMENSIONS = 32


def array_tensor(array: ArrayRef, name: str, file: str) -> LazyTensor:
    """The array, or an Unreadable with the reason where it is none of numbers, or its bytes do not fit."""
    shape = _shape(array.shape)
    code = array.dtype.code if array.dtype is not None else "object"
    dtype = BY_TORCH.get(_CODES.get(code, ""))
    data = array.data
    size = len(data) if isinstance(data, bytes) else data.size if isinstance(data, Span) else -1
    if (
        shape is None
        or dtype is None
        or array.dtype is None
        or size != prod(shape) * dtype.itemsize
    ):
        what = (
            f"it is a numpy array of {code[:20]}, no type of numbers here, or its bytes do not fit"
        )
        problem = tensor_problem(name, file, what, "drop it, or write it as a tensor")
        return Unreadable(TensorSpec(dtype or UNKNOWN, shape or ()), problem, array)
    source: ByteSource
    if isinstance(data, Span):
        source, start = flattened(data.source, data.start)
    else:
        source, start = Memory(f"{file}: {name}", data), 0
    strides = (
        tuple(reversed(row_major(tuple(reversed(shape))))) if array.fortran else row_major(shape)
    )
    leaf = Leaf.strided(TensorSpec(dtype, shape), source, start, strides)
    return Rewritten(leaf, swapped=True) if array.dtype.order == ">" else leaf


def _shape(shape: object) -> Shape | None:
    if type(shape) is not tuple or len(shape) > _MAX_DIMENSIONS:
        return None
    return shape if all(type(size) is int and 0 <= size < 1 << 48 for size in shape) else None
