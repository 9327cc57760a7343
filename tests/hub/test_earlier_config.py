"""Adapters on the Hub whose configuration was lost: an earlier commit that has it is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save

from hfconvert.console import Console
from hfconvert.errors import Exit, UserError
from hfconvert.preview import plan
from hfconvert.recipe import Recipe, parse
from hfconvert.report.documents import plan_document
from hfconvert.run import run
from tests.hub.loopback.server import RunningHub

Q = "model.layers.0.self_attn.q_proj"
STATE = {
    f"base_model.model.{Q}.lora_A.weight": torch.randn(2, 16),
    f"base_model.model.{Q}.lora_B.weight": torch.randn(16, 2),
}


def config(alpha: float) -> bytes:
    values = {"peft_type": "LORA", "r": 2, "lora_alpha": alpha, "target_modules": ["q_proj"]}
    return json.dumps(values).encode()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(save({f"{Q}.weight": torch.ones(16, 16)}))
    return path


@pytest.fixture
def lost(hub: RunningHub, monkeypatch: pytest.MonkeyPatch) -> RunningHub:
    """Two configurations, one after the other, and then none; the weights changed in between."""
    hub.repo("owner/adapter", {"adapter_model.safetensors": save(STATE)})
    hub.push("owner/adapter", {"adapter_config.json": config(3)})
    hub.push("owner/adapter", {"adapter_config.json": config(6)})
    newest = hub.push("owner/adapter", {"README.md": b"# An adapter"})
    hub.repos["owner/adapter"].refs["refs/tags/newest"] = newest.id
    hub.push("owner/adapter", {"adapter_config.json": None})
    hub.push("owner/adapter", {"notes.txt": b"gone"})
    monkeypatch.setenv("HF_TOKEN", hub.token())
    return hub


def merging(base: Path, out: Path) -> Recipe:
    document = {
        "version": 1,
        "source": {"path": str(base)},
        "lora": {"adapters": [{"adapter": "owner/adapter"}]},
        "output": {"path": str(out)},
    }
    return parse(json.dumps(document), "recipe.yaml")


def test_the_newest_earlier_configuration_is_taken_and_that_is_said(
    lost: RunningHub, base: Path, tmp_path: Path
) -> None:
    recipe = merging(base, tmp_path / "out")
    said = [one.message for one in plan(recipe).findings if "is not there any more" in one.message]
    report = run(recipe, Console(-1))
    a, b = STATE.values()
    expected = torch.ones(16, 16) + (b @ a) * (6 / 2)
    written = load_file(tmp_path / "out/model.safetensors")
    assert torch.allclose(written[f"{Q}.weight"], expected, rtol=0, atol=1e-6)
    assert len(said) == 1
    assert f"that of commit {lost.repos['owner/adapter'].resolve('newest').id[:12]}" in said[0]
    assert [one.message for one in report.findings if "any more" in one.message] == said


def test_an_adapter_by_itself_gets_it_back(lost: RunningHub, tmp_path: Path) -> None:
    out = tmp_path / "out"
    recipe = parse(
        f"version: 1\nsource: {{repo: owner/adapter}}\noutput: {{path: {out}}}\n", "r.yaml"
    )
    planned = plan(recipe)
    document = plan_document(planned)
    assert any("is not there any more" in one["message"] for one in document["findings"])
    report = run(recipe, Console(-1))
    assert report.digest == planned.digest
    assert (out / "adapter_config.json").read_bytes() == config(6)
    written = load_file(out / "adapter_model.safetensors")
    assert all(torch.equal(written[name], tensor) for name, tensor in STATE.items())


def test_without_one_in_any_commit_alpha_is_asked_for(
    hub: RunningHub, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repo("owner/adapter", {"adapter_model.safetensors": save(STATE)})
    hub.push("owner/adapter", {"notes.txt": b"never had one"})
    monkeypatch.setenv("HF_TOKEN", hub.token())
    with pytest.raises(UserError, match=r"lora\.lora_alpha") as caught:
        plan(merging(base, tmp_path / "out"))
    assert caught.value.exit == Exit.RECIPE


def test_an_adapter_with_its_configuration_asks_for_no_commits(
    hub: RunningHub, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"adapter_model.safetensors": save(STATE), "adapter_config.json": config(4)}
    hub.repo("owner/adapter", files)
    monkeypatch.setenv("HF_TOKEN", hub.token())
    hub.log.clear()
    plan(merging(base, tmp_path / "out"))
    assert hub.log.find(path="/commits/") == []
