"""Files that torch and transformers wrote, converted: every value that must come out, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from typer.testing import CliRunner

from hfconvert.cli import app
from hfconvert.tensors.header import read_header
from hfconvert.tensors.source import LocalFile, read

FIXTURES = Path(__file__).parents[1] / "fixtures"
TORCH = FIXTURES / "torch_formats"
TRAINER = FIXTURES / "hf_trainer"

QUICK = {"architecture": "off", "logits": "off"}  # checks that load a model have their own tests
Values = dict[str, tuple[str, tuple[int, ...], bytes]]


@dataclass(frozen=True)
class Done:
    """What a conversion left behind."""

    code: int
    document: dict[str, Any]
    output: Path

    def errors(self) -> str:
        found = self.document["findings"]
        return "\n".join(
            f"{one['subject']}: {one['message']}" for one in found if one["level"] == "error"
        )

    def values(self) -> Values:
        found: Values = {}
        for path in sorted(self.output.glob("*.safetensors")):
            found |= values(path)
        return found


Convert = Callable[..., Done]


@pytest.fixture
def convert(tmp_path: Path) -> Convert:
    def run(source: Path, **recipe: Any) -> Done:
        path = tmp_path / "recipe.yaml"
        document = {"version": 1, "source": {"path": str(source)}, "validate": QUICK, **recipe}
        path.write_text(json.dumps(document))
        arguments = ["run", str(path), "--output", str(tmp_path / "out"), "--json", "-q"]
        done = CliRunner().invoke(app, arguments)
        return Done(done.exit_code, json.loads(done.stdout), tmp_path / "out")

    return run


def values(path: Path) -> Values:
    """dtype, shape and bytes of every tensor; names and shapes as the safetensors library reads them too."""
    source = LocalFile.of(path)
    found: Values = {}
    for entry in read_header(source).entries:
        content = bytes(read(source, entry.start, entry.start + entry.spec.nbytes))
        found[entry.name] = (entry.spec.dtype.code, entry.spec.shape, content)
    with safe_open(str(path), framework="np") as opened:
        assert set(opened.keys()) == set(found)
    return found


ZIPS = [
    TORCH / "metadata_ordered" / "m.pt",
    TORCH / "protocol4" / "m.pt",
    TORCH / "protocol4" / "m_p5.pt",
    TORCH / "views_dtypes" / "m.pt",
    TORCH / "param_subclass" / "m.pt",
    TORCH / "toplevel_tensor" / "m.pt",
    TORCH / "bare_storage" / "m.pt",
    TORCH / "legacy_pickle_bf16_shared" / "m.pt",
    TORCH / "whole_module" / "model.pt",
    TORCH / "whole_module" / "model_in_dict.pt",
    TORCH / "torchscript" / "scripted.pt",
    TORCH / "torchscript" / "traced.pt",
]


def label(path: Path) -> str:
    return path.relative_to(FIXTURES).as_posix()


@pytest.mark.parametrize("path", ZIPS, ids=label)
def test_files_of_torch(path: Path, convert: Convert) -> None:
    expected = values(path.parent / "expected.safetensors")
    done = convert(path)
    assert done.code == 0, done.errors()
    left_out = {tie["dropped"]: tie["kept"] for tie in done.document["ties"]}
    found = done.values()
    found |= {dropped: found[kept] for dropped, kept in left_out.items()}
    assert found == expected
    assert all(check["status"] != "fail" for check in done.document["checks"])


def test_keys_that_are_no_strings(convert: Convert) -> None:
    done = convert(TORCH / "int_keys" / "m.pt", key_map=[{"drop": ["(*"]}])
    assert done.code == 0, done.errors()
    assert done.values() == values(TORCH / "int_keys" / "expected.safetensors")


EXOTIC = sorted(path.name for path in TORCH.glob("exotic_*"))
REFUSED = {
    "exotic_complex128": "complex128",
    "exotic_complex_half": "complex32",
    "exotic_meta": "meta",
    "exotic_nested": "nested",
    "exotic_q_per_tensor": "quantised",
    "exotic_sparse_coo": "sparse",
}


@pytest.mark.parametrize("name", EXOTIC)
def test_what_is_plain_comes_out_when_the_exotic_is_dropped(name: str, convert: Convert) -> None:
    done = convert(TORCH / name / "m.pt", key_map=[{"drop": ["x"]}])
    assert done.code == 0, done.errors()
    assert done.values() == values(TORCH / name / "expected.safetensors")


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_exotic_is_an_error_that_names_it(name: str, convert: Convert) -> None:
    done = convert(TORCH / name / "m.pt")
    assert done.code == 3
    assert done.errors().startswith("x: ")
    assert REFUSED[name] in done.errors()
    assert not done.output.exists()


def test_complex64_is_written(convert: Convert) -> None:
    import torch

    path = TORCH / "exotic_complex64" / "m.pt"
    x = torch.load(path, weights_only=True)["x"].resolve_conj().contiguous()
    found = convert(path).values()["x"]
    assert found == ("C64", tuple(x.shape), x.view(torch.float32).numpy().tobytes())


def test_every_folder_of_torch_formats_is_tried() -> None:
    tried = {path.parent.name for path in ZIPS} | {*EXOTIC, "int_keys"}
    assert {path.name for path in TORCH.iterdir()} - tried == {"nested_containers"}


CHECKPOINTS = [
    TRAINER / "sharded" / "bin",
    TRAINER / "sharded" / "safetensors",
    TRAINER / "trainer_bin" / "checkpoint-10",
    TRAINER / "trainer_safetensors" / "checkpoint-10",
    TRAINER / "trainer_tied_bf16" / "checkpoint-10",
]
TRAINING = {"optimizer.pt", "rng_state.pth", "scheduler.pt", "trainer_state.json"}
TRAINING |= {"training_args.bin"}


@pytest.mark.parametrize("path", CHECKPOINTS, ids=label)
def test_folders_of_trainer(path: Path, convert: Convert) -> None:
    done = convert(path)
    assert done.code == 0, done.errors()
    assert done.values() == values(path.parent / "expected.safetensors")
    present = {file.name for file in path.iterdir()}
    copied = {file.name for file in done.output.iterdir()} - {"hfconvert.json"}
    assert {name for name in copied if "safetensors" not in name} == {
        name
        for name in present - TRAINING
        if not name.startswith("pytorch_model") and "safetensors" not in name
    }
    assert (done.output / "config.json").read_bytes() == (path / "config.json").read_bytes()


@pytest.mark.parametrize("path", CHECKPOINTS, ids=label)
def test_a_strict_reload(path: Path, convert: Convert) -> None:
    from transformers import AutoModelForCausalLM

    done = convert(path, output={"max_shard_size": "50KB"})
    loaded: Any = AutoModelForCausalLM.from_pretrained(done.output, output_loading_info=True)
    assert not any(loaded[1].values()), loaded[1]


def test_no_checkpoint_of_trainer_is_left_out() -> None:
    assert {path.parent.parent.name for path in TRAINER.rglob("config.json")} == {
        path.parent.name for path in CHECKPOINTS
    }
