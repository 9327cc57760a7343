"""What a merge is, as values: what is summed into which tensor, and what the whole of it did.

Separate from how it is done: a plan without adapters loads nothing of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hfconvert.findings import Finding
    from hfconvert.lora.adapter import Adapter
    from hfconvert.lora.terms import Term
    from hfconvert.lora.whole_model import WholeModel
    from hfconvert.readers.json_text import KeyPath
    from hfconvert.tensors.checkpoint import Checkpoint
    from hfconvert.tensors.lazy import LazyTensor


@dataclass(frozen=True, slots=True)
class Sum:
    """A tensor that was merged: what it was, and all that is added to it, in order.

    `output` is its name within its module, `bases` are the module's parameters where PEFT merges it whole,
    `model` is the whole model where PEFT merges that.
    """

    base: LazyTensor
    terms: tuple[Term, ...]
    output: str = "weight"
    bases: Mapping[str, LazyTensor] = field(default_factory=dict)
    model: WholeModel | None = None


@dataclass(frozen=True, slots=True)
class Merges:
    """What was merged, for plan, check and report.

    `sums` by the name of the tensor. `touched` and `targeted` count modules by family. `config` are the
    values of the configuration that change, `untied` the names that are written though the base ties them.
    """

    adapters: tuple[Adapter, ...] = ()
    sums: Mapping[str, Sum] = field(default_factory=dict)
    touched: Mapping[str, int] = field(default_factory=dict)
    targeted: Mapping[str, int] = field(default_factory=dict)
    native: bool = False
    config: Mapping[KeyPath, Any] = field(default_factory=dict)
    untied: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The checkpoint with its merges, and what was noticed."""

    checkpoint: Checkpoint
    merges: Merges
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """What the merge knows of its surroundings.

    `config` is the base's configuration, `ties` maps names that are not stored to those they are restored
    from, `source` is the base's identity on the Hub if it has one, `where` gives positions in the recipe.
    `root` is the folder of the base, None where it is no folder or its names were mapped; `folder` is it
    whatever became of the names.
    """

    config: Mapping[str, Any]
    ties: Mapping[str, str]
    source: str | None
    where: Callable[..., str]
    root: Path | None = None
    folder: Path | None = None
