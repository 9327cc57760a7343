"""`qkv: {from, into, layout, heads, kv_heads}`: query, key and value out of one tensor, or into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hfconvert.errors import Problem, UserError, recipe_problem
from hfconvert.keymap.applied import Applied, StepFunction, Where
from hfconvert.keymap.counts import filled_in
from hfconvert.keymap.gather import ManyToOne, OneToMany
from hfconvert.keymap.made import Make, Making, UnfitError, remade
from hfconvert.keymap.shapes import check_alike, size_along
from hfconvert.recipe.steps import QkvOptions
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor
from hfconvert.tensors.reorder import Take
from hfconvert.tensors.rows import Heads, Rows, blocked, interleaved, inverse
from hfconvert.tensors.simplify import side_by_side, window


def qkv(options: QkvOptions, where: Where) -> StepFunction:
    """Split or fuse along dimension 0, weights and biases alike.

    `interleaved` needs `heads`; `blocked` without heads is three parts of one size. UserError (exit 2) where
    the geometry is missing or does not fit the shapes.
    """
    geometry = _Geometry.of(options, where)
    label = f"qkv {options.layout}"
    if isinstance(options.from_, str):
        rule: OneToMany | ManyToOne = OneToMany.parse(options.from_, tuple(options.into), where)
        make: Make = geometry.split
    else:
        rule = ManyToOne.parse(options.from_, str(options.into), where)
        make = geometry.fuse

    def step(checkpoint: Checkpoint) -> Applied:
        makings = rule.makings(checkpoint, where())
        return Applied(remade(checkpoint, makings, make, label, where()))

    return step


@dataclass(frozen=True, slots=True)
class _Geometry:
    """What the recipe says of the heads; `heads` is None for three blocks of one size."""

    layout: str
    heads: int | None
    kv_heads: int
    gate: bool

    @classmethod
    def of(cls, options: QkvOptions, where: Where) -> _Geometry:
        """Read the options; UserError (exit 2) where they are not enough."""
        heads = None if options.heads is None else filled_in(options.heads, where("heads"))
        kv_heads = heads if options.kv_heads is None else options.kv_heads
        kv_heads = filled_in(1 if kv_heads is None else kv_heads, where("kv_heads"))
        if heads is None and (options.layout == "interleaved" or options.gate):
            raise UserError(_no_heads(where()))
        if heads is not None and heads % kv_heads:
            raise UserError(_uneven(heads, kv_heads, where("kv_heads")))
        return cls(options.layout, heads, kv_heads, options.gate)

    def split(self, tensors: Sequence[LazyTensor], _making: Making) -> list[LazyTensor]:
        """Query, key and value of a fused tensor. UnfitError where its rows do not divide."""
        (fused,) = tensors
        rows = size_along(fused, 0)
        return [_taken(fused, part) for part in self._rows(rows, fused)]

    def fuse(self, tensors: Sequence[LazyTensor], _making: Making) -> list[LazyTensor]:
        """The fused tensor of query, key and value. UnfitError where their rows do not fit each other."""
        check_alike(tensors, 0)
        sizes = [size_along(tensor, 0) for tensor in tensors]
        joined = side_by_side(tensors, 0)
        parts = self._rows(sum(sizes), joined)
        expected = [len(part) for part in parts]
        if sizes != expected:
            said = "equal parts" if self.heads is None else self._said()
            raise UnfitError(
                f"query, key and value have {sizes} rows; {said} would have {expected}",
                why="`heads` or `kv_heads` are those of another model, or the order is another",
                do="list them as query, key, value; mend the heads",
            )
        if self.layout == "blocked":
            return [joined]
        return [Take(joined, 0, inverse(_joined(parts)))]

    def _rows(self, rows: int, tensor: LazyTensor) -> tuple[Rows, Rows, Rows]:
        """The fused rows of each part."""
        if self.heads is None:
            self._check_divides(rows, 3, tensor)
            return blocked(rows // 3, rows // 3)
        unit = Heads(self.heads, self.kv_heads, 1, self.gate).rows
        self._check_divides(rows, unit, tensor)
        heads = Heads(self.heads, self.kv_heads, rows // unit, self.gate)
        if self.layout == "interleaved":
            return interleaved(heads)
        return blocked(heads.query_rows, heads.key_rows)

    def _check_divides(self, rows: int, unit: int, tensor: LazyTensor) -> None:
        if rows % unit == 0 and rows:
            return
        said = "three equal parts" if self.heads is None else self._said()
        raise UnfitError(
            f"{tensor.spec} does not divide into {said}",
            why="`heads` or `kv_heads` are those of another model, or the layout is another",
            do="take them from the model's configuration or arguments",
        )

    def _said(self) -> str:
        gates = ", their gates" if self.gate else ""
        return f"{self.heads} query heads{gates} and {self.kv_heads} key and value heads"


def _taken(fused: LazyTensor, rows: Rows) -> LazyTensor:
    first, last = int(rows[0]), int(rows[-1])
    if last - first == len(rows) - 1 and (rows[1:] > rows[:-1]).all():
        return window(fused, 0, first, last + 1)
    return Take(fused, 0, rows)


def _joined(parts: Sequence[Rows]) -> Rows:
    return np.concatenate(parts)


def _no_heads(subject: str) -> Problem:
    return recipe_problem(
        "the geometry is missing: `heads`",
        why="the order of rows depends on the number of heads, and shapes do not tell it",
        do="add heads: ${config.num_attention_heads} and kv_heads: "
        "${config.num_key_value_heads}, or the numbers",
        subject=subject,
        check="names",
    )


def _uneven(heads: int, kv_heads: int, subject: str) -> Problem:
    return recipe_problem(
        f"{heads} heads do not divide among {kv_heads} key-value heads",
        why="every key-value head serves the same number of heads",
        do="mend one of the two",
        subject=subject,
        check="names",
    )
