"""What tests of merges share: small bases, and the tensors of a plan as torch tensors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hfconvert.planning.plan import Plan, make_plan
from hfconvert.recipe.loading import load
from hfconvert.tensors.box import full

State = dict[str, torch.Tensor]
FIXTURES = Path(__file__).parents[1] / "fixtures" / "lora"


@pytest.fixture(scope="session")
def zoo() -> Path:
    """Adapters that PEFT and diffusers wrote, with the right answers."""
    return FIXTURES


@pytest.fixture
def planned(tmp_path: Path) -> Callable[..., Plan]:
    """The plan of a merge: source, adapters (paths, or mappings as a recipe has them), fields of `lora`."""

    def make(
        source: Path, *adapters: Any, recipe: Mapping[str, Any] | None = None, **lora: Any
    ) -> Plan:
        given = [one if isinstance(one, Mapping) else {"adapter": str(one)} for one in adapters]
        document = {
            "version": 1,
            "source": {"path": str(source)},
            "lora": {"adapters": given, **lora},
            **(recipe or {}),
        }
        path = tmp_path / "recipe.yaml"
        path.write_text(json.dumps(document))
        return make_plan(load(path))

    return make


@pytest.fixture
def tensors() -> Callable[[Plan], State]:
    """Every tensor that a plan makes."""
    return _tensors


@pytest.fixture
def merge(planned: Callable[..., Plan]) -> Callable[..., State]:
    """The tensors of a merge."""
    return lambda *arguments, **options: _tensors(planned(*arguments, **options))


def _tensors(plan: Plan) -> State:
    state: State = {}
    for shard in plan.shards:
        for placed in shard.tensors:
            tensor = placed.entry.tensor
            raw = np.empty(tensor.extent, tensor.spec.dtype.raw)
            tensor.fill(raw, full(tensor.extent))
            signed = raw.view(f"i{raw.dtype.itemsize}")
            state[placed.name] = torch.from_numpy(signed).view(
                getattr(torch, tensor.spec.dtype.torch)
            )
    return state
