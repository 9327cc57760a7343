"""The exact sum of base and updates in float64, for the `merge` check. Shares no code with the merge.

Values are read at the places that `where` names. The scale comes from alpha and rank anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from hfconvert.checks.gather import values_at
from hfconvert.checks.methods import FORMULAS, Case, has_formula
from hfconvert.lora.merges import Sum
from hfconvert.lora.peft_module import probe_module
from hfconvert.lora.terms import Stack, Term
from hfconvert.tensors.box import Box, full, shape_of
from hfconvert.tensors.dtype import DType
from hfconvert.tensors.lazy import LazyTensor

Doubles = NDArray[np.float64]

# Significant bits and smallest normal exponent of each type; source: IEEE 754-2019, OCP 8-bit floating point.
_PRECISION = {
    "F64": (53, -1022),
    "F32": (24, -126),
    "F16": (11, -14),
    "BF16": (8, -126),
    "F8_E4M3": (4, -6),
    "F8_E5M2": (3, -14),
}
NUMPY: dict[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
}
BY_PEFT = ("module", "whole")  # kinds of terms that PEFT computes
_EPSILON = 2.0**-24  # half a unit in the last place of float32, relative
_MODULE_UNITS = 96  # what whole-module arithmetic may lose, in units of the largest value
_SAFETY = 1.02  # products of (1 + epsilon) and sums in float64


@dataclass(frozen=True, slots=True)
class Exact:
    """A block of the exact result, what was added to the base, and how far arithmetic may be off.

    `slack` bounds the error of sums in float32, before the result is rounded to the dtype that is written.
    `reach` is the largest magnitude that came up on the way, which rounding at a stored dtype depends on.
    """

    value: Doubles
    update: Doubles
    slack: Doubles
    reach: Doubles


@dataclass(frozen=True, slots=True)
class ExactSum:
    """The exact result for one tensor, block by block; made whole once where PEFT merged a whole module."""

    one: Sum
    whole: Exact | None

    @classmethod
    def of(cls, one: Sum) -> ExactSum:
        """With the whole tensor where an update needs it."""
        modules = any(term.kind in BY_PEFT for term in one.terms)
        return cls(one, _whole(one) if modules else None)

    def block(self, box: Box) -> Exact:
        """Base and updates in the box, in the order of the terms."""
        if self.whole is None:
            return exact_block(self.one.base, self.one.terms, box)
        part = tuple(slice(lo, hi) for lo, hi in box)
        whole = self.whole
        return Exact(whole.value[part], whole.update[part], whole.slack[part], whole.reach[part])


def exact_block(base: LazyTensor, terms: tuple[Term, ...], box: Box) -> Exact:
    """Base and updates in the box, where every update can be made block by block."""
    before = read_doubles(base, box)
    value, slack, reach = before.copy(), np.zeros_like(before), np.abs(before)
    for term in terms:
        if term.kind == "rows":
            _replace_rows(term, value, slack, box)
            continue
        update, error = _update(term, box)
        value += update
        slack += error + _EPSILON * np.abs(value)
        reach += np.abs(update)
    return Exact(value, value - before, slack * _SAFETY, reach)


def by_formula(one: Sum) -> bool:
    """Whether the exact sum comes from formulas of our own; else it comes from PEFT's forward pass."""
    return all(term.kind not in BY_PEFT or has_formula(term) for term in one.terms)


def _whole(one: Sum) -> Exact:
    """Float32 arithmetic on whole modules loses some units in the last place of the largest values."""
    box = full(one.base.extent)
    before = read_doubles(one.base, box)
    value = _by_formulas(one, before, box) if by_formula(one) else _by_forward(one)
    largest = max(_largest(value), _largest(before))
    slack = np.full(before.shape, _MODULE_UNITS * _EPSILON * largest)
    return Exact(value, value - before, slack, np.full(before.shape, 2 * largest))


