"""Whether the base is the one that the adapter was trained on; adapters of repositories."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hfconvert import sourcing
from hfconvert.errors import UserError
from hfconvert.planning.plan import Plan, make_plan
from hfconvert.readers.origin import Origin
from hfconvert.recipe.loading import load


@pytest.fixture
def plan_from(zoo: Path, tmp_path: Path) -> Callable[..., Plan]:
    """The plan of a merge whose adapter records a base, from a source that stands for a repository."""

    def make(record: str | None, repo: str | None, accepted: str | None = None) -> Plan:
        adapter = tmp_path / "adapter"
        shutil.copytree(zoo / "lora_plain/adapter", adapter, dirs_exist_ok=True)
        config = json.loads((adapter / "adapter_config.json").read_text())
        config["base_model_name_or_path"] = record
        (adapter / "adapter_config.json").write_text(json.dumps(config))
        lora: dict[str, Any] = {"adapters": [{"adapter": str(adapter)}], "base": accepted}
        document = {"version": 1, "source": {"path": str(zoo / "base/llama")}, "lora": lora}
        path = tmp_path / "recipe.yaml"
        path.write_text(json.dumps(document, indent=1))
        origin = Origin(repo=repo, commit="0" * 40) if repo else None
        return make_plan(load(path), origin)

    return make


def said(plan: Plan) -> str:
    return " ".join(one.message for one in plan.findings if one.check == "lora")


def test_the_recorded_base_is_the_source(plan_from: Callable[..., Plan]) -> None:
    assert "trained on org/base, which is the source" in said(plan_from("org/base", "org/base"))


def test_another_base_stops(plan_from: Callable[..., Plan]) -> None:
    with pytest.raises(UserError) as error:
        plan_from("org/base", "org/other")
    assert error.value.exit == 2
    assert "was trained on org/base, the source is org/other" in str(error.value)
    assert "recipe.yaml:" in str(error.value)


def test_another_base_that_the_recipe_accepts(plan_from: Callable[..., Plan]) -> None:
    plan = plan_from("org/base", "org/other", accepted="org/base")
    assert "which the recipe accepts" in said(plan)


@pytest.mark.parametrize("record", [None, "./base", "/data/base"])
def test_what_is_no_identity_is_a_finding(
    record: str | None, plan_from: Callable[..., Plan]
) -> None:
    plan = plan_from(record, "org/other")
    assert "names and shapes decide" in " ".join(one.hint for one in plan.findings)


def test_adapters_of_repositories_are_fetched(
    zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fetch(location: Any) -> sourcing.Place:
        asked.append((location.repo, location.revision))
        return sourcing.Place(zoo / "lora_plain/adapter")

    monkeypatch.setattr(sourcing, "fetch_location", fetch)
    document = {
        "version": 1,
        "source": {"path": str(zoo / "base/llama")},
        "lora": {"adapters": [{"adapter": "org/adapter@v1"}]},
    }
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(document))
    sourced = sourcing.fetch_source(load(path))
    plan = make_plan(sourced.recipe, sourced.origin)
    assert asked == [("org/adapter", "v1")]
    assert len(plan.merges.sums) == 4
