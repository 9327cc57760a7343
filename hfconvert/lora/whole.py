"""The node that hands a whole module to PEFT, for updates that cannot be made block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hfconvert.dtypes.convert import FLOATS, convert
from hfconvert.lora.peft_module import memory_of, merge_module
from hfconvert.lora.product import Floats
from hfconvert.lora.terms import Layer, Term
from hfconvert.tensors.box import Box, Shape, full
from hfconvert.tensors.dtype import BY_CODE, DType
from hfconvert.tensors.lazy import (
    Input,
    LazyTensor,
    Mesh,
    Place,
    RawArray,
    TensorSpec,
    needs_of_inputs,
)
from hfconvert.tensors.source import ByteRange
from hfconvert.tensors.tally import Tally


def lost_values(base: LazyTensor, merged: Floats, box: Box) -> int:
    """How many values of the box a merge made infinite or NaN; the base is read only where there are some."""
    lost = ~np.isfinite(merged)
    if not lost.any():
        return 0
    raw = np.empty(merged.shape, base.spec.dtype.raw)
    base.fill(raw, box)
    before = np.isfinite(raw.view(FLOATS[base.spec.dtype.code]))
    return int(np.count_nonzero(before & lost))


@dataclass(frozen=True, slots=True)
class PeftMerged:
    """The parameter `output` of a module after PEFT merged `terms` into it, rounded once to `dtype`.

    `bases` are the module's parameters before. The module is held whole while it is merged.
    """

    bases: Mapping[str, LazyTensor]
    output: str
    layer: Layer
    terms: tuple[Term, ...]
    dtype: DType
    name: str
    tally: Tally
    native: bool = False

    @property
    def spec(self) -> TensorSpec:
        """The shape of the base, the dtype that is written."""
        return TensorSpec(self.dtype, self._base.spec.shape)

    @property
    def extent(self) -> Shape:
        """That of the base."""
        return self._base.extent

    @property
    def grain(self) -> int:
        """All of it at once."""
        return max(1, self.extent[0]) if self.extent else 1

    @property
    def scratch(self) -> int:
        """The module in float32, and what PEFT makes of it."""
        return memory_of(self.bases)

    def rounded_to(self, dtype: DType) -> PeftMerged:
        """The same merge rounded to another dtype, once."""
        return replace(self, dtype=dtype)

    def fill(self, out: RawArray, box: Box) -> None:
        """Merge the whole module, and take the part of the box."""
        merged = merge_module(self.bases, self.layer, self.terms, native=self.native)[self.output]
        part = merged[tuple(slice(lo, hi) for lo, hi in box)]
        before = self._base.spec.dtype
        kind = before if self.native or before.code == "F64" else BY_CODE["F32"]
        packed = np.ascontiguousarray(part).reshape(-1)
        result, loss = convert(packed, kind, self.dtype)
        out[...] = result.reshape(part.shape)
        lost = lost_values(self._base, packed.view(FLOATS[kind.code]).reshape(part.shape), box)
        self.tally.add(self.name, loss._replace(overflow=loss.overflow + lost))

    def needs(self, box: Box) -> Iterator[ByteRange]:
        """All of the module and all of the adapter's share of it."""
        return needs_of_inputs(self, box)

    def inputs(self, box: Box) -> Iterator[Input]:
        """All of the module and all of the adapter's share of it."""
        for tensor in self.bases.values():
            yield Input(tensor, full(tensor.extent))
        for term in self.terms:
            for tensor in (*term.tensors.values(), *term.shared.values()):
                yield Input(tensor, full(tensor.extent))

    def where(self, mesh: Mesh) -> Iterator[Place]:
        """Nowhere: every value is computed."""
        return iter(())

    @property
    def _base(self) -> LazyTensor:
        return self.bases[self.output]