def _largest(values: Doubles) -> float:
    """The largest magnitude of what is finite: one value that is not leaves no room to the others."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0))


def _by_formulas(one: Sum, before: Doubles, box: Box) -> Doubles:
    value = before.copy()
    for term in one.terms:
        if term.kind == "rows":
            _replace_rows(term, value, np.zeros_like(value), box)
        elif term.kind != "module":
            value += _update(term, box)[0]
        else:
            value = _by_formula(term, value, before)
    return value


def _by_formula(term: Term, value: Doubles, before: Doubles) -> Doubles:
    named = {**term.tensors, **term.shared}
    tensors = {
        name.removesuffix(".weight"): read_doubles(tensor, full(tensor.extent))
        for name, tensor in named.items()
    }
    formula = FORMULAS[term.settings.peft_type]
    if value.ndim == 1:  # a bias
        bias = tensors.get("lora_B.bias")
        return value + bias * scale(term) if bias is not None else _scaled(value, tensors, term)
    if term.layer is not None and term.layer.transposed:
        return formula(Case(value.T, before.T, tensors, term, scale(term))).T
    return formula(Case(value, before, tensors, term, scale(term)))


def _scaled(value: Doubles, tensors: Mapping[str, Doubles], term: Term) -> Doubles:
    """A bias under IA3: scaled as the outputs are, where it is they that are scaled."""
    inputs = term.layer is not None and term.layer.feedforward
    return value if inputs else value * tensors["ia3_l"].reshape(-1)


def _by_forward(one: Sum) -> Doubles:
    if one.model is not None:
        module: Doubles = one.model.probe(one.terms[0].module)[one.output]
        return module
    layer = next(term.layer for term in one.terms if term.layer is not None)
    result: Doubles = probe_module(one.bases, layer, one.terms)[one.output]
    return result


def half_unit(value: Doubles, dtype: DType) -> Doubles:
    """Half a unit in the last place of the dtype, at each value."""
    bits, lowest = _PRECISION[dtype.code]
    _, exponent = np.frexp(value)  # value = m * 2**exponent with m in [0.5, 1)
    unit: Doubles = np.ldexp(0.5, np.maximum(exponent - 1, lowest) - (bits - 1))
    return unit


def read_doubles(tensor: LazyTensor, box: Box) -> Doubles:
    """A part of a tensor as float64, by `where`; by `fill` where values are computed and lie nowhere."""
    shape, dtype = shape_of(box), tensor.spec.dtype
    mesh = tuple(np.arange(lo, hi, dtype=np.int64) for lo, hi in box)
    result = np.empty(shape, np.float64)
    held = 0
    for place in tensor.where(mesh):
        values = values_at(place).view(NUMPY[place.dtype.code]).astype(np.float64)
        result[np.ix_(*place.select)] = values
        held += values.size
    if held < result.size:
        raw = np.empty(shape, dtype.raw)
        tensor.fill(raw, box)
        result[...] = raw.view(NUMPY[dtype.code])
    return result


def scale(term: Term) -> float:
    """alpha over rank, or over its root, times the weight of the adapter."""
    divisor = math.sqrt(term.r) if term.settings.get("use_rslora") else float(term.r)
    return term.weight * term.alpha / divisor


def _update(term: Term, box: Box) -> tuple[Doubles, Doubles]:
    if term.kind == "experts" and term.stack is not None:
        return _experts(term, term.stack, box)
    if term.kind == "added":
        update = read_doubles(term.tensors["added"], box) * scale(term)
        return update, 2 * _EPSILON * np.abs(update)
    return _low_rank(term, box) if term.first is None else _some_rows(term, term.first, box)


def _some_rows(term: Term, first: int, box: Box) -> tuple[Doubles, Doubles]:
    """An update of some rows of a tensor: nothing is added to the others, and nothing lost."""
    (top, bottom), columns = box
    lo, hi = max(top, first), min(bottom, first + term.tensors["B"].spec.shape[0])
    update, error = np.zeros(shape_of(box)), np.zeros(shape_of(box))
    if lo < hi:
        inner = slice(lo - top, hi - top)
        update[inner], error[inner] = _low_rank(term, ((lo - first, hi - first), columns))
    return update, error


def _low_rank(term: Term, box: Box) -> tuple[Doubles, Doubles]:
    """Column by row: outer sums over the rank, in float64; the error by the norms of what is multiplied."""
    rows, columns = box
    a, b = term.tensors["A"], term.tensors["B"]
    rank = (0, a.spec.shape[0])
    if term.transposed:
        left, right = read_doubles(a, (rank, rows)).T, read_doubles(b, (columns, rank)).T
    else:
        left, right = read_doubles(b, (rows, rank)), read_doubles(a, (rank, columns))
    return product(left, right, scale(term))


def _experts(term: Term, stack: Stack, box: Box) -> tuple[Doubles, Doubles]:
    """Matrix by matrix; A has the expert as its slowest dimension, B as its fastest."""
    a, b = (read_doubles(one, full(one.extent)) for one in (term.tensors["A"], term.tensors["B"]))
    if a.ndim == 2:
        a = a.reshape(stack.experts, term.r, -1)
        b = np.moveaxis(b.reshape(-1, term.r, stack.experts), 2, 0)
    numbers = range(*box[0]) if stack.expert is None else [stack.expert]
    rows, columns = box[-2:]
    inner = slice(rows[0] + stack.row, rows[1] + stack.row)
    updates, errors = [], []
    for number in numbers:
        left, right = (a[number].T, b[number].T) if stack.swapped else (b[number], a[number])
        update, error = product(left[inner], right[:, slice(*columns)], scale(term))
        updates.append(update)
        errors.append(error)
    shape = shape_of(box)
    return np.stack(updates).reshape(shape), np.stack(errors).reshape(shape)


def product(left: Doubles, right: Doubles, factor: float) -> tuple[Doubles, Doubles]:
    """The scaled product, and a bound for the error of computing it in float32."""
    update = (left @ right) * factor
    norms = np.outer(np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=0))
    return update, _EPSILON * (len(right) + 2) * abs(factor) * norms


def _replace_rows(term: Term, value: Doubles, slack: Doubles, box: Box) -> None:
    tensor = term.tensors["rows"]
    rows = read_doubles(tensor, full(tensor.extent))
    inner = tuple(slice(lo, hi) for lo, hi in box[1:])
    lo, hi = box[0]
    for number, row in enumerate(term.indices):
        if lo <= row < hi:
            value[row - lo] = rows[number][inner]
            slack[row - lo] = 0
