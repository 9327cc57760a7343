"""Whether the engine `model` can do a merge, and the model that it makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from hfconvert.errors import Problem, recipe_problem
from hfconvert.lora.adapter import Adapter
from hfconvert.lora.module_shares import has_peft
from hfconvert.lora.settings import ADAPTER_CONFIG
from hfconvert.lora.settle import Settled
from hfconvert.lora.whole_model import WholeModel
from hfconvert.tensors.checkpoint import Checkpoint


class Surroundings(Protocol):
    """What of its surroundings the engine has to know."""

    @property
    def root(self) -> Path | None:
        """The folder of the base, None where it is no folder or its names were mapped."""

    @property
    def where(self) -> Any:
        """Positions in the recipe."""


def needs_model(adapters: Sequence[Adapter]) -> str:
    """Why PEFT can merge these adapters into the whole model only; empty where it can module by module."""
    known = (adapter.settings for adapter in adapters if adapter.settings.method.whole)
    return "; ".join(dict.fromkeys(f"{one.peft_type}: {one.method.whole}" for one in known))


def unfit_for_model(
    adapters: Sequence[Adapter],
    settled: Settled,
    changed: Mapping[Any, Any],
    around: Surroundings,
) -> Iterator[Problem]:
    """Why a merge is not one that transformers and PEFT could do on the folders as they are (exit 2)."""
    need = needs_model(adapters)
    for reason in _reasons(adapters, settled, changed, around):
        yield recipe_problem(
            f"the engine `model` cannot do this merge: {reason}",
            why="it hands the folders of base and adapter to transformers and PEFT as they are",
            do=f"give both as transformers and PEFT save them; no other engine can do it ({need})"
            if need
            else "leave lora.engine out: module by module it can be done",
            subject=around.where("lora", "engine"),
            check="lora",
        )


def unfit_for_modules(adapters: Sequence[Adapter], around: Surroundings) -> Iterator[Problem]:
    """Why a merge cannot be done module by module, as the recipe asks (exit 2)."""
    if need := needs_model(adapters):
        yield recipe_problem(
            "the engine `module` cannot do this merge",
            why=need,
            do="leave lora.engine out: the whole model is merged then",
            subject=around.where("lora", "engine"),
            check="lora",
        )


def whole_model(
    checkpoint: Checkpoint, adapters: Sequence[Adapter], around: Surroundings, *, native: bool
) -> WholeModel:
    """The model, not made yet."""
    nbytes = sum(entry.tensor.spec.nbytes for entry in checkpoint.values())
    folders = tuple(adapter.root for adapter in adapters)
    return WholeModel(around.root or Path(), folders, native, nbytes)


def _reasons(
    adapters: Sequence[Adapter],
    settled: Settled,
    changed: Mapping[Any, Any],
    around: Surroundings,
) -> Iterator[str]:
    if not has_peft():
        yield "torch and PEFT are not installed; pip install 'hfconvert[models]'"
    if around.root is None:
        yield "the source is one file, or the key map gives its tensors other names"
    elif not (around.root / "config.json").is_file():
        yield "the source has no config.json"
    yield from _reasons_of_adapters(adapters)
    if settled.untied:
        yield f"{settled.untied[0]} is untied, and PEFT would change both ends"
    if changed:
        yield "the base is quantised and made plain"


def _reasons_of_adapters(adapters: Sequence[Adapter]) -> Iterator[str]:
    if any(not (adapter.root / ADAPTER_CONFIG).is_file() for adapter in adapters):
        yield "an adapter has no adapter_config.json that PEFT could read"
    if len({adapter.settings.peft_type for adapter in adapters}) > 1:
        yield "the adapters are of several methods, and PEFT takes those of one into a model"
    if any(adapter.weight != 1 for adapter in adapters):
        yield "an adapter has a weight"
