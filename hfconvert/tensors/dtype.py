"""The element types that checkpoints hold, by their safetensors codes and torch names.

Source of the codes: the `Dtype` enum of the safetensors format (0.8); of the torch names: `torch.dtype`.
Types that torch has and safetensors lacks keep torch's name as their code and cannot be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Kind = Literal["float", "int", "bool", "complex", "packed"]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type: `code` is what the JSON documents show, `bits` the size of one element.

    `packed` elements are narrower than a byte or quantised: they are opaque, never cast or rearranged.
    `stored` says whether a safetensors file can hold the type. `torch` is torch's name, or "" for none.
    """

    code: str
    bits: int
    kind: Kind
    torch: str
    stored: bool = True

    @property
    def itemsize(self) -> int:
        """Bytes of one raw unit: of one element, or 1 where several elements share a byte."""
        return max(1, self.bits // 8) if self.bits % 8 == 0 else 1

    @property
    def raw(self) -> np.dtype:
        """The numpy type that holds one raw unit: an unsigned integer, or 16 opaque bytes."""
        return np.dtype("V16") if self.itemsize > 8 else np.dtype(f"<u{self.itemsize}")

    def nbytes(self, elements: int) -> int:
        """Bytes of that many elements, rounded up to whole bytes."""
        return -(-elements * self.bits // 8)

    def __str__(self) -> str:
        return self.code


_TABLE = (
    DType("BOOL", 8, "bool", "bool"),
    DType("U8", 8, "int", "uint8"),
    DType("I8", 8, "int", "int8"),
    DType("U16", 16, "int", "uint16"),
    DType("I16", 16, "int", "int16"),
    DType("U32", 32, "int", "uint32"),
    DType("I32", 32, "int", "int32"),
    DType("U64", 64, "int", "uint64"),
    DType("I64", 64, "int", "int64"),
    DType("F16", 16, "float", "float16"),
    DType("BF16", 16, "float", "bfloat16"),
    DType("F32", 32, "float", "float32"),
    DType("F64", 64, "float", "float64"),
    DType("F8_E4M3", 8, "float", "float8_e4m3fn"),
    DType("F8_E5M2", 8, "float", "float8_e5m2"),
    DType("F8_E4M3FNUZ", 8, "float", "float8_e4m3fnuz"),
    DType("F8_E5M2FNUZ", 8, "float", "float8_e5m2fnuz"),
    DType("F8_E8M0", 8, "float", "float8_e8m0fnu"),
    DType("F4", 4, "packed", "float4_e2m1fn_x2"),
    DType("F6_E2M3", 6, "packed", ""),
    DType("F6_E3M2", 6, "packed", ""),
    DType("C64", 64, "complex", "complex64"),
    DType("complex32", 32, "complex", "complex32", stored=False),
    DType("complex128", 128, "complex", "complex128", stored=False),
    DType("qint8", 8, "packed", "qint8", stored=False),
    DType("quint8", 8, "packed", "quint8", stored=False),
    DType("qint32", 32, "packed", "qint32", stored=False),
    DType("quint4x2", 4, "packed", "quint4x2", stored=False),
    DType("quint2x4", 2, "packed", "quint2x4", stored=False),
    DType("bits1x8", 8, "packed", "bits1x8", stored=False),
    DType("bits2x4", 8, "packed", "bits2x4", stored=False),
    DType("bits4x2", 8, "packed", "bits4x2", stored=False),
    DType("bits8", 8, "packed", "bits8", stored=False),
    DType("bits16", 16, "packed", "bits16", stored=False),
)

BY_CODE = {dtype.code: dtype for dtype in _TABLE}
BY_TORCH = {dtype.torch: dtype for dtype in _TABLE if dtype.torch}
STORED = {dtype.code: dtype for dtype in _TABLE if dtype.stored}
