"""The `architecture` check against classes of transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hfconvert.checks.architecture import check as module
from hfconvert.checks.architecture.check import Outcome, check_reference
from hfconvert.checks.isolated import HarnessError
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec

Specs = dict[str, TensorSpec]
Check = Callable[..., Outcome]
Config = Callable[..., dict[str, Any]]
Stored = Callable[..., Specs]


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "mixtral"])
@pytest.mark.parametrize("changed", [False, True])
def test_what_transformers_writes_fits(
    check: Check, config: Config, stored: Stored, name: str, *, changed: bool
) -> None:
    outcome = check(config(name), stored(config(name)), changed=changed)
    assert outcome.check.status == "pass", outcome.check.detail
    assert outcome.check.measured["missing"] == 0
    assert outcome.findings == ()
    assert {"torch", "transformers"} <= set(outcome.versions)


def test_experts_are_wanted_as_checkpoints_have_them(
    check: Check, config: Config, stored: Stored
) -> None:
    specs = stored(config("mixtral"))
    names = [name for name in specs if ".experts.1.w2." in name]
    assert len(names) == 1
    lost = {name: spec for name, spec in specs.items() if name not in names}
    outcome = check(config("mixtral"), lost)
    assert outcome.check.status == "fail"
    assert names[0] in outcome.check.detail


def test_a_tied_head_may_be_left_out(check: Check, config: Config, stored: Stored) -> None:
    tied = config("llama", tie_word_embeddings=True)
    outcome = check(tied, stored(tied))
    assert outcome.check.status == "pass"
    assert outcome.check.measured["ties"] == 1


def test_floats_that_json_has_not_are_read_as_transformers_writes_them(
    check: Check, config: Config, stored: Stored
) -> None:
    from transformers import Mamba2Config

    given = config("mamba2", time_step_limit=(0.0, float("inf")))
    written = json.loads(Mamba2Config.from_dict(given).to_json_string())
    assert written["time_step_limit"][1] == {"__float__": "Infinity"}
    outcome = check({**written, "architectures": given["architectures"]}, stored(given))
    assert outcome.check.status == "pass", outcome.check.detail


def test_a_lost_bias_is_missing(check: Check, config: Config, stored: Stored) -> None:
    specs = stored(config("gpt2"))
    lost = {name: spec for name, spec in specs.items() if not name.endswith("c_attn.bias")}
    outcome = check(config("gpt2"), lost)
    assert outcome.check.status == "fail"
    assert outcome.check.detail == (
        "GPT2LMHeadModel: 2 missing: `transformer.h.{0..1}.attn.c_attn.bias`"
    )


def test_names_that_a_recipe_changed_have_to_be_exact(
    check: Check, config: Config, stored: Stored
) -> None:
    specs = stored(config("llama"))
    short = {name.removeprefix("model."): spec for name, spec in specs.items()}
    assert check(config("llama"), short).check.status == "pass"
    outcome = check(config("llama"), short, changed=True)
    assert outcome.check.status == "fail"
    assert "a prefix `model.` would mend 20 of 20" in outcome.check.detail


def test_a_prefix_too_much_is_the_likely_cause(
    check: Check, config: Config, stored: Stored
) -> None:
    specs = {f"net.{name}": spec for name, spec in stored(config("llama")).items()}
    outcome = check(config("llama"), specs)
    assert outcome.check.status == "fail"
    assert (
        "without the prefix `net.` there would be 21 of 21 that are missing" in outcome.check.detail
    )
    assert "21 unexpected" in outcome.check.detail


def test_old_names_of_weights_are_those_of_the_source(
    check: Check, config: Config, stored: Stored
) -> None:
    specs = stored(config("bert"))
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): spec
        for name, spec in specs.items()
    }
    outcome = check(config("bert"), old)
    assert outcome.check.status == "pass"
    assert "gives 12 names another form" in outcome.findings[0].message


def test_tensors_that_the_class_does_not_use_are_a_warning(
    check: Check, config: Config, stored: Stored
) -> None:
    specs = stored(config("bert"))
    more = {**specs, "cls.seq_relationship.weight": specs["bert.embeddings.LayerNorm.weight"]}
    outcome = check(config("bert"), more)
    assert outcome.check.status == "pass"
    assert outcome.findings[0].level == "warning"
    assert "`cls.seq_relationship.weight`" in outcome.findings[0].message
    assert check(config("bert"), more, changed=True).check.status == "fail"


def test_another_shape_is_mismatched_and_folded(
    check: Check, config: Config, stored: Stored
) -> None:
    outcome = check(config("llama", intermediate_size=48), stored(config("llama")))
    assert outcome.check.status == "fail"
    assert outcome.check.measured["mismatched"] == 6
    assert "`model.layers.{0..1}.mlp.down_proj.weight` is [16, 32], wanted is [16, 48]" in (
        outcome.check.detail
    )


def test_integers_where_floats_belong_are_mismatched(
    check: Check, config: Config, stored: Stored
) -> None:
    specs = stored(config("llama"))
    name = "model.norm.weight"
    specs[name] = replace(specs[name], dtype=BY_CODE["I32"])
    outcome = check(config("llama"), specs)
    assert f"`{name}` is integers, wanted is floating point" in outcome.check.detail


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"architectures": None}, "config.json names no class"),
        ({"architectures": []}, "config.json names no class"),
        ({"architectures": ["NobodyKnowsThis"]}, "has no class NobodyKnowsThis"),
        ({"quantization_config": {"bits": 4}}, "the weights are quantised"),
        ({"num_attention_heads": "many"}, "the class could not be built"),
    ],
)
def test_where_there_is_no_class_it_is_skipped_with_the_reason(
    check: Check, config: Config, changes: dict[str, Any], reason: str
) -> None:
    outcome = check(config("llama", **changes), {})
    assert outcome.check.status == "skipped"
    assert reason in outcome.check.detail


def test_layers_that_are_called_quantizers_are_no_quantised_weights(
    check: Check, config: Config, stored: Stored
) -> None:
    sound = config("llama", num_quantizers=4, quantizer_dropout=0.1)
    assert check(sound, stored(config("llama"))).check.status == "pass"


def test_without_a_configuration_it_is_skipped(check: Check) -> None:
    assert check(None, {}).check.detail == "there is no config.json"


def test_without_transformers_it_is_skipped(
    check: Check, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "missing_libraries", lambda: ("transformers",))
    detail = check(config("llama"), {}).check.detail
    assert detail == "transformers are not installed: pip install 'hfconvert[models]'"


def test_a_harness_that_breaks_is_no_pass(
    check: Check, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object) -> dict[str, Any]:
        raise HarnessError("ended by signal 9")

    monkeypatch.setattr(module, "ask", broken)
    outcome = check(config("llama"), {})
    assert outcome.check.status == "skipped"
    assert outcome.check.detail == "the class could not be built: ended by signal 9"


CUSTOM = """
from transformers import LlamaConfig, LlamaForCausalLM, PretrainedConfig


