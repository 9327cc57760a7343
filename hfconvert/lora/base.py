"""The base as adapters see it: modules with their parameters, however the files store them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.lazy import LazyTensor


class Replaced(Protocol):
    """What takes the place of a tensor."""

    @property
    def tensor(self) -> LazyTensor:
        """The tensor itself."""


# Modules that keep their weight as [in, out], by the model types that use `transformers.Conv1D`.
_CONV1D_TYPES = frozenset(
    {"gpt2", "openai-gpt", "imagegpt", "decision_transformer", "gpt-sw3", "clvp"}
)
_CONV1D_NAMES = re.compile(r"\.(c_attn|c_proj|c_fc|q_attn)$")
# One expert of a stack: number, projection.
_EXPERT = re.compile(r"^(?P<stack>.+\.experts)\.(?P<number>\d+)\.(?P<projection>\w+)\.weight$")
# Parts of a stacked parameter by the names that projections have in files, in their order within it.
STACKED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "gate_up_proj": (("gate_proj", "up_proj"), ("w1", "w3"), ("gate_up_proj",)),
    "down_proj": (("down_proj",), ("w2",)),
    "up_proj": (("up_proj",), ("w3",)),
    "gate_proj": (("gate_proj",), ("w1",)),
}


@dataclass(frozen=True)
class Base:
    """Tensors by name, grouped into modules; `config` is the model's, empty where there is none.

    `ties` are names that are not stored, with the name that each is restored from.
    """

    checkpoint: Checkpoint
    config: Mapping[str, Any]
    ties: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def modules(self) -> dict[str, dict[str, str]]:
        """Module to parameter to the name of the tensor."""
        modules: dict[str, dict[str, str]] = {}
        for name in self.checkpoint:
            module, _, parameter = name.rpartition(".")
            modules.setdefault(module, {})[parameter] = name
        return modules

    @cached_property
    def stacks(self) -> dict[str, dict[str, dict[int, str]]]:
        """Experts that are stored one by one: module, projection and number to the name of the tensor."""
        stacks: dict[str, dict[str, dict[int, str]]] = {}
        for name in self.checkpoint:
            found = _EXPERT.match(name)
            if found:
                stack = stacks.setdefault(found["stack"], {})
                stack.setdefault(found["projection"], {})[int(found["number"])] = name
        return stacks

    def knows(self, module: str) -> bool:
        """Whether the files hold a parameter of this module, its experts one by one, or its tied twin."""
        owner, _, last = module.rpartition(".")
        stacked = module in self.checkpoint or (owner in self.stacks and last in STACKED)
        return self.has_module(module) or f"{module}.weight" in self.ties or stacked

    def owner_of(self, module: str) -> str:
        """The module itself; of a stacked parameter that is named as if it were one, the module it is of."""
        owner, _, last = module.rpartition(".")
        stacked = module in self.checkpoint or (owner in self.stacks and last in STACKED)
        return owner if stacked and not self.has_module(module) else module

    def weight_of(self, module: str) -> str | None:
        """The name of the module's weight, stored or tied to one that is; None where it has none."""
        name = f"{module}.weight"
        return name if name in self.checkpoint or name in self.ties else None

    def tensor_of(self, module: str, parameter: str) -> str:
        """What a parameter of a module is called, be it there or not."""
        return f"{module}.{parameter}"

    def rows_of(self, name: str, replaced: Mapping[str, Replaced]) -> int:
        """Rows of a tensor, after it was replaced."""
        return replaced[name].tensor.spec.shape[0] if name in replaced else self.shape(name)[0]

    def shape_or_none(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor, None where there is no such tensor."""
        known = name in self.checkpoint or name in self.ties
        return self.shape(name) if known else None

    def has_module(self, module: str) -> bool:
        """Whether the files hold a parameter of this module, or its experts one by one."""
        return module in self.modules or module in self.stacks

    def tensor_or_none(self, name: str) -> LazyTensor | None:
        """A tensor of the base, stored or tied; None where there is none."""
        entry = self.checkpoint.get(self.ties.get(name, name))
        return entry.tensor if entry else None

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, or of the one that it is tied to."""
        return self.checkpoint[self.ties.get(name, name)].tensor.spec.shape

    def stores_transposed(self, module: str) -> bool | None:
        """Whether the module keeps its weight as [in, out], where model type and name tell; else None."""
        kind = self.config.get("model_type")
        if kind is None:
            return None
        return kind in _CONV1D_TYPES and bool(_CONV1D_NAMES.search(f".{module}"))


def family(module: str) -> str:
    """What modules of a kind have in common: the last part of the name that is no number."""
    parts = [part for part in module.split(".") if not part.isdigit()]
    return parts[-1] if parts else module


def count_families(modules: Iterable[str]) -> dict[str, int]:
    """How many modules of each family."""
    counts: dict[str, int] = {}
    for module in modules:
        counts[family(module)] = counts.get(family(module), 0) + 1
    return counts
