"""What torch's rebuilders describe: views, flags, kinds; and what does not fit stays a stub."""

from __future__ import annotations

from typing import Any

import pytest

from hfconvert.pickles.rebuild_torch import (
    MAX_DIMENSIONS,
    REBUILDS,
    TYPED_STORAGES,
    dtype_of,
    location_of,
    storage_dtype,
)
from hfconvert.pickles.values import Global, StorageRef, TensorRef
from hfconvert.tensors.dtype import BY_TORCH

FLOATS = StorageRef("0", BY_TORCH["float32"], 64, "cpu")
OCTETS = StorageRef("1", None, 64, "cpu")
HOOKS: dict[str, Any] = {}


def torch(name: str) -> Global:
    return Global("torch", name)


def rebuild(name: str, *args: Any, module: str = "torch._utils") -> Any:
    return REBUILDS[Global(module, name)](args)


def test_the_oldest_form_of_a_tensor() -> None:
    made = rebuild("_rebuild_tensor", FLOATS, 3, (2, 2), (2, 1))
    assert (made.kind, made.shape, made.strides, made.offset) == ("dense", (2, 2), (2, 1), 3)
    assert made.dtype is BY_TORCH["float32"]
    assert made.storage is FLOATS


def test_sizes_may_be_lists() -> None:
    assert rebuild("_rebuild_tensor", FLOATS, 0, [2], [1]).shape == (2,)


def test_untyped_storages_hold_octets() -> None:
    assert (
        rebuild("_rebuild_tensor_v2", OCTETS, 0, (4,), (1,), False, HOOKS).dtype
        is BY_TORCH["uint8"]
    )


@pytest.mark.parametrize(
    ("flags", "conj", "neg"),
    [
        ({}, False, False),
        ({"conj": True}, True, False),
        ({"neg": True}, False, True),
        ({"conj": 1}, False, False),
    ],
)
def test_flags_of_a_view(flags: Any, conj: bool, neg: bool) -> None:
    second = rebuild("_rebuild_tensor_v2", FLOATS, 0, (1,), (1,), True, HOOKS, flags)
    third = rebuild("_rebuild_tensor_v3", OCTETS, 0, (1,), (1,), True, HOOKS, torch("int16"), flags)
    assert [(made.conj, made.neg, made.requires_grad) for made in (second, third)] == [
        (conj, neg, True)
    ] * 2
    assert third.dtype is BY_TORCH["int16"]


def test_metadata_of_another_form_is_let_go() -> None:
    assert not rebuild("_rebuild_tensor_v2", FLOATS, 0, (1,), (1,), False, HOOKS, "conj").conj


def test_parameters_are_their_data() -> None:
    data = rebuild("_rebuild_tensor", FLOATS, 0, (1,), (1,))
    for made in (
        rebuild("_rebuild_parameter", data, True, HOOKS),
        rebuild("_rebuild_parameter_with_state", data, True, HOOKS, {"a": 1}),
    ):
        assert (made.requires_grad, made.storage, made.shape) == (True, FLOATS, (1,))


def test_a_tensor_from_another_device() -> None:
    data = rebuild("_rebuild_tensor", FLOATS, 0, (1,), (1,))
    arguments = (data, torch("float32"), "xla:0", False)
    assert rebuild("_rebuild_device_tensor_from_cpu_tensor", *arguments) is data
    with pytest.raises(ValueError, match="int8"):
        rebuild("_rebuild_device_tensor_from_cpu_tensor", data, torch("int8"), "xla:0", False)


def test_a_meta_tensor() -> None:
    made = rebuild("_rebuild_meta_tensor_no_storage", torch("bfloat16"), (2, 3), (3, 1), False)
    assert (made.kind, made.shape, made.storage) == ("meta", (2, 3), None)


def test_a_wrapper_keeps_its_class() -> None:
    made = rebuild(
        "_rebuild_wrapper_subclass", torch("X"), torch("float16"), (2,), (1,), 0, None, "cpu", False
    )
    assert (made.kind, made.detail) == ("wrapper", (torch("X"), None))


def part(kind: str = "int64") -> TensorRef:
    return TensorRef("dense", BY_TORCH[kind], (2,), (1,))


def test_sparse_layouts() -> None:
    coo = rebuild(
        "_rebuild_sparse_tensor", "torch.sparse_coo", (part(), part("float32"), (4, 4), True)
    )
    assert (coo.kind, len(coo.parts), coo.shape, coo.dtype) == (
        "sparse",
        2,
        (4, 4),
        BY_TORCH["float32"],
    )
    rows = (part(), part(), part("float16"), (4, 4))
    for name in ("_rebuild_sparse_tensor", "_rebuild_sparse_csr_tensor"):
        csr = rebuild(name, "torch.sparse_csr", rows)
        assert (len(csr.parts), csr.dtype) == (3, BY_TORCH["float16"])


