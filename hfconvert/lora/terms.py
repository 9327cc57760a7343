"""What an adapter adds to one tensor of the base, as data: factors and the numbers that scale them.

The merge computes from it, and so does the check, by code of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hfconvert.lora.settings import Settings
from hfconvert.tensors.lazy import LazyTensor

Kind = Literal["low-rank", "experts", "added", "rows", "module", "whole"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One update of one tensor.

    `low-rank`: A [r, in] and B [out, r], for a weight [out, in] or, `transposed`, [in, out]. `experts`: the
    same for a stack, see `Stack`. `added`: `added` times the scale. `rows`: rows `indices` are replaced by
    those of `rows`. `module`: what PEFT makes of the module from `tensors` and `settings`, with the fields
    `overrides` of its own. `whole`: what it makes of the module in the whole model.
    `first` says that a low-rank update is of some rows of the tensor only, from this one on.
    `parameter` says that PEFT wraps the bare parameter and rounds the update before it adds it.
    """

    kind: Kind
    adapter: str
    module: str  # as the adapter calls it
    tensors: Mapping[str, LazyTensor]
    settings: Settings
    r: int = 1
    alpha: float = 1.0
    weight: float = 1.0
    transposed: bool = False
    first: int | None = None
    parameter: bool = False
    stack: Stack | None = None
    indices: tuple[int, ...] = ()
    shared: Mapping[str, LazyTensor] = field(default_factory=dict)
    layer: Layer | None = None
    recorded: bool = False  # rank and alpha are those that the file itself records for the module
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rslora(self) -> bool:
        """Whether the scale is `alpha / sqrt(r)` instead of `alpha / r`."""
        return bool(self.settings.get("use_rslora"))


@dataclass(frozen=True, slots=True)
class Stack:
    """How an update of stacked matrices lies over a tensor.

    A is [experts * r, in], the expert slowest; B is [out, r * experts], the expert fastest. `swapped`: the
    stack is [experts, in, out]. `expert` and `row`: the tensor is one matrix of the stack, and begins at
    this row of it.
    """

    experts: int
    swapped: bool = False
    expert: int | None = None
    row: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """What kind of module an update is of.

    `transposed` is a Conv1D of transformers. `largest` is [out, in] of the largest module that the adapter
    targets, where its shared tensors have that size. `feedforward` is for IA3, which scales inputs there.
    `parameters` are those of the module's own that the update reads or changes.
    """

    kind: Literal["linear", "embedding", "conv"]
    parameters: tuple[str, ...]
    transposed: bool = False
    largest: tuple[int, int] | None = None
    feedforward: bool = False
