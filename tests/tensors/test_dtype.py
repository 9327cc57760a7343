from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save

from hfconvert.tensors.dtype import BY_CODE, BY_TORCH, STORED, DType

# All that the `Dtype` enum of safetensors 0.8 knows, with the bits of one element.
SAFETENSORS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}


def test_every_code_of_safetensors_is_known_with_its_size() -> None:
    assert {code: dtype.bits for code, dtype in STORED.items()} == SAFETENSORS


def test_codes_and_torch_names_are_unique() -> None:
    named = [dtype for dtype in BY_CODE.values() if dtype.torch]
    assert len(named) == len(BY_TORCH)
    assert all(BY_CODE[code].code == code for code in BY_CODE)


@pytest.mark.parametrize("dtype", BY_TORCH.values(), ids=str)
def test_torch_has_the_type_under_that_name(dtype: DType) -> None:
    theirs = getattr(torch, dtype.torch)
    assert isinstance(theirs, torch.dtype)
    assert theirs.is_floating_point == (dtype.kind == "float" or dtype.code == "F4")
    assert theirs.is_complex == (dtype.kind == "complex")


@pytest.mark.parametrize(
    "dtype", [one for one in BY_TORCH.values() if one.kind != "packed"], ids=str
)
def test_sizes_are_those_of_torch(dtype: DType) -> None:
    assert dtype.itemsize == getattr(torch, dtype.torch).itemsize
    assert dtype.raw.itemsize == dtype.itemsize
    assert dtype.nbytes(7) == 7 * dtype.itemsize


@pytest.mark.parametrize(
    "dtype", [one for one in BY_TORCH.values() if one.stored and one.kind != "packed"], ids=str
)
def test_the_safetensors_library_has_the_same_code(dtype: DType) -> None:
    four = torch.zeros(4 * dtype.itemsize, dtype=torch.uint8).view(getattr(torch, dtype.torch))
    assert f'"dtype":"{dtype.code}"'.encode() in save({"w": four})


def test_raw_units_are_unsigned_integers_or_opaque_bytes() -> None:
    assert BY_CODE["BF16"].raw == np.dtype("<u2")
    assert BY_CODE["C64"].raw == np.dtype("<u8")
    assert BY_CODE["complex128"].raw == np.dtype("V16")


@pytest.mark.parametrize(
    ("code", "elements", "nbytes"), [("F4", 3, 2), ("F4", 4, 2), ("F6_E2M3", 4, 3), ("F4", 0, 0)]
)
def test_elements_that_share_bytes_round_up(code: str, elements: int, nbytes: int) -> None:
    assert BY_CODE[code].nbytes(elements) == nbytes
    assert BY_CODE[code].itemsize == 1
    assert str(BY_CODE[code]) == code