def test_a_quantiser_by_channel_has_parts() -> None:
    quantizer = (torch("per_channel_affine"), part("float64"), part(), 0)
    made = rebuild(
        "_rebuild_qtensor",
        StorageRef("0", BY_TORCH["qint8"], 4, ""),
        0,
        (2,),
        (1,),
        quantizer,
        False,
        HOOKS,
    )
    assert (made.kind, len(made.parts), made.detail) == ("quantized", 2, quantizer)


MISFITS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "no storage": ("_rebuild_tensor", (None, 0, (1,), (1,))),
    "negative offset": ("_rebuild_tensor", (FLOATS, -1, (1,), (1,))),
    "float offset": ("_rebuild_tensor", (FLOATS, 1.0, (1,), (1,))),
    "one stride missing": ("_rebuild_tensor", (FLOATS, 0, (1, 1), (1,))),
    "negative size": ("_rebuild_tensor", (FLOATS, 0, (-1,), (1,))),
    "size that is a tensor": ("_rebuild_tensor", (FLOATS, 0, (part(),), (1,))),
    "too many dimensions": ("_rebuild_tensor", (FLOATS, 0, (1,) * 33, (1,) * 33)),
    "no dtype": ("_rebuild_tensor_v3", (OCTETS, 0, (1,), (1,), False, HOOKS, "float32")),
    "unknown dtype": ("_rebuild_tensor_v3", (OCTETS, 0, (1,), (1,), False, HOOKS, torch("float7"))),
    "dtype elsewhere": (
        "_rebuild_tensor_v3",
        (OCTETS, 0, (1,), (1,), False, HOOKS, Global("os", "float32")),
    ),
    "parameter of none": ("_rebuild_parameter", (None, True, HOOKS)),
    "quantiser": ("_rebuild_qtensor", (FLOATS, 0, (1,), (1,), None, False, HOOKS)),
    "sparse of none": ("_rebuild_sparse_tensor", ("torch.sparse_coo", (None, None, (1,)))),
    "layout": ("_rebuild_sparse_tensor", ([], (part(), part(), (1,)))),
    "nested of none": ("_rebuild_nested_tensor", (None,)),
    "no arguments": ("_rebuild_tensor_v2", ()),
}


@pytest.mark.parametrize("case", MISFITS)
def test_what_does_not_fit_is_no_tensor(case: str) -> None:
    name, args = MISFITS[case]
    with pytest.raises((TypeError, ValueError, IndexError)):
        rebuild(name, *args)


def test_as_many_dimensions_as_numpy_has() -> None:
    sizes = (1,) * MAX_DIMENSIONS
    assert rebuild("_rebuild_tensor", FLOATS, 0, sizes, sizes).shape == sizes


def test_small_values() -> None:
    assert rebuild("Size", [2, 3], module="torch") == (2, 3)
    assert rebuild("Size", module="torch") == ()
    assert rebuild("device", "cuda", 1, module="torch") == "cuda:1"
    assert rebuild("_get_layout", "torch.strided", module="torch.serialization") == "torch.strided"
    assert rebuild("TorchVersion", "2.13.0", module="torch.torch_version") == "2.13.0"
    with pytest.raises(TypeError):
        rebuild("device", [], module="torch")
    with pytest.raises(TypeError):
        rebuild("TorchVersion", 2, module="torch.torch_version")


def test_lists_of_scripts_are_lists() -> None:
    for name in ("build_intlist", "build_tensorlist", "restore_type_tag"):
        assert rebuild(name, [1, 2], "List[int]", module="torch.jit._pickle") == [1, 2]


def test_storage_classes() -> None:
    for module in ("torch", "torch.cuda"):
        for name, dtype in TYPED_STORAGES.items():
            assert storage_dtype(Global(module, name)) is BY_TORCH[dtype]
    for module, name in (("torch.storage", "UntypedStorage"), ("torch.storage", "_UntypedStorage")):
        assert storage_dtype(Global(module, name)) is None
    for kind in (Global("os", "FloatStorage"), Global("torch", "system"), "FloatStorage", None):
        with pytest.raises(ValueError, match=r"system|FloatStorage|str|NoneType"):
            storage_dtype(kind)


def test_dtypes_by_their_other_names() -> None:
    assert dtype_of(torch("half")) is BY_TORCH["float16"]
    assert dtype_of(torch("long")) is BY_TORCH["int64"]


def test_locations_are_short_strings() -> None:
    assert location_of("cuda:0") == "cuda:0"
    assert location_of("x" * 1000) == "x" * 64
    assert location_of(["deep"]) == ""
