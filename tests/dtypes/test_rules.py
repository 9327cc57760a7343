from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hfconvert.dtypes.cast import Cast
from hfconvert.dtypes.convert import FLOATS
from hfconvert.dtypes.rules import CastResult, cast
from hfconvert.recipe.casts import Dtype
from hfconvert.tensors.checkpoint import Checkpoint
from hfconvert.tensors.dtype import STORED

Make = Callable[[Mapping[str, str]], Checkpoint]


def where(*path: Any) -> str:
    return "recipe.yaml:" + ".".join(map(str, path))


def apply(
    made: Checkpoint, default: str = "keep", rules: dict[str, str] | None = None
) -> CastResult:
    return cast(made, Dtype(default=default, rules=rules or {}), where)


def codes(result: CastResult) -> dict[str, str]:
    return {name: entry.tensor.spec.dtype.code for name, entry in result.checkpoint.items()}


def test_keep_changes_nothing(checkpoint: Make) -> None:
    made = checkpoint({"a": "F32", "b": "BF16"})
    assert apply(made).checkpoint is made
    assert apply(made, rules={"*": "keep"}).checkpoint is made


def test_only_floats_are_cast(checkpoint: Make) -> None:
    made = checkpoint({code: code for code in STORED if STORED[code].bits % 8 == 0})
    result = apply(made, "bfloat16")
    assert codes(result) == {code: "BF16" if code in FLOATS else code for code in made}
    cast_names = {name for name, one in result.checkpoint.items() if isinstance(one.tensor, Cast)}
    assert cast_names == set(FLOATS) - {"BF16"}
    for name, entry in result.checkpoint.items():
        assert entry.steps == (("dtype bfloat16",) if name in cast_names else ())
        if name not in cast_names:
            assert entry is made[name]


def test_the_first_rule_that_matches_wins(checkpoint: Make) -> None:
    made = checkpoint({"l.0.norm.weight": "F32", "l.0.w": "F32", "norm.weight": "F32", "x": "F64"})
    rules = {"l.{i}.norm.*": "float16", "*norm*": "keep", "*": "bfloat16"}
    assert codes(apply(made, "keep", rules)) == {
        "l.0.norm.weight": "F16",
        "l.0.w": "BF16",
        "norm.weight": "F32",
        "x": "BF16",
    }


def test_a_rule_may_keep_what_the_default_casts(checkpoint: Make) -> None:
    made = checkpoint({"norm": "F32", "w": "F32"})
    assert codes(apply(made, "float16", {"norm": "keep"})) == {"norm": "F32", "w": "F16"}


def test_a_rule_that_matches_nothing_is_a_warning_at_its_place(checkpoint: Make) -> None:
    result = apply(checkpoint({"w": "F32"}), "float16", {"*norm*": "float32", "w": "keep"})
    (finding,) = result.findings
    assert (finding.level, finding.subject) == ("warning", "recipe.yaml:dtype.rules.*norm*")
    assert finding.message == "`*norm*` matched 0 tensors"


@pytest.mark.parametrize(
    "names",
    [
        {"a.weight": "U8", "a.weight.absmax": "F32", "a.weight.quant_map": "F32"},
        {"a.weight": "I8", "a.SCB": "F32"},
        {"a.qweight": "I32", "a.qzeros": "I32", "a.scales": "F16"},
        {"a.weight_packed": "I32", "a.weight_scale": "BF16"},
        {"a.weight": "F8_E4M3", "a.weight_scale_inv": "F32"},
        {
            "a.weight": "F8_E4M3",
            "a.weight_scale": "F32",
            "a.input_scale": "F32",
            "k.k_scale": "F32",
        },
        {"experts.gate_up_proj_blocks": "U8", "experts.gate_up_proj_scales": "U8"},
    ],
    ids=["bnb 4 bit", "bnb 8 bit", "gptq", "packed", "fp8 blocks", "fp8", "mxfp4"],
)
def test_quantised_weights_and_their_scales_stay(checkpoint: Make, names: dict[str, str]) -> None:
    result = apply(checkpoint({**names, "norm.weight": "F32"}), "bfloat16")
    assert codes(result) == {**names, "norm.weight": "BF16"}
    (finding,) = result.findings
    assert finding.level == "info"
    assert finding.message.startswith("quantised weights and their scales are not cast: ")


@pytest.mark.parametrize("name", ["layer_scales", "x.scales", "a.weight_scale"])
def test_what_is_only_called_a_scale_is_cast(checkpoint: Make, name: str) -> None:
    assert codes(apply(checkpoint({name: "F32", "w": "F32"}), "float16"))[name] == "F16"
