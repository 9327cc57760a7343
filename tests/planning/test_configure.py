from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hfconvert.planning.configure import Rewritten, configure, torch_name
from hfconvert.tensors.checkpoint import Checkpoint, Entry
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.leaf import Leaf
from hfconvert.tensors.source import LocalFile

Tensors = dict[str, tuple[str, int]]  # dtype code and number of elements


def checkpoint(tensors: Tensors, root: Path) -> Checkpoint:
    source = LocalFile(root / "weights", "weights", 0, 0)
    return Checkpoint(
        {
            name: Entry(Leaf.packed(TensorSpec(BY_CODE[code], (count,)), source, 0), (name,))
            for name, (code, count) in tensors.items()
        }
    )


@pytest.fixture
def run(tmp_path: Path) -> Any:
    def configured(
        config: Any,
        tensors: Tensors,
        *,
        before: dict[str, str] | None = None,
        tied: bool | None = None,
    ) -> Rewritten | None:
        path = tmp_path / "config.json"
        path.write_text(json.dumps(config, indent=2))
        stored = checkpoint(tensors, tmp_path)
        codes = {name: code for name, (code, _) in tensors.items()}
        file = LocalFile.of(path, "config.json")
        return configure(file, config, stored, {**codes, **(before or {})}, tied=tied)

    return configured


def changed(rewritten: Rewritten | None) -> dict[str, Any]:
    assert rewritten is not None
    return {".".join(path): value for path, value in rewritten.changed.items()}


@pytest.mark.parametrize("field", ["dtype", "torch_dtype"])
def test_a_cast_is_followed_under_the_name_that_the_source_used(run: Any, field: str) -> None:
    config = {"a": 1.5e3, field: "float32", "z": [1, 2]}
    done = run(config, {"w": ("BF16", 8)}, before={"w": "F32"})
    assert json.loads(done.content) == {**config, field: "bfloat16"}
    assert list(json.loads(done.content)) == list(config)
    (finding,) = done.findings
    assert (finding.level, finding.subject) == ("info", "config.json")
    assert finding.message == f"`{field}` follows the tensors: float32 -> bfloat16"


def test_a_wrong_field_is_put_right_though_nothing_was_cast(run: Any) -> None:
    done = run({"torch_dtype": "float16"}, {"w": ("BF16", 8)})
    assert changed(done) == {"torch_dtype": "bfloat16"}
    assert done.findings[0].level == "warning"
    assert "says float16, but the tensors are bfloat16" in done.findings[0].message


@pytest.mark.parametrize(
    ("config", "tensors"),
    [
        ({"torch_dtype": "float32"}, {"w": ("F32", 8)}),
        ({"hidden_size": 4}, {"w": ("BF16", 8)}),
        ({"torch_dtype": None}, {"w": ("BF16", 8)}),
        ({"torch_dtype": "auto"}, {"w": ("BF16", 8)}),
        ({"dtype": {"text_config": "float32"}}, {"w": ("BF16", 8)}),
        ({"torch_dtype": "half"}, {"w": ("F16", 8)}),
        ({"torch_dtype": "torch.bfloat16"}, {"w": ("BF16", 8)}),
        ({"torch_dtype": "float32"}, {"ids": ("I64", 8)}),
        ({"torch_dtype": "bfloat16"}, {"w": ("BF16", 4), "head": ("F32", 400)}),
        ({"vocab": {"dtype": "float32"}, "x": {"torch_dtype": "float32"}}, {"w": ("BF16", 8)}),
    ],
    ids=[
        *("right", "absent", "null", "auto", "by part", "half", "prefixed", "no floats"),
        *("mixed", "no configuration"),
    ],
)
def test_what_is_right_or_says_nothing_stays(run: Any, config: Any, tensors: Tensors) -> None:
    assert run(config, tensors) is None


def test_a_prefix_stays(run: Any) -> None:
    done = run({"torch_dtype": "torch.float32"}, {"w": ("F16", 8)}, before={"w": "F32"})
    assert changed(done) == {"torch_dtype": "torch.float16"}