class OwnConfig(LlamaConfig):
    model_type = "own"


class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig
"""


@pytest.fixture
def custom(tmp_path: Path, config: Config) -> dict[str, Any]:
    """A configuration whose class is code that lies beside it."""
    import json

    own = config(
        "llama",
        architectures=["OwnModel"],
        model_type="own",
        auto_map={"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"},
    )
    (tmp_path / "own.py").write_text(CUSTOM)
    (tmp_path / "config.json").write_text(json.dumps(own))
    return own


def test_custom_code_takes_both_switches(
    check: Check, config: Config, stored: Stored, custom: dict[str, Any]
) -> None:
    specs = stored(config("llama"))
    outcome = check(custom, specs)
    assert outcome.check.status == "skipped"
    assert "OwnModel is code of the repository, which was not run" in outcome.check.detail
    outcome = check(custom, specs, custom=True)
    assert outcome.check.status == "pass"
    assert outcome.check.detail == "OwnModel"


def test_a_reference_is_a_target_too(config: Config, stored: Stored) -> None:
    specs = stored(config("llama"))
    assert check_reference(specs, specs, "there").check.status == "pass"
    name = "model.norm.weight"
    other = {n: one for n, one in specs.items() if n != name} | {
        "norm": specs[name],
        "lm_head.weight": TensorSpec(BY_CODE["F32"], (4, 16)),
    }
    outcome = check_reference(specs, other, "there")
    assert outcome.check.status == "fail"
    assert outcome.check.detail == (
        f"the reference there: 1 missing: `{name}`; 1 unexpected: `norm`; "
        "1 mismatched: `lm_head.weight` is [4, 16], wanted is [32, 16]"
    )
