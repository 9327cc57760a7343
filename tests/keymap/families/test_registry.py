"""Against transformers: what its models hold in memory, and what they write."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from hfconvert.errors import Exit, UserError
from hfconvert.keymap.apply import apply
from hfconvert.keymap.families import transformers_names
from hfconvert.keymap.families.resolve import Values
from hfconvert.keymap.families.transformers_operations import Made, UnsupportedError

Any_ = Callable[..., Any]
ROOT = Path(__file__).parents[3]
TEXT: dict[str, Any] = {
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 13,
}
VISION: dict[str, Any] = {
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 8,
    "patch_size": 4,
}


def _where(*path: object) -> str:
    return ".".join(map(str, path))


def _model(kind: str) -> Any:
    """Tiny models whose files and memory differ: experts, renamed modules, chunks, prefixes."""
    import transformers as t

    moe: dict[str, Any] = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 4}
    torch.manual_seed(2)
    if kind == "mixtral":
        return t.MixtralForCausalLM(t.MixtralConfig(**TEXT, num_local_experts=3))
    if kind == "qwen3_moe":
        return t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(**TEXT, **moe))
    if kind == "llava":
        config = t.LlavaConfig(
            text_config={"model_type": "llama", **TEXT},
            vision_config={"model_type": "clip_vision_model", **VISION, "projection_dim": 8},
        )
        return t.LlavaForConditionalGeneration(config)
    assert kind == "llama"
    return t.LlamaForCausalLM(t.LlamaConfig(**TEXT))


def _arrays(state: Any) -> dict[str, Any]:
    return {
        name: np.ascontiguousarray(tensor.numpy()).view(f"<u{tensor.element_size()}")
        for name, tensor in state.items()
    }


def _pair(kind: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any], Values]:
    """What the model writes, what it holds, and its configuration."""
    from safetensors.torch import load_file

    model = _model(kind)
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    written = _arrays(load_file(folder / "model.safetensors"))
    return written, _arrays(model.state_dict()), Values(config)


@pytest.mark.parametrize("kind", ["mixtral", "qwen3_moe", "llava", "llama"])
def test_to_v5_is_what_the_model_holds(
    holding: Any_, values: Any_, step: Any_, tmp_path: Path, kind: str
) -> None:
    written, held, source = _pair(kind, tmp_path)
    result = apply(holding(written), [step("family", {"name": "hf-v4-v5"})], _where, source)
    found = values(result.checkpoint)
    assert set(found) == set(held)
    assert all(np.array_equal(found[name], array) for name, array in held.items())


@pytest.mark.parametrize("kind", ["mixtral", "qwen3_moe", "llava", "llama"])
def test_to_v4_is_what_the_model_writes(
    holding: Any_, values: Any_, step: Any_, tmp_path: Path, kind: str
) -> None:
    written, held, source = _pair(kind, tmp_path)
    key_map = [step("family", {"name": "hf-v4-v5", "to": "v4"})]
    found = values(apply(holding(held), key_map, _where, source).checkpoint)
    assert set(found) == set(written)
    assert all(np.array_equal(found[name], array) for name, array in written.items())


def test_what_stays_has_taken_no_step(holding: Any_, step: Any_, tmp_path: Path) -> None:
    written, _, source = _pair("qwen3_moe", tmp_path)
    before = holding(written)
    result = apply(before, [step("family", {"name": "hf-v4-v5"})], _where, source).checkpoint
    assert result["lm_head.weight"] is before["lm_head.weight"]
    experts = result["model.layers.0.mlp.experts.gate_up_proj"]
    assert experts.steps == ("hf-v4-v5 v5",)
    assert len(experts.sources) == 6


def test_names_that_the_model_does_not_have_are_kept_and_said(
    holding: Any_, step: Any_, tmp_path: Path
) -> None:
    written, _, source = _pair("llama", tmp_path)
    written["model.layers.0.extra.weight"] = np.zeros((2, 2), "<u4")
    result = apply(holding(written), [step("family", {"name": "hf-v4-v5"})], _where, source)
    assert "model.layers.0.extra.weight" in result.checkpoint
    assert "1 names are none of the model's" in result.findings[0].message


def test_a_process_of_its_own_answers_alike(tmp_path: Path) -> None:
    written, _, source = _pair("qwen3_moe", tmp_path)
    request = {
        "config": dict(source.config),
        "tensors": {name: list(array.shape) for name, array in written.items()},
        "to": "v5",
    }
    script = (
        "import json, sys\n"
        "from hfconvert.keymap.families.registry import ask\n"
        "answered = ask(json.load(sys.stdin))\n"
        "assert 'torch' not in sys.modules\n"
        "print(json.dumps(answered))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(request).encode(),
        capture_output=True,
        check=True,
        cwd=ROOT,
    )
    assert json.loads(run.stdout) == transformers_names.answer(request)


@pytest.mark.parametrize(
    ("options", "config", "said"),
    [
        ({}, {}, "needs the source's config.json"),
        ({"to": "v6"}, {"model_type": "llama"}, "`to` cannot be v6"),
        ({"too": "v5"}, {"model_type": "llama"}, "has no option `too`"),
        ({}, {"model_type": "llama"}, "no model class (none)"),
        ({}, {"model_type": "llama", "architectures": ["MyModel"]}, "no model class MyModel"),
        ({}, {"model_type": "nonesuch", "architectures": ["X"]}, "did not say what it renamed"),
    ],
)
def test_what_is_missing_is_said(
    holding: Any_, step: Any_, options: Any, config: Any, said: str
) -> None:
    before = holding({"a": np.zeros(2, "<u4")})
    key_map = [step("family", {"name": "hf-v4-v5", **options})]
    with pytest.raises(UserError) as caught:
        apply(before, key_map, _where, Values(config))
    assert said in str(caught.value)
    assert caught.value.exit == Exit.RECIPE


def _call(kind: str, sources: list[str], targets: list[str], **options: Any) -> Any:
    from transformers import core_model_loading as loading

    return loading.WeightConverter(sources, targets, [getattr(loading, kind)(**options)])


@pytest.mark.parametrize(
    ("kind", "options", "shape"),
    [
        ("Chunk", {"dim": 1}, (2, 6)),
        ("Interleave", {"dim": 0}, (6, 2)),
        ("Interleave", {"dim": 1, "inverse": True}, (3, 8)),
        ("Transpose", {"dim0": 0, "dim1": 1}, (3, 4)),
        ("PermuteForRope", {}, (12, 3)),
        ("PermuteForRope", {"inverse": True}, (12, 3)),
        ("PermuteForRope", {"subconfig_key": "vision_config"}, (12, 3)),
        ("PermuteForRope", {"permute_layer_names": ["q_proj"]}, (12, 3)),
    ],
)
def test_operations_are_those_of_transformers(
    holding: Any_, values: Any_, kind: str, options: Any, shape: tuple[int, int]
) -> None:
    from hfconvert.keymap.families.registry import _Maker

    targets = ["one", "two"] if kind == "Chunk" else ["one"]
    converter = _call(kind, ["w"], targets, **options)
    array = np.arange(np.prod(shape), dtype="<i4").reshape(shape)
    operation = converter.operations[0]
    patterns = {"source_patterns": ["w"], "target_patterns": targets}
    config = SimpleNamespace(num_attention_heads=2)
    config.vision_config = SimpleNamespace(num_attention_heads=3)
    given = {"w": [torch.from_numpy(array.copy())]}
    expected = operation.convert(given, **patterns, config=config)
    made = transformers_names._converted(
        converter,
        targets[0],
        {"w": [Made(shape, ["source", "w"])]},
        SimpleNamespace(config=config),
    )
    before = holding({"w": array.view("<u4")})
    entries = {name: _Maker(before, "x").entry(name, one.recipe) for name, one in made.items()}
    found = values(before.with_entries(entries))
    assert set(found) == set(expected)
    for name, value in expected.items():
        tensor = value[0] if isinstance(value, list) else value
        assert made[name].shape == tuple(tensor.shape)
        assert np.array_equal(found[name], tensor.numpy().view("<u4"))


def test_an_operation_without_a_counterpart_is_named() -> None:
    converter = _call("Conv3dToLinear", ["q.w"], ["q.weight"], in_channels=1, kernel_size=(1, 2, 2))
    one = Made((4, 4), ["source", "q.w"])
    with pytest.raises(UnsupportedError, match="operation Conv3dToLinear"):
        transformers_names._converted(converter, "q.weight", {"q.w": [one]}, None)
