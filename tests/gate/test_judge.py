"""The team rule over folders: what passes, and what breaks which rule."""

from __future__ import annotations

import json
import os
import pickle
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hfconvert.console import Console
from hfconvert.errors import Exit, UserError
from hfconvert.gate import check
from hfconvert.report.documents import report_document
from hfconvert.report.model import Report
from hfconvert.report.summary import summary
from tests.written_files import saved, write_files

State = dict[str, torch.Tensor]


class Judged(Protocol):
    """The report of the gate; see conftest."""

    report: Report

    @property
    def broken(self) -> set[str]: ...
    def rule(self, name: str) -> dict[str, Any]: ...
    def errors(self, check: str) -> str: ...


Judge = Callable[..., Judged]


class Called:
    """What a pickle would call when it is loaded."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.called = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.called


def sharded(state: State) -> dict[str, Any]:
    """The state in two shards of safetensors with their index."""
    first, second = dict(list(state.items())[:3]), dict(list(state.items())[3:])
    files = {"model-00001-of-00002.safetensors": first, "model-00002-of-00002.safetensors": second}
    weight_map = {name: file for file, part in files.items() for name in part}
    size = sum(tensor.nbytes for tensor in state.values())
    index = {"metadata": {"total_size": size}, "weight_map": weight_map}
    return {**files, "model.safetensors.index.json": index}


def test_safetensors_alone_pass(judge: Judge, state: State) -> None:
    done = judge({"model.safetensors": state, "config.json": {"model_type": "x"}})

    assert done.broken == set()
    assert done.rule("format")["measured"] == {"safetensors": 1, "pickles": 0}
    assert done.rule("proof")["status"] == "skipped"
    document = report_document(done.report)
    assert document["status"] == "verified"
    assert document["source"]["format"] == "safetensors"
    assert document["source"]["files"][0]["file"] == "model.safetensors"


def test_pickles_alone_break_the_rule(judge: Judge, state: State) -> None:
    done = judge({"pytorch_model.bin": state})

    assert done.broken == {"format"}
    assert "pytorch_model.bin: weights are published as pickles only (" in done.errors("format")
    assert "hfconvert run" in done.errors("format")


def test_the_summary_shows_rules_and_what_breaks_them(judge: Judge, state: State) -> None:
    text = summary(report_document(judge({"pytorch_model.bin": state}).report))

    assert text.startswith("**failed** ")
    assert "| format | **failed** |" in text
    assert "| index | passed |" in text
    assert "- error: `pytorch_model.bin`: weights are published as pickles only" in text


@pytest.mark.parametrize("name", ["weights.pkl", "sub/pytorch_model.bin", "model.ckpt"])
def test_pickles_are_found_under_any_name_and_in_any_folder(
    judge: Judge, state: State, name: str
) -> None:
    done = judge({"model.safetensors": {"other": torch.ones(2)}, name: state})

    assert done.broken in ({"format"}, {"proof"})
    assert Path(name).name in done.errors("format") + done.errors("proof")


def test_a_pickle_that_is_called_safetensors_is_one(judge: Judge, state: State) -> None:
    assert judge({"model.safetensors": saved(state)}).broken == {"format"}


def test_a_proved_conversion_passes(judge: Judge, state: State) -> None:
    done = judge({"pytorch_model.bin": state, "model.safetensors": state})

    assert done.broken == set()
    assert done.rule("proof")["measured"] == {
        "sets": 1,
        "tensors": 6,
        "values": 72,
        "different": 0,
    }


def test_shards_beside_one_pickle_pass(judge: Judge, state: State) -> None:
    assert judge({"pytorch_model.bin": state, **sharded(state)}).broken == set()


def test_one_value_that_differs_is_no_proof(judge: Judge, state: State) -> None:
    changed = {name: tensor.clone() for name, tensor in state.items()}
    changed["layers.1.q"][1, 2] += 1
    done = judge({"pytorch_model.bin": state, "model.safetensors": changed})

    assert done.broken == {"proof"}
    assert "not proved to hold what pytorch_model.bin holds" in done.errors("proof")
    assert "layers.1.q: 1 of 12 values differ, the first at [1, 2]" in done.errors("tensors")


@pytest.mark.parametrize("missing", ["safetensors", "pickle"])
def test_a_tensor_that_one_side_lacks_is_no_proof(judge: Judge, state: State, missing: str) -> None:
    part = {name: tensor for name, tensor in state.items() if name != "layers.0.k"}
    pickled, safe = (state, part) if missing == "safetensors" else (part, state)

    done = judge({"pytorch_model.bin": pickled, "model.safetensors": safe})
    assert done.broken == {"proof"}
    assert "layers.0.k" in done.errors("names")


def test_every_variant_is_held_against_its_own(judge: Judge, state: State) -> None:
    half = {name: tensor.half() for name, tensor in state.items()}
    files = {
        "pytorch_model.bin": state,
        "model.safetensors": state,
        "pytorch_model.fp16.bin": half,
        "model.fp16.safetensors": half,
    }
    assert judge(files).rule("proof")["measured"]["sets"] == 2
    changed = {**half, "layers.0.q": half["layers.0.q"] * 2}
    assert judge({**files, "model.fp16.safetensors": changed}).broken == {"proof"}


def test_several_sets_of_weights_in_one_pickle_are_no_proof(judge: Judge, state: State) -> None:
    both = {"model": state, "ema": {name: tensor * 2 for name, tensor in state.items()}}
    done = judge({"model.pt": both, "model.safetensors": state})

    assert done.broken == {"proof"}
    assert "several sets of weights" in done.errors("proof")


@pytest.mark.parametrize(
    ("value", "verdict", "name"),
    [
        (Called(os.system, "true"), "dangerous", "posix.system"),
        (Called(Path, "x"), "", ""),
        (Called(json.JSONDecoder), "unknown", "json.decoder.JSONDecoder"),
    ],
)
def test_what_pickles_ask_for(
    judge: Judge, state: State, value: object, verdict: str, name: str
) -> None:
    done = judge({"model.safetensors": state, "training_args.bin": pickle.dumps(value)})

    assert done.broken == ({"pickle"} if verdict == "dangerous" else set())
    said = [(one.level, one.subject) for one in done.report.findings if one.check == "pickle"]
    level = {"dangerous": "error", "unknown": "warning", "": ""}
    assert said == [(level[verdict], "training_args.bin")] * bool(verdict)
    told = " ".join(one.message for one in done.report.findings if one.check == "pickle")
    assert told.startswith(f"its pickle asks for {verdict} names: `{name}`" if verdict else "")
    assert report_document(done.report)["pickle"][0]["file"] == "training_args.bin"


def test_a_dangerous_pickle_is_compared_all_the_same(judge: Judge, state: State) -> None:
    hostile = {**state, "x": Called(os.system, "true")}
    done = judge({"pytorch_model.bin": hostile, "model.safetensors": state})

    assert done.broken == {"pickle"}
    assert done.rule("proof")["measured"]["values"] == 72


def test_files_that_ask_for_the_same_are_one_finding(judge: Judge, state: State) -> None:
    content = pickle.dumps(Called(os.system, "true"))
    done = judge({"model.safetensors": state, **{f"{i}.pkl": content for i in range(5)}})

    assert done.errors("pickle").count("\n") == 0
    assert done.errors("pickle").startswith("0.pkl: ")
    assert "; so with `{1..4}.pkl`" in done.errors("pickle")


def test_a_right_index_passes(judge: Judge, state: State) -> None:
    assert judge(sharded(state)).broken == set()


def _renamed(files: dict[str, Any]) -> None:
    part = files["model-00002-of-00002.safetensors"]
    part["layers.1.other"] = part.pop("layers.1.norm")


def _cut(files: dict[str, Any]) -> None:
    files["model.safetensors.index.json"] = b"{"


def _without_index(files: dict[str, Any]) -> None:
    del files["model.safetensors.index.json"]


def _without_shard(files: dict[str, Any]) -> None:
    del files["model-00002-of-00002.safetensors"]


def _with_stray(files: dict[str, Any]) -> None:
    files["model.safetensors"] = {"layers.0.q": torch.ones(2)}


def _with_shard(files: dict[str, Any]) -> None:
    files["model-00003-of-00003.safetensors"] = {"layers.2.q": torch.ones(2)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_renamed, "layers.1.norm: the index maps it to model-00002-of-00002.safetensors"),
        (_cut, "model.safetensors.index.json: this index cannot be used: no valid JSON"),
        (_without_index, "model-00001-of-00002.safetensors and the rest of its shards: these"),
        (_without_shard, "shards are missing: `model-00002-of-00002.safetensors`"),
        (_with_stray, "model.safetensors: it lies beside model.safetensors.index.json"),
        (_with_shard, "it lies beside model.safetensors.index.json"),
    ],
)
def test_a_wrong_index_breaks_the_rule(
    judge: Judge, state: State, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    files = sharded(state)
    change(files)
    done = judge(files)

    assert "index" in done.broken
    assert said in "\n".join(done.errors(check) for check in ("index", "names", "source"))


@pytest.mark.parametrize(
    "files",
    [
        {"README.md": b"# A model\n"},
        {"model.gguf": b"GGUF\x03\0\0\0" + bytes(60)},
        {"model.safetensors": b"version https://git-lfs.github.com/spec/v1\noid sha256:4\n"},
        {"pytorch_model.bin": b"PK\x03\x04 cut off"},
    ],
    ids=["nothing", "another format", "a pointer", "damaged"],
)
def test_what_could_not_be_judged_never_passes(judge: Judge, files: Mapping[str, Any]) -> None:
    assert "readable" in judge(files).broken


@pytest.mark.parametrize("name", ["model.nemo", "dist/__0_0.distcp"])
def test_weights_that_are_not_read_yet_never_pass(judge: Judge, state: State, name: str) -> None:
    done = judge({"model.safetensors": state, name: bytes(40)})

    assert done.broken == {"readable"}
    assert done.errors("readable").startswith(f"{name}: this could not be judged: it is a")


def test_archives_are_said(judge: Judge, state: State) -> None:
    done = judge({"model.safetensors": state, "data/images.zip": b"PK\x03\x04" + bytes(60)})

    assert done.broken == set()
    (said,) = done.report.findings
    assert (said.level, said.message) == (
        "warning",
        "archives are not looked into: `data/images.zip`",
    )


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
def test_an_index_of_shards_that_are_all_gone(judge: Judge, state: State, name: str) -> None:
    index = {"weight_map": {"a": f"{name}-1"}}
    done = judge({"sub/model.safetensors": state, f"{name}.index.json": index})

    assert done.broken == {"index"}
    assert f"{name}.index.json: shards are missing: `{name}-1`" in done.errors("index")


def test_a_damaged_file_beside_right_ones_is_no_pass(judge: Judge, state: State) -> None:
    done = judge({"model.safetensors": state, "extra.bin": b"\x80\x02 cut off"})
    assert "readable" in done.broken


def test_a_file_of_another_format_is_no_pickle(judge: Judge, state: State) -> None:
    files = {"model.safetensors": state, "ggml-model.bin": b"lmgg" + bytes(60)}
    assert judge(files).broken == set()


def test_one_file_alone(judge: Judge, state: State) -> None:
    files = {"model.safetensors": state, "weights.bin": state}

    assert judge(files, "model.safetensors").broken == set()
    assert judge(files, "weights.bin").broken == {"format"}


def test_parts_of_a_pipeline_are_judged_each(judge: Judge, state: State) -> None:
    files = {
        "model_index.json": {"unet": ["diffusers", "X"], "vae": ["diffusers", "Y"]},
        "unet/diffusion_pytorch_model.safetensors": state,
        "unet/diffusion_pytorch_model.bin": state,
        "vae/diffusion_pytorch_model.bin": state,
    }
    done = judge(files)

    assert done.broken == {"format"}
    assert done.errors("format").startswith("vae/diffusion_pytorch_model.bin: ")
    assert done.rule("proof")["measured"]["sets"] == 1


def test_nothing_there_is_an_error_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        check(str(tmp_path / "none"), None, Console(-1))
    assert caught.value.exit == Exit.SOURCE


NAMES = (
    *("pytorch_model.bin", "model.safetensors", "model.safetensors.index.json", "config.json"),
    *("model-00001-of-00002.safetensors", "x.pkl", "hfconvert.json", "sub/weights.pt"),
)


@given(st.dictionaries(st.sampled_from(NAMES), st.binary(max_size=64)))
def test_any_bytes_are_judged_and_no_damage_passes(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = check(str(write_files(Path(folder), files)), None, Console(-1))
    assert report.status == "failed"
