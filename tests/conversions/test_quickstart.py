"""The quickstart, end to end: convert it as a user does, then load what was written as a user does."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "configs" / "quickstart.yaml"
MODEL = ROOT / "configs" / "quickstart" / "model"
HELD_OUT = ROOT / "configs" / "quickstart" / "text" / "jonah.txt"

TIE = {"model.embed_tokens.weight", "lm_head.weight"}


def _run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hfconvert", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quickstart")


@pytest.fixture(scope="module")
def report(work: Path) -> dict[str, Any]:
    ran = _run("run", str(RECIPE), "--output", "out", "--json", cwd=work)
    assert ran.returncode == 0, ran.stderr
    parsed: dict[str, Any] = json.loads(ran.stdout)
    return parsed


@pytest.fixture(scope="module")
def out(work: Path, report: dict[str, Any]) -> Path:
    return work / "out"


@pytest.fixture(scope="module")
def pickled() -> dict[str, torch.Tensor]:
    """What torch itself reads from the pickled shards."""
    index = json.loads((MODEL / "pytorch_model.bin.index.json").read_text())
    tensors: dict[str, torch.Tensor] = {}
    for file in sorted(set(index["weight_map"].values())):
        tensors |= torch.load(MODEL / file, weights_only=True)
    assert set(tensors) == set(index["weight_map"])
    return tensors


@pytest.fixture(scope="module")
def reference(pickled: dict[str, torch.Tensor]) -> LlamaForCausalLM:
    model = LlamaForCausalLM(LlamaConfig.from_pretrained(MODEL))
    model.load_state_dict(pickled, strict=True)
    model.eval()
    return model


@pytest.fixture(scope="module")
def converted(out: Path) -> LlamaForCausalLM:
    loaded: Any = LlamaForCausalLM.from_pretrained(out, output_loading_info=True)
    model, info = loaded
    assert isinstance(model, LlamaForCausalLM)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    model.eval()
    return model


@pytest.fixture(scope="module")
def text_ids(out: Path) -> torch.Tensor:
    tokenizer = AutoTokenizer.from_pretrained(out)
    text = HELD_OUT.read_text()
    ids = tokenizer.encode(text, verbose=False)
    assert tokenizer.decode(ids) == text
    return torch.tensor(ids)


def _windows(ids: torch.Tensor, length: int = 128) -> Iterator[torch.Tensor]:
    for window in ids.split(length):
        if len(window) == length:
            yield window[None]


def _written(out: Path) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for file in sorted(out.glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - a safe_open is no mapping
                assert name not in tensors
                tensors[name] = opened.get_tensor(name)
    return tensors


def test_the_source_is_pickled_sharded_tied_and_small(pickled: dict[str, torch.Tensor]) -> None:
    embedding, head = pickled["model.embed_tokens.weight"], pickled["lm_head.weight"]
    index = json.loads((MODEL / "pytorch_model.bin.index.json").read_text())
    unique = {t.untyped_storage().data_ptr(): t.nbytes for t in pickled.values()}

    assert embedding.untyped_storage().data_ptr() == head.untyped_storage().data_ptr()
    assert index["weight_map"]["model.embed_tokens.weight"] == index["weight_map"]["lm_head.weight"]
    assert len(set(index["weight_map"].values())) == 3
    assert index["metadata"]["total_size"] == sum(unique.values())
    assert {tensor.dtype for tensor in pickled.values()} == {torch.float32}
    assert 1e6 < sum(file.stat().st_size for file in MODEL.iterdir()) < 2e6


def test_the_report_says_converted_and_every_check_passed(
    out: Path, report: dict[str, Any]
) -> None:
    checks = {check["name"]: check["status"] for check in report["checks"]}

    assert report["status"] == "converted"
    assert checks["names"] == "pass"
    assert checks["tensors"] == "pass"
    assert "fail" not in checks.values()
    assert not [finding for finding in report["findings"] if finding["level"] == "error"]
    for output in report["outputs"]:
        assert (out / output["file"]).stat().st_size == output["size"]


def test_one_name_of_the_tie_is_written_and_every_value_is_the_source_s(
    out: Path, pickled: dict[str, torch.Tensor]
) -> None:
    written = _written(out)

    assert set(pickled) - set(written) == {"lm_head.weight"}
    assert set(written) - set(pickled) == set()
    for name, tensor in written.items():
        assert torch.equal(tensor, pickled[name]), name


def test_shards_and_index_agree(out: Path) -> None:
    index = json.loads((out / "model.safetensors.index.json").read_text())
    shards = sorted(file.name for file in out.glob("*.safetensors"))

    assert shards == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert set(index["weight_map"].values()) == set(shards)
    assert set(index["weight_map"]) == set(_written(out))
    assert index["metadata"]["total_size"] == sum(t.nbytes for t in _written(out).values())


def test_side_files_are_copied_byte_for_byte_and_no_pickle_is_left(out: Path) -> None:
    for name in (
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
        "config.json",
    ):
        assert (out / name).read_bytes() == (MODEL / name).read_bytes(), name
    assert not list(out.glob("pytorch_model*"))


def test_the_reloaded_model_is_tied_again(converted: LlamaForCausalLM) -> None:
    assert converted.lm_head.weight is converted.model.embed_tokens.weight


def test_logits_are_equal_to_the_last_bit(
    converted: LlamaForCausalLM, reference: LlamaForCausalLM, text_ids: torch.Tensor
) -> None:
    with torch.no_grad():
        for window in _windows(text_ids[:1024]):
            assert torch.equal(converted(window).logits, reference(window).logits)


def test_the_model_knows_its_text(converted: LlamaForCausalLM, text_ids: torch.Tensor) -> None:
    """A byte of text it never saw costs far less than chance (5.55 nats) and letter counts (3.05)."""
    with torch.no_grad():
        losses = [converted(window, labels=window).loss.item() for window in _windows(text_ids)]
    chance = math.log(converted.config.vocab_size)

    assert sum(losses) / len(losses) < 1.7 < chance / 3


def test_a_second_run_finds_the_first_ones_work(work: Path, out: Path) -> None:
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    again = _run("run", str(RECIPE), "--output", "out", "--json", cwd=work)

    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["status"] == "up-to-date"
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_a_run_into_another_folder_writes_the_same_bytes(work: Path, out: Path) -> None:
    ran = _run("run", str(RECIPE), "--output", "other", "--json", cwd=work)
    names = sorted(file.name for file in out.glob("model*"))

    assert ran.returncode == 0, ran.stderr
    assert sorted(file.name for file in (work / "other").glob("model*")) == names
    for name in names:
        assert (work / "other" / name).read_bytes() == (out / name).read_bytes(), name


def test_what_the_readme_shows_is_what_is_printed(work: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.split("```text\n")[1].split("```")[0].splitlines()
    recipe = RECIPE.relative_to(ROOT)
    output = work / "quickstart-safetensors"
    ran = _run("run", str(recipe), "--output", str(output), cwd=ROOT)
    printed = ran.stdout.replace(str(output), output.name).splitlines()

    assert ran.returncode == 0, ran.stderr
    assert len(shown) == 5
    assert [line for line in shown if line not in printed] == []
