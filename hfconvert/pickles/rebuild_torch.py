"""Rebuilders for torch: tensors become descriptions (TensorRef), nothing is computed or allocated.

The forms are those of `torch.Tensor.__reduce_ex__` and `torch._utils` of torch 0.1 to 2.13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hfconvert.pickles.values import Global, StorageRef, TensorRef
from hfconvert.tensors.box import Shape
from hfconvert.tensors.dtype import BY_TORCH, DType

_SIZES = 1 << 62
MAX_DIMENSIONS = 32  # of numpy before 2.0; torch allows 64

TYPED_STORAGES: Mapping[str, str] = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "QInt8Storage": "qint8",
    "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32",
    "QUInt4x2Storage": "quint4x2",
    "QUInt2x4Storage": "quint2x4",
}
_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "long": "int64",
    "int": "int32",
}


def storage_dtype(kind: Any) -> DType | None:
    """The element type of a storage class; None for untyped storages. ValueError for anything else."""
    if type(kind) is not Global:
        raise ValueError(type(kind).__name__)
    if kind.name in ("UntypedStorage", "_UntypedStorage") and kind.module in (
        "torch",
        "torch.storage",
    ):
        return None
    if kind.module in ("torch", "torch.cuda") and kind.name in TYPED_STORAGES:
        return BY_TORCH[TYPED_STORAGES[kind.name]]
    raise ValueError(str(kind))


def location_of(value: Any) -> str:
    """The device that a storage was on, such as `cuda:0`."""
    return value[:64] if type(value) is str else ""


def dtype_of(value: Any) -> DType:
    """The element type that `torch.float32` and the like name. ValueError for anything else."""
    if type(value) is Global and value.module == "torch":
        name = _ALIASES.get(value.name, value.name)
        if name in BY_TORCH:
            return BY_TORCH[name]
    raise ValueError(value)


def tensor(args: tuple[Any, ...]) -> TensorRef:
    """`_rebuild_tensor(storage, offset, size, stride)`, and the longer forms `_v2` and `_v3`."""
    storage, offset, size, stride, *rest = args
    dense = _dense(storage, _dtype_of_storage(storage), offset, size, stride)
    if not rest:
        return dense
    flags = rest[2] if len(rest) > 2 and isinstance(rest[2], dict) else {}
    return _flagged(dense, rest[0], flags)


def tensor_of_dtype(args: tuple[Any, ...]) -> TensorRef:
    """`_rebuild_tensor_v3(storage, offset, size, stride, requires_grad, hooks, dtype, metadata)`."""
    storage, offset, size, stride, requires_grad, _, dtype, *rest = args
    flags = rest[0] if rest and isinstance(rest[0], dict) else {}
    return _flagged(_dense(storage, dtype_of(dtype), offset, size, stride), requires_grad, flags)


def parameter(args: tuple[Any, ...]) -> TensorRef:
    """`_rebuild_parameter(data, requires_grad, hooks)`, with or without state: the data."""
    data, requires_grad = args[:2]
    return replace(_checked(data), requires_grad=requires_grad is True)


def sparse(args: tuple[Any, ...]) -> TensorRef:
    """`_rebuild_sparse_tensor(layout, data)`: indices and values are the parts."""
    layout, data = text(args[:1]), args[1]
    count = 2 if layout == "torch.sparse_coo" else 3
    parts = tuple(_checked(part) for part in data[:count])
    return TensorRef("sparse", parts[-1].dtype, _shape(data[count]), parts=parts, detail=layout)


def sparse_csr(args: tuple[Any, ...]) -> TensorRef:
    """`_rebuild_sparse_csr_tensor(layout, data)`, of older versions."""
    return sparse(args)


def quantized(args: tuple[Any, ...]) -> TensorRef:
    """`_rebuild_qtensor(storage, offset, size, stride, quantizer, requires_grad, hooks)`."""
    storage, offset, size, stride, quantizer = args[:5]
    dense = _dense(storage, _dtype_of_storage(storage), offset, size, stride)
    if type(quantizer) is not tuple:
        raise TypeError(quantizer)
    parts = tuple(part for part in quantizer if isinstance(part, TensorRef))
    return replace(dense, kind="quantized", parts=parts, detail=quantizer)


def meta(args: tuple[Any, ...]) -> TensorRef:
    """`_rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad)`: no data at all."""
    dtype, size, stride = args[:3]
    return TensorRef("meta", dtype_of(dtype), _shape(size), _shape(stride))


def nested(args: tuple[Any, ...]) -> TensorRef:
    """`_rebuild_nested_tensor(buffer, sizes, strides, offsets)`."""
    buffer = _checked(args[0])
    return TensorRef("nested", buffer.dtype, (), parts=tuple(_checked(part) for part in args))


def wrapper(args: tuple[Any, ...]) -> TensorRef:
    """`_rebuild_wrapper_subclass(class, dtype, size, stride, offset, layout, device, requires_grad)`."""
    kind, dtype, size, stride = args[:4]
    return TensorRef("wrapper", dtype_of(dtype), _shape(size), _shape(stride), detail=(kind, None))


def device_tensor(args: tuple[Any, ...]) -> TensorRef:
    """`_rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad)`: the CPU copy."""
    data = _checked(args[0])
    if data.dtype is not dtype_of(args[1]):
        raise ValueError(args[1])
    return data


def size(args: tuple[Any, ...]) -> Shape:
    """`torch.Size(sizes)`."""
    return _shape(args[0]) if args else ()


def device(args: tuple[Any, ...]) -> str:
    """`torch.device(kind, index)`, as torch prints it."""
    return ":".join(str(_small(part)) for part in args)


def text(args: tuple[Any, ...]) -> str:
    """A layout or version: its string."""
    if type(args[0]) is not str:
        raise TypeError(args)
    return args[0]


def _small(value: Any) -> Any:
    if type(value) not in (str, int):
        raise TypeError(value)
    return value


def _dense(storage: Any, dtype: DType, offset: Any, size: Any, stride: Any) -> TensorRef:
    if not isinstance(storage, StorageRef) or type(offset) is not int or not 0 <= offset < _SIZES:
        raise TypeError(offset)
    shape, strides = _shape(size), _shape(stride)
    if len(shape) != len(strides):
        raise ValueError(size)
    return TensorRef("dense", dtype, shape, strides, offset, storage)


def _flagged(dense: TensorRef, requires_grad: Any, flags: Mapping[Any, Any]) -> TensorRef:
    if requires_grad is not True and not flags:
        return dense
    conj, neg = flags.get("conj") is True, flags.get("neg") is True
    return replace(dense, requires_grad=requires_grad is True, conj=conj, neg=neg)


def _dtype_of_storage(storage: Any) -> DType:
    if not isinstance(storage, StorageRef):
        raise TypeError(storage)
    return storage.dtype or BY_TORCH["uint8"]


def _shape(sizes: Any) -> Shape:
    """Sizes or strides: natural numbers that a file can have. ValueError for anything else."""
    if type(sizes) is list:
        sizes = tuple(sizes)
    if type(sizes) is not tuple or len(sizes) > MAX_DIMENSIONS:
        raise ValueError(sizes)
    for value in sizes:
        if type(value) is not int or not 0 <= value < _SIZES:
            raise ValueError(value)
    return sizes


def _checked(value: Any) -> TensorRef:
    if not isinstance(value, TensorRef):
        raise TypeError(type(value))
    return value


_UTILS: Mapping[str, Callable[[tuple[Any, ...]], Any]] = {
    "_rebuild_tensor": tensor,
    "_rebuild_tensor_v2": tensor,
    "_rebuild_tensor_v3": tensor_of_dtype,
    "_rebuild_parameter": parameter,
    "_rebuild_parameter_with_state": parameter,
    "_rebuild_sparse_tensor": sparse,
    "_rebuild_sparse_csr_tensor": sparse_csr,
    "_rebuild_qtensor": quantized,
    "_rebuild_meta_tensor_no_storage": meta,
    "_rebuild_nested_tensor": nested,
    "_rebuild_wrapper_subclass": wrapper,
    "_rebuild_device_tensor_from_cpu_tensor": device_tensor,
}

REBUILDS: Mapping[Global, Callable[[tuple[Any, ...]], Any]] = {
    **{Global("torch._utils", name): rebuild for name, rebuild in _UTILS.items()},
    Global("torch", "Size"): size,
    Global("torch", "device"): device,
    Global("torch.serialization", "_get_layout"): text,
    Global("torch.torch_version", "TorchVersion"): text,
    **{
        Global("torch.jit._pickle", name): lambda args: args[0]
        for name in ("build_intlist", "build_doublelist", "build_boollist", "build_tensorlist")
    },
    Global("torch.jit._pickle", "restore_type_tag"): lambda args: args[0],
}
