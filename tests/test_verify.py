"""`hfconvert verify`: what somebody made of a source, right and wrong in every way that we could think of."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hfconvert.cli import main

State = dict[str, torch.Tensor]
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 8,
    "tie_word_embeddings": True,
    "dtype": "float32",
}


@dataclass(frozen=True)
class Verified:
    """Exit code and report of a verification."""

    code: int
    report: dict[str, Any]
    said: str

    def status(self, check: str) -> str:
        """The status of a check."""
        found = {one["name"]: one["status"] for one in self.report["checks"]}
        return str(found[check])

    def failed(self) -> set[str]:
        """Names of the checks that failed."""
        return {one["name"] for one in self.report["checks"] if one["status"] == "fail"}

    def errors(self) -> str:
        """Findings of level error, one a line."""
        return self._findings("error")

    def notes(self) -> str:
        """The other findings, one a line."""
        return self._findings("info") + "\n" + self._findings("warning")

    def _findings(self, level: str) -> str:
        return "\n".join(
            f"{one['subject']}: {one['message']}"
            for one in self.report["findings"]
            if one["level"] == level
        )


Verify = Callable[..., Verified]


@pytest.fixture
def verify() -> Verify:
    def run(*arguments: object) -> Verified:
        out, said = io.StringIO(), io.StringIO()
        argv, handler = sys.argv, signal.getsignal(signal.SIGTERM)
        sys.argv = ["hfconvert", "verify", *map(str, arguments), "--json"]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
                code = main()
        finally:
            sys.argv = argv
            signal.signal(signal.SIGTERM, handler)
        assert "Traceback" not in said.getvalue(), said.getvalue()
        return Verified(code, json.loads(out.getvalue()), said.getvalue())

    return run


@pytest.fixture
def state() -> State:
    generator = torch.Generator().manual_seed(3)
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (12, 8)}
    for layer in range(3):
        for name, shape in {
            "self_attn.q_proj.weight": (8, 8),
            "self_attn.q_proj.bias": (8,),
            "mlp.up_proj.weight": (16, 8),
            "input_layernorm.weight": (8,),
        }.items():
            shapes[f"model.layers.{layer}.{name}"] = shape
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


@pytest.fixture
def source(tmp_path: Path, state: State) -> Path:
    """A pickled model with a tied head, a tokenizer, custom code and a card."""
    root = tmp_path / "source"
    root.mkdir()
    tied = {**state, "lm_head.weight": state["model.embed_tokens.weight"]}
    torch.save(tied, root / "pytorch_model.bin")
    (root / "config.json").write_text(json.dumps(CONFIG))
    (root / "tokenizer.json").write_text('{"version": "1.0"}')
    (root / "modeling_x.py").write_text("x = 1\n")
    (root / "README.md").write_text("# A model\n")
    return root


@pytest.fixture
def candidate(tmp_path: Path, source: Path, state: State) -> Path:
    """A right conversion of the source."""
    root = tmp_path / "candidate"
    shutil.copytree(source, root, ignore=shutil.ignore_patterns("*.bin"))
    save_file(state, root / "model.safetensors", metadata={"format": "pt"})
    return root


def change(candidate: Path, edit: Callable[[State], Mapping[str, torch.Tensor] | None]) -> None:
    """Change the tensors of a candidate in place."""
    path = candidate / "model.safetensors"
    tensors = load_file(path)
    changed = edit(tensors) or tensors
    save_file({name: one.contiguous() for name, one in changed.items()}, path)


def test_a_right_conversion_is_verified(verify: Verify, source: Path, candidate: Path) -> None:
    done = verify(source, candidate)

    assert done.code == 0
    assert done.report["status"] == "verified"
    assert {one["name"]: one["status"] for one in done.report["checks"]} == {
        "names": "pass",
        "tensors": "pass",
        "files": "pass",
        "dtypes": "pass",
    }
    assert done.report["source"]["path"] == str(source)
    assert done.report["candidate"]["path"] == str(candidate)
    assert done.report["pickle"][0]["file"] == "pytorch_model.bin"
    assert "lm_head.weight: is model.embed_tokens.weight in the source too" in done.notes()


def test_every_value_is_compared(verify: Verify, source: Path, candidate: Path) -> None:
    checks = {one["name"]: one for one in verify(source, candidate).report["checks"]}
    values = 12 * 8 + 3 * (64 + 8 + 128 + 8)
    assert checks["tensors"]["measured"] == {"tensors": 13, "values": values, "different": 0}


def test_a_flipped_weight_is_named_with_its_place(
    verify: Verify, source: Path, candidate: Path, state: State
) -> None:
    name = "model.layers.1.mlp.up_proj.weight"

    def flip(tensors: State) -> None:
        tensors[name][3, 5] *= -1

    change(candidate, flip)
    done = verify(source, candidate)
    before = float(state[name][3, 5])

    assert done.code == 1
    assert done.report["status"] == "failed"
    assert done.failed() == {"tensors"}
    assert f"{name}: 1 of 128 values differ, the first at [3, 5]: {before:.9g}" in done.errors()
    assert f"{-before:.9g} here; at most by {abs(2 * before):.3g}" in done.errors()


def test_the_sign_of_a_zero_counts(verify: Verify, source: Path, candidate: Path) -> None:
    def zero(tensors: State) -> None:
        tensors["model.layers.0.self_attn.q_proj.bias"][0] = -0.0

    full = torch.load(source / "pytorch_model.bin", weights_only=True)
    full["model.layers.0.self_attn.q_proj.bias"][0] = 0.0
    torch.save(full, source / "pytorch_model.bin")
    change(candidate, zero)

    assert "0 in the source, -0 here" in verify(source, candidate).errors()


def test_swapped_layers_are_named(verify: Verify, source: Path, candidate: Path) -> None:
    def swap(tensors: State) -> State:
        numbers = {"0": "2", "2": "0"}
        swapped = {}
        for name, tensor in tensors.items():
            parts = name.split(".")
            if len(parts) > 3:
                parts[2] = numbers.get(parts[2], parts[2])
            swapped[".".join(parts)] = tensor
        return swapped

    change(candidate, swap)
    done = verify(source, candidate)

    assert done.failed() == {"tensors"}
    assert "these are the values of model.layers.2.mlp.up_proj.weight" in done.errors()
    assert "these are the values of model.layers.0.mlp.up_proj.weight" in done.errors()
    assert "model.layers.1" not in done.errors()
    assert "8 of the tensors that differ hold values of the source" in done.notes()


def test_a_transposed_square_is_named(verify: Verify, source: Path, candidate: Path) -> None:
    name = "model.layers.2.self_attn.q_proj.weight"

    def transpose(tensors: State) -> None:
        tensors[name] = tensors[name].T

    change(candidate, transpose)
    done = verify(source, candidate)
    assert f"{name}: 56 of 64 values differ" in done.errors()
    assert "the source's values transposed" in done.errors()


def test_rearranged_rows_are_named(verify: Verify, source: Path, candidate: Path) -> None:
    name = "model.layers.2.mlp.up_proj.weight"

    def permute(tensors: State) -> None:
        tensors[name] = tensors[name].reshape(2, 8, 8).transpose(0, 1).reshape(16, 8)

    change(candidate, permute)
    assert "the source's rows in another order" in verify(source, candidate).errors()


def test_missing_tensors_are_folded(verify: Verify, source: Path, candidate: Path) -> None:
    change(
        candidate,
        lambda tensors: {name: one for name, one in tensors.items() if not name.endswith("bias")},
    )
    done = verify(source, candidate)
    assert done.failed() == {"names"}
    assert "3 tensors are missing: `model.layers.{0..2}.self_attn.q_proj.bias`" in done.errors()


def test_an_added_tensor_is_named(verify: Verify, source: Path, candidate: Path) -> None:
    change(candidate, lambda tensors: {**tensors, "extra": torch.ones(2)})
    done = verify(source, candidate)
    assert done.failed() == {"names"}
    assert "1 tensors were added that the source lacks: `extra`" in done.errors()


def test_another_shape_is_named(verify: Verify, source: Path, candidate: Path) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    change(candidate, lambda tensors: {**tensors, name: tensors[name].reshape(8, 16)})
    done = verify(source, candidate)
    assert done.failed() == {"names"}
    assert f"{name} is [8, 16], in the source [16, 8]" in done.errors()


def test_a_tied_pair_needs_one_of_its_names(verify: Verify, source: Path, candidate: Path) -> None:
    def other_name(tensors: State) -> State:
        return {name.replace("model.embed_tokens", "lm_head"): one for name, one in tensors.items()}

    change(candidate, other_name)
    assert verify(source, candidate).code == 0
    change(candidate, lambda tensors: {n: t for n, t in tensors.items() if n != "lm_head.weight"})
    done = verify(source, candidate)
    assert "2 tensors are missing: `model.embed_tokens.weight`, `lm_head.weight`" in done.errors()


def test_a_tie_may_be_written_twice(verify: Verify, source: Path, candidate: Path) -> None:
    def both(tensors: State) -> State:
        return {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"].clone()}

    change(candidate, both)
    assert verify(source, candidate).code == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_cast_that_the_configuration_says_is_held_to_its_rounding(
    verify: Verify, source: Path, candidate: Path, dtype: torch.dtype
) -> None:
    change(candidate, lambda tensors: {name: one.to(dtype) for name, one in tensors.items()})
    text = json.dumps({**CONFIG, "dtype": str(dtype).removeprefix("torch.")})
    (candidate / "config.json").write_text(text)
    done = verify(source, candidate)

    assert done.code == 0
    assert "13 tensors were cast from F32" in done.notes()


def test_one_value_rounded_the_other_way_is_found(
    verify: Verify, source: Path, candidate: Path
) -> None:
    name = "model.layers.1.mlp.up_proj.weight"

    def truncated(tensors: State) -> State:
        cast = {name: one.to(torch.bfloat16) for name, one in tensors.items()}
        cast[name].view(torch.int16)[0, 0] ^= 1
        return cast

    change(candidate, truncated)
    (candidate / "config.json").write_text(json.dumps({**CONFIG, "dtype": "bfloat16"}))
    done = verify(source, candidate)
    assert done.failed() == {"tensors"}
    assert f"{name}: 1 of 128 values differ" in done.errors()


def test_bf16_where_fp32_was_meant(verify: Verify, source: Path, candidate: Path) -> None:
    change(candidate, lambda tensors: {name: one.bfloat16() for name, one in tensors.items()})
    done = verify(source, candidate)
    assert done.failed() == {"dtypes"}
    assert "config.json says float32, but tensors were cast to bfloat16" in done.errors()


def test_a_single_tensor_of_another_dtype(verify: Verify, source: Path, candidate: Path) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    (source / "config.json").write_text(json.dumps({**CONFIG, "dtype": "bfloat16"}))
    shutil.copy(source / "config.json", candidate)
    change(candidate, lambda tensors: {**tensors, name: tensors[name].bfloat16()})
    done = verify(source, candidate)
    assert done.failed() == {"dtypes"}
    assert f"1 of the body tensors of F32 are BF16, the others F32: `{name}`" in done.errors()


def test_wrappers_and_one_prefix_are_found(
    verify: Verify, source: Path, candidate: Path, state: State
) -> None:
    torch.save(
        {f"module._orig_mod.{name}": one for name, one in state.items()},
        source / "pytorch_model.bin",
    )
    change(
        candidate,
        lambda tensors: {name.removeprefix("model."): one for name, one in tensors.items()},
    )
    done = verify(source, candidate)
    assert done.code == 0
    assert "13 names stand in the candidate without the prefix `model.`" in done.notes()
    assert "13 names of the source carry a wrapper" in done.notes()


def test_one_renamed_tensor_is_no_prefix(verify: Verify, source: Path, candidate: Path) -> None:
    def rename(tensors: State) -> State:
        return {
            name.replace("model.layers.0.mlp", "layers.0.mlp"): one for name, one in tensors.items()
        }

    change(candidate, rename)
    done = verify(source, candidate)
    assert done.failed() == {"names"}
    assert "1 tensors are missing: `model.layers.0.mlp.up_proj.weight`" in done.errors()


def test_a_recipe_explains_what_lies_between(
    verify: Verify, tmp_path: Path, source: Path, candidate: Path
) -> None:
    change(
        candidate,
        lambda tensors: {
            name.replace("self_attn", "attention"): one.to(torch.bfloat16)
            for name, one in tensors.items()
        },
    )
    (candidate / "config.json").write_text(json.dumps({**CONFIG, "dtype": "bfloat16"}))
    assert verify(source, candidate).failed() == {"names"}
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "version: 1\nsource: {path: ./elsewhere}\ndtype: bfloat16\nkey_map:\n"
        "  - rename: {'model.layers.{i}.self_attn.*': 'model.layers.{i}.attention.*'}\n"
    )
    assert verify(source, candidate, "--recipe", recipe).code == 0
    wrong = verify(source, candidate, "--recipe", recipe, "--set", "dtype=keep")
    assert wrong.failed() == {"dtypes"}


@pytest.mark.parametrize(
    ("file", "content", "fault"),
    [
        ("tokenizer.json", '{"version": "2.0"}', 'differs: version: "1.0" -> "2.0"'),
        ("modeling_x.py", "x = 2\n", "is not what the source has"),
        ("config.json", json.dumps({**CONFIG, "hidden_size": 9}), "differs: hidden_size: 8 -> 9"),
        ("configuration_x.py", "import os\n", "added: the source does not have it"),
        ("tokenizer_config.json", "{}", "added: the source does not have it"),
        ("tokenizer.json", None, "missing: the source has it"),
        ("config.json", None, "missing: the source has it"),
    ],
)
def test_another_file_is_named(
    verify: Verify, source: Path, candidate: Path, file: str, content: str | None, fault: str
) -> None:
    if content is None:
        (candidate / file).unlink()
    else:
        (candidate / file).write_text(content)
    done = verify(source, candidate)
    assert done.code == 1
    assert done.failed() == {"files"}
    assert f"{file}: {fault}" in done.errors()


def test_what_says_nothing_of_the_model_is_no_fault(
    verify: Verify, source: Path, candidate: Path
) -> None:
    config = {**CONFIG, "transformers_version": "5.0"}
    config["torch_dtype"] = config.pop("dtype")
    (candidate / "config.json").write_text(json.dumps(config, indent=4))
    (candidate / "README.md").write_text("# Another card\n")
    done = verify(source, candidate)
    assert done.code == 0
    assert 'config.json: only says who wrote it: transformers_version: absent -> "5.0"' in (
        done.notes()
    )


def test_pickles_beside_a_candidate_are_not_read(
    verify: Verify, source: Path, candidate: Path
) -> None:
    (candidate / "pytorch_model.bin").write_bytes(b"no pickle at all")
    assert verify(source, candidate).code == 0


def test_a_damaged_candidate_is_a_failed_check(
    verify: Verify, source: Path, candidate: Path
) -> None:
    path = candidate / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    done = verify(source, candidate)
    assert done.code == 1
    assert done.failed() == {"names"}
    assert "model.safetensors" in done.errors()


def sharded(root: Path) -> dict[str, Any]:
    """Cut a candidate into two shards; its index."""
    tensors = load_file(root / "model.safetensors")
    (root / "model.safetensors").unlink()
    weight_map: dict[str, str] = {}
    for number in range(2):
        names = sorted(tensors)[number::2]
        file = f"model-{number + 1:05}-of-00002.safetensors"
        save_file({name: tensors[name] for name in names}, root / file)
        weight_map |= dict.fromkeys(names, file)
    return {"metadata": {"total_size": 0}, "weight_map": weight_map}


def test_a_stale_index_is_a_failed_check(verify: Verify, source: Path, candidate: Path) -> None:
    index = sharded(candidate)
    path = candidate / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    assert verify(source, candidate).code == 0
    names = sorted(index["weight_map"])
    index["weight_map"][names[0]] = index["weight_map"][names[1]]
    path.write_text(json.dumps(index))
    done = verify(source, candidate)
    assert done.code == 1
    assert done.failed() == {"names"}
    assert f"{names[0]}: " in done.errors()


def test_a_missing_shard_is_a_failed_check(verify: Verify, source: Path, candidate: Path) -> None:
    index = sharded(candidate)
    (candidate / "model.safetensors.index.json").write_text(json.dumps(index))
    (candidate / "model-00002-of-00002.safetensors").unlink()
    done = verify(source, candidate)
    assert done.code == 1
    assert "model-00002-of-00002.safetensors: this file is missing" in done.errors()


def test_weights_that_a_loader_reads_instead_are_a_fault(
    verify: Verify, source: Path, candidate: Path
) -> None:
    content = (candidate / "model.safetensors").read_bytes()
    index = sharded(candidate)
    (candidate / "model.safetensors.index.json").write_text(json.dumps(index))
    (candidate / "model.safetensors").write_bytes(content)
    done = verify(source, candidate)
    assert done.failed() == {"names"}
    assert "loaders read it, and it was not compared" in done.errors()


def test_single_files_are_compared_without_side_files(
    verify: Verify, source: Path, candidate: Path
) -> None:
    done = verify(source / "pytorch_model.bin", candidate / "model.safetensors")
    assert done.code == 0
    assert done.status("files") == "skipped"


def test_a_broken_source_is_exit_3(verify: Verify, source: Path, candidate: Path) -> None:
    (source / "pytorch_model.bin").write_bytes(b"<html>")
    done = verify(source, candidate)
    assert done.code == 3
    assert done.report["status"] == "failed"


def test_nothing_there_is_exit_3_and_a_repository_is_not_built(
    verify: Verify, source: Path, tmp_path: Path
) -> None:
    assert verify(source, tmp_path / "nothing").code == 3
    assert verify(tmp_path / "nothing", source).code == 3
    done = verify(source, "org/model@refs/pr/3")
    assert done.code == 2
    assert "reading from the Hub is not built yet" in done.said
