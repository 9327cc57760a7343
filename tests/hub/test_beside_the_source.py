"""What a recipe names beside its source, on the Hub: the repository of the assets, the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from hfconvert.console import Console
from hfconvert.errors import Exit, UserError
from hfconvert.preview import plan
from hfconvert.recipe import parse
from hfconvert.report.documents import plan_document
from hfconvert.run import ChecksFailedError, run
from tests.hub.loopback.server import RunningHub

WEIGHTS = {"layers.0.weight": torch.arange(6.0).reshape(2, 3), "layers.1.weight": torch.ones(2)}
CONFIG = b'{"model_type": "x", "torch_dtype": "float32"}'


@pytest.fixture
def local(hub: RunningHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local pickle without any file beside it."""
    monkeypatch.setenv("HF_TOKEN", hub.token())
    (tmp_path / "source").mkdir()
    torch.save(WEIGHTS, tmp_path / "source" / "pytorch_model.bin")
    return tmp_path / "source"


def _recipe(local: Path, *overrides: str) -> Any:
    text = f"version: 1\nsource: {{path: {local}}}\n"
    return parse(text, "recipe.yaml", [f"output.path={local.parent / 'out'}", *overrides])


def test_assets_of_a_repository(hub: RunningHub, local: Path) -> None:
    large = save({"w": torch.zeros(1 << 20)})
    hub.repo(
        "other/base",
        {"config.json": CONFIG, "tokenizer.json": b"{}", "model.safetensors": large},
    )
    recipe = _recipe(local, "source.assets_from=other/base")
    assert plan(recipe).digest is not None
    done = run(recipe, Console())
    assert {"config.json", "tokenizer.json"} <= {one.file for one in done.outputs}
    assert (local.parent / "out" / "config.json").read_bytes() == CONFIG
    assert hub.log.sent() < len(large), "weights of the other repository are none of our business"
    assert run(recipe, Console()).status == "up-to-date"
    hub.push("other/base", {"tokenizer.json": b'{"version": "1.0"}'})
    with pytest.raises(UserError) as caught:  # other content is another conversion
        run(recipe, Console())
    assert caught.value.exit == Exit.RECIPE


def test_assets_of_a_repository_that_is_not_there(hub: RunningHub, local: Path) -> None:
    with pytest.raises(UserError) as caught:
        plan(_recipe(local, "source.assets_from=other/none"))
    assert caught.value.exit == Exit.HUB


def test_a_reference_on_the_hub_is_matched_by_its_headers(hub: RunningHub, local: Path) -> None:
    theirs = {f"model.{name}": tensor for name, tensor in WEIGHTS.items()}
    large = save({**theirs, "model.big": torch.zeros(4 << 20)})
    hub.repo("other/same", {"model.safetensors": large, "config.json": CONFIG})
    document = plan_document(plan(_recipe(local, "validate.reference=other/same")))
    (finding,) = (one for one in document["findings"] if one["check"] == "names")
    assert "only in the reference: model.big" in finding["message"].replace("`", "")
    assert 'add_prefix: "model."' in finding["hint"] or "rename" in finding["hint"]
    assert hub.log.sent() < 1 << 20


def test_a_run_must_have_the_names_of_its_reference(hub: RunningHub, local: Path) -> None:
    hub.repo("other/same", {"model.safetensors": save(WEIGHTS), "config.json": CONFIG})
    hub.repo("other/not", {"model.safetensors": save({"w": torch.ones(1)}), "config.json": CONFIG})
    done = run(_recipe(local, "validate.reference=other/same"), Console())
    (check,) = (one for one in done.checks if one.name == "architecture")
    commit = hub.repos["other/same"].head.id
    assert (check.status, check.detail) == ("pass", f"the reference other/same@{commit}")
    elsewhere = f"output.path={local.parent / 'elsewhere'}"
    with pytest.raises(ChecksFailedError) as caught:
        run(_recipe(local, "validate.reference=other/not", elsewhere), Console())
    assert [one.name for one in caught.value.report.checks if one.status == "fail"] == [
        "architecture"
    ]
    assert not (local.parent / "elsewhere").exists()


def test_the_digest_knows_the_commit_of_the_reference(hub: RunningHub, local: Path) -> None:
    """Its files may lie anywhere on a machine; what it holds is what the result was held against."""
    hub.repo("other/same", {"model.safetensors": save(WEIGHTS), "config.json": CONFIG})
    recipe = _recipe(local, "validate.reference=other/same")
    first = plan(recipe)
    assert json.dumps(dict(first.canonical)).count(hub.repos["other/same"].head.id) == 1
    assert plan(recipe).digest == first.digest
    hub.push("other/same", {"README.md": b"new"})
    assert plan(recipe).digest != first.digest
