"""From torch's description of a tensor to a lazy tensor over the file's bytes, every bound checked."""

from __future__ import annotations

from typing import Any

from hfconvert.errors import Problem, source_problem
from hfconvert.pickles.values import Global, StorageRef, Stub, TensorRef
from hfconvert.readers.torch_rewritten import Rewritten
from hfconvert.readers.torch_sources import flattened
from hfconvert.tensors.box import Shape
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import LazyTensor, TensorSpec
from hfconvert.tensors.leaf import Leaf, row_major
from hfconvert.tensors.unreadable import UNKNOWN, Quantized, Sparse, Unreadable

_KINDS = {
    "meta": "it is a meta tensor: a shape without data",
    "nested": "it is a nested (ragged) tensor, which safetensors cannot hold",
    "sparse": "it is sparse; safetensors holds dense tensors",
    "quantized": "it is quantised; safetensors has no such type",
}
# What the elements of quantised tensors are; types of which several share a byte stay as they are.
_INTEGERS = {"qint8": BY_CODE["I8"], "quint8": BY_CODE["U8"], "qint32": BY_CODE["I32"]}
_HELP = {
    "sparse": "make it dense with the step densify, or drop it",
    "quantized": "make it plain with the step dequantize, or drop it",
}


def lazy_tensor(ref: TensorRef, name: str, file: str) -> LazyTensor:
    """The tensor, or an Unreadable with the reason where it cannot be read as it is."""
    if ref.kind != "dense":
        return _special(ref, name, file)
    storage, dtype = ref.storage, ref.dtype
    if storage is None or storage.source is None or dtype is None or storage.fault:
        reason = storage.fault if storage is not None else ""
        return unreadable(ref, name, file, reason or "its storage is missing")
    reason = _outside(ref, storage) or _unheld(ref)
    if reason:
        return unreadable(ref, name, file, reason)
    strides = _normal(ref.shape, ref.strides)
    source, start = flattened(storage.source, storage.start + ref.offset * dtype.itemsize)
    spec = TensorSpec(dtype, _counted(ref))
    leaf: LazyTensor = (
        Leaf.packed(spec, source, start)
        if dtype.bits % 8
        else Leaf.strided(spec, source, start, strides)
    )
    if storage.swapped or ref.conj or ref.neg:
        return Rewritten(leaf, swapped=storage.swapped, conj=ref.conj, neg=ref.neg)
    return leaf


def unreadable(ref: TensorRef, name: str, file: str, what: str, detail: Any = None) -> Unreadable:
    """A tensor that stays listed, with what is known of it and why it cannot be read."""
    spec = TensorSpec(ref.dtype or UNKNOWN, ref.shape)
    do = _HELP.get(ref.kind, "drop it, or write the checkpoint again without it")
    return Unreadable(spec, tensor_problem(name, file, what, do), detail or ref)


def stub_tensor(stub: Stub, name: str, file: str) -> Unreadable:
    """An object of a class that is not known, where a tensor should be."""
    what = f"a tensor should be here, but it is an object of {stub.name}"
    do = "drop it, or write the checkpoint again with plain tensors"
    return Unreadable(TensorSpec(UNKNOWN, ()), tensor_problem(name, file, what, do), stub)


def tensor_problem(name: str, file: str, what: str, do: str) -> Problem:
    """Why one tensor of a file cannot be read (exit 3)."""
    return source_problem(
        what, why=f"{file} holds it in this form", do=do, subject=name, check="tensors"
    )


def _special(ref: TensorRef, name: str, file: str) -> LazyTensor:
    if ref.kind == "wrapper":
        kind = (
            ref.detail[0]
            if type(ref.detail) is tuple and type(ref.detail[0]) is Global
            else "subclass"
        )
        return unreadable(
            ref, name, file, f"it is a {kind}, which keeps its data in parts of its own"
        )
    what = _KINDS[ref.kind]
    if ref.kind == "sparse":
        parts = [lazy_tensor(part, name, file) for part in ref.parts]
        return unreadable(
            ref, name, file, what, Sparse(str(ref.detail), tuple(parts[:-1]), parts[-1])
        )
    if ref.kind == "quantized":
        return unreadable(ref, name, file, what, _quantized(ref, name, file))
    return unreadable(ref, name, file, what)


def _quantized(ref: TensorRef, name: str, file: str) -> Quantized | None:
    """`(scheme, scale, zero point)`, or `(scheme, scales, zero points, axis)` by channel."""
    held = _INTEGERS.get(ref.dtype.code if ref.dtype else "", ref.dtype)
    dense = TensorRef("dense", held, ref.shape, ref.strides, ref.offset, ref.storage)
    stored = lazy_tensor(dense, name, file)
    scheme, *values = ref.detail
    label = scheme.name if type(scheme) is Global else ""
    match values:
        case [float(scale), int(zero)]:
            return Quantized(label, stored, scale, zero)
        case [TensorRef() as scales, TensorRef() as zeros, int(axis)]:
            made = lazy_tensor(scales, name, file), lazy_tensor(zeros, name, file)
            return Quantized(label, stored, *made, axis)
        case _:
            return None


def _outside(ref: TensorRef, storage: StorageRef) -> str:
    """What is wrong when the view does not lie within its storage."""
    if 0 in ref.shape or ref.dtype is None:
        return ""
    steps = zip(ref.shape, ref.strides, strict=True)
    last = ref.offset + sum((size - 1) * stride for size, stride in steps)
    held = storage.nbytes // ref.dtype.itemsize
    if last < held:
        return ""
    return f"it reaches to element {last} of a storage of {held}"


def _unheld(ref: TensorRef) -> str:
    """What is wrong when the element type, or its layout, cannot be held."""
    dtype = ref.dtype
    if dtype is None or (dtype.kind == "packed" and dtype.bits >= 8 and not dtype.stored):
        return f"its type is {dtype}, which safetensors lacks"
    if not dtype.stored:
        return f"its type is {dtype.torch}, which safetensors lacks"
    if dtype.bits % 8 and (
        not ref.shape or _normal(ref.shape, ref.strides) != row_major(ref.shape)
    ):
        return f"its elements of type {dtype.torch} do not lie side by side"
    return ""


def _counted(ref: TensorRef) -> Shape:
    """The shape in elements: torch counts bytes where two elements share one."""
    if ref.dtype is not None and ref.dtype.bits % 8:
        return (*ref.shape[:-1], ref.shape[-1] * (8 // ref.dtype.bits))
    return ref.shape


def _normal(shape: Shape, strides: Shape) -> Shape:
    """The strides, with those that move nothing as packed data would have them."""
    packed = row_major(shape)
    if 0 in shape:
        return packed
    return tuple(
        whole if size == 1 else stride
        for size, stride, whole in zip(shape, strides, packed, strict=True)
    )