def test_the_dtype_that_most_bytes_have_decides(run: Any) -> None:
    tensors = {"w": ("BF16", 100), "norm": ("F32", 49), "ids": ("I64", 900)}
    done = run({"dtype": "float32"}, tensors, before={"w": "F32"})
    assert changed(done) == {"dtype": "bfloat16"}
    tensors["norm"] = ("F32", 51)
    assert run({"dtype": "float32"}, tensors, before={"w": "F32"}) is None


def test_parts_of_a_model_by_their_own_tensors(run: Any) -> None:
    config = {
        "torch_dtype": "float32",
        "text_config": {"torch_dtype": "float32", "rope_scaling": {"dtype": "float32"}},
        "vision_config": {"torch_dtype": "float32"},
        "quantization_note": {"dtype": "float32"},
    }
    tensors = {"model.language_model.w": ("BF16", 900), "model.visual.w": ("F32", 9)}
    done = run(config, tensors, before={"model.language_model.w": "F32"})
    assert changed(done) == {"torch_dtype": "bfloat16", "text_config.torch_dtype": "bfloat16"}


def test_a_part_whose_tensors_names_do_not_tell(run: Any) -> None:
    config = {"llm_config": {"dtype": "float32", "inner_config": {"dtype": "float32"}}}
    done = run(config, {"w": ("F16", 9)}, before={"w": "F32"})
    assert changed(done) == {
        "llm_config.dtype": "float16",
        "llm_config.inner_config.dtype": "float16",
    }


def test_quantised_weights_leave_the_field_alone(run: Any) -> None:
    config = {
        "torch_dtype": "bfloat16",
        "quantization_config": {"bnb_4bit_compute_dtype": "float16", "torch_dtype": "float16"},
    }
    assert run(config, {"w": ("F8_E4M3", 900), "scale": ("F32", 9)}) is None
    done = run(config, {"w": ("U8", 900), "norm": ("F16", 9)}, before={"norm": "BF16"})
    assert changed(done) == {"torch_dtype": "float16"}


def test_a_cast_to_eight_bits_is_followed_too(run: Any) -> None:
    done = run({"dtype": "bfloat16"}, {"w": ("F8_E4M3", 9)}, before={"w": "BF16"})
    assert changed(done) == {"dtype": "float8_e4m3fn"}


@pytest.mark.parametrize(
    ("config", "tied", "expected"),
    [
        ({"tie_word_embeddings": True}, False, {"tie_word_embeddings": False}),
        ({"tie_word_embeddings": False}, True, {"tie_word_embeddings": True}),
        ({}, False, {"tie_word_embeddings": False}),
        (
            {"text_config": {"tie_word_embeddings": True}},
            False,
            {"text_config.tie_word_embeddings": False, "tie_word_embeddings": False},
        ),
    ],
)
def test_what_a_step_made_of_a_tie_is_said(
    run: Any, config: Any, tied: bool, expected: dict[str, bool]
) -> None:
    done = run(config, {"w": ("F32", 1)}, tied=tied)
    assert changed(done) == expected
    assert all("step wrote" in finding.message for finding in done.findings)


@pytest.mark.parametrize("said", [True, False])
def test_a_tie_that_is_said_already(run: Any, said: bool) -> None:
    assert run({"tie_word_embeddings": said}, {"w": ("F32", 1)}, tied=said) is None
    assert run({"tie_word_embeddings": said}, {"w": ("F32", 1)}, tied=None) is None


def test_without_a_configuration_there_is_nothing_to_change(tmp_path: Path) -> None:
    assert configure(None, None, checkpoint({}, tmp_path), {}, tied=False) is None


@pytest.mark.parametrize(
    ("value", "name"),
    [
        *(("bfloat16", "bfloat16"), ("torch.half", "float16"), ("double", "float64")),
        *(("bf16", None), (7, None), (None, None), ("", None)),
    ],
)
def test_names_of_dtypes(value: object, name: str | None) -> None:
    assert torch_name(value) == name
