"""Section J: experts stacked or one by one, layouts of transformers 4 and 5; and key maps end to end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

State = dict[str, torch.Tensor]
Convert = Callable[..., Any]
Store = Callable[..., Path]


@pytest.fixture(scope="module")
def moe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Qwen3-MoE, hidden 8, 3 experts, written by transformers: `each` one by one, `fused` as in memory."""
    import transformers

    sizes: dict[str, Any] = {
        "hidden_size": 8,
        "moe_intermediate_size": 4,
        "intermediate_size": 4,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "num_experts": 3,
        "num_experts_per_tok": 2,
        "vocab_size": 11,
    }
    torch.manual_seed(11)
    model = transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**sizes))
    root = tmp_path_factory.mktemp("moe")
    model.save_pretrained(root / "each")
    model.save_pretrained(root / "fused", save_original_format=False)
    return root


def _state(folder: Path) -> State:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("layout", ["each", "fused"])
def test_145_the_layout_on_disk_is_the_layout_written(
    moe: Path, convert: Convert, layout: str
) -> None:
    expected = _state(moe / layout)
    assert any(name.endswith("experts.gate_up_proj") for name in expected) == (layout == "fused")
    done = convert(moe / layout)
    assert done.code == 0
    assert done.holds(expected)


@pytest.mark.parametrize(
    ("source", "family", "target"),
    [("each", "moe-stacked", "fused"), ("fused", "moe-unstacked", "each")],
)
def test_145_a_family_leads_from_one_to_the_other(
    moe: Path, convert: Convert, source: str, family: str, target: str
) -> None:
    done = convert(moe / source, key_map=[{"family": {"name": family}}])
    assert done.code == 0, done.said
    assert done.holds(_state(moe / target))
    assert done.check("tensors")["status"] == "pass"
    shapes = {tuple(tensor.shape) for name, tensor in done.tensors().items() if "experts" in name}
    assert shapes == ({(3, 8, 8), (3, 8, 4)} if target == "fused" else {(4, 8), (8, 4)})


def test_157_a_map_of_single_experts_over_stacked_ones_is_an_error(
    moe: Path, convert: Convert
) -> None:
    rules = {"*.experts.{n}.gate_proj.weight": "*.experts.{n}.w1.weight"}
    done = convert(moe / "fused", key_map=[{"rename": rules}])
    assert done.code == 2
    assert "matched 0 keys: `*.experts.{n}.gate_proj.weight`" in done.findings("error")
    done = convert(moe / "fused", key_map=[{"family": {"name": "moe-stacked"}}])
    assert done.code == 2
    assert "no step of the family `moe-stacked` matches a name" in done.findings("error")


def test_157_an_expert_that_is_missing_is_an_error(
    moe: Path, store: Store, convert: Convert
) -> None:
    state = _state(moe / "each")
    del state["model.layers.1.mlp.experts.1.up_proj.weight"]
    source = store({"model.safetensors": state})
    done = convert(source, key_map=[{"family": {"name": "moe-stacked"}}])
    assert done.code == 2
    missing = "`model.layers.1.mlp.experts.1.gate_up_proj`: missing `*.experts.{n}.up_proj.weight`"
    assert missing in done.findings("error")


HEADS, GROUPS, DIM, HIDDEN, FFN = 4, 2, 4, 16, 32


def _fused_model() -> tuple[State, State]:
    """A decoder as a training framework holds it, and as transformers does."""
    generator = torch.Generator().manual_seed(1)
    fused: State = {}
    expected: State = {}
    for layer in range(2):
        base, target = f"decoder.layers.{layer}", f"model.layers.{layer}"
        parts = {"q": HEADS * DIM, "k": GROUPS * DIM, "v": GROUPS * DIM}
        for kind, shape in {"weight": (HIDDEN,), "bias": ()}.items():
            made = {n: torch.randn(rows, *shape, generator=generator) for n, rows in parts.items()}
            expected |= {f"{target}.self_attn.{n}_proj.{kind}": one for n, one in made.items()}
            grouped = [one.reshape(GROUPS, -1, *shape) for one in made.values()]
            joined = torch.cat(grouped, 1).reshape(-1, *shape)
            fused[f"{base}.self_attention.linear_qkv.{kind}"] = joined
        gate, up, down = (torch.randn(FFN, HIDDEN, generator=generator) for _ in range(3))
        expected |= {f"{target}.mlp.gate_proj.weight": gate, f"{target}.mlp.up_proj.weight": up}
        expected[f"{target}.mlp.down_proj.weight"] = down.T.contiguous()
        fused[f"{base}.mlp.linear_fc1.weight"] = torch.cat([gate, up])
        fused[f"{base}.mlp.linear_fc2.weight"] = down.T.contiguous()
        norm = torch.randn(HIDDEN, generator=generator)
        expected[f"{target}.input_layernorm.weight"] = norm
        fused[f"{base}.input_layernorm.weight"] = norm
    embed = torch.randn(32, HIDDEN, generator=generator)
    fused["embedding.word_embeddings.weight"] = embed
    expected["model.embed_tokens.weight"] = embed[:30].clone()
    return fused, expected


MAP: list[dict[str, Any]] = [
    {
        "qkv": {
            "from": "decoder.layers.{i}.self_attention.linear_qkv.*",
            "into": [f"model.layers.{{i}}.self_attn.{n}_proj.*" for n in "qkv"],
            "layout": "interleaved",
            "heads": "${config.num_attention_heads}",
            "kv_heads": "${config.num_key_value_heads}",
        }
    },
    {
        "rename": {
            "decoder.layers.{i}.mlp.linear_fc2.*": "model.layers.{i}.mlp.down_proj.*",
            "decoder.layers.{i}.input_layernorm.*": "model.layers.{i}.input_layernorm.*",
            "embedding.word_embeddings.weight": "model.embed_tokens.weight",
        }
    },
    {"resize": {"model.embed_tokens.weight": 30}},
]
SPLIT = {
    "split": {
        "from": "decoder.layers.{i}.mlp.linear_fc1.weight",
        "into": ["model.layers.{i}.mlp.gate_proj.weight", "model.layers.{i}.mlp.up_proj.weight"],
        "dim": 0,
    }
}
CONFIG = {"num_attention_heads": HEADS, "num_key_value_heads": GROUPS}


def test_a_whole_map_of_layout_steps(store: Store, convert: Convert) -> None:
    fused, expected = _fused_model()
    done = convert(store({"model.pt": fused}, config=CONFIG), key_map=[*MAP, SPLIT])
    assert done.code == 0, done.said
    assert done.holds(expected)
    assert done.check("tensors")["measured"]["values"] == sum(t.numel() for t in expected.values())


def _ranks(fused: State) -> dict[str, State]:
    """Two ranks: columns and rows as Megatron-LM divides them, fc1 by gate and up apart."""
    files: dict[str, State] = {"rank-0.pt": {}, "rank-1.pt": {}}
    for name, tensor in fused.items():
        for rank, file in enumerate(files.values()):
            if "norm" in name:
                file[name] = tensor.clone()
            elif "fc1" in name:
                halves = [half.chunk(2)[rank] for half in tensor.chunk(2)]
                file[name] = torch.cat(halves)
            else:
                file[name] = tensor.chunk(2, 1 if "fc2" in name else 0)[rank].clone()
    return files


RANK_STEPS: list[dict[str, Any]] = [
    {
        "split": {
            "from": "decoder.layers.{i}.mlp.linear_fc1.weight@{r}",
            "into": [f"model.layers.{{i}}.mlp.{n}_proj.weight@{{r}}" for n in ("gate", "up")],
        }
    },
    {"join": {"*norm*": "replicated", "*linear_fc2.weight": 1, "*": 0}},
]


def test_files_of_ranks_are_joined(store: Store, convert: Convert) -> None:
    fused, expected = _fused_model()
    source = store(_ranks(fused), config=CONFIG)
    reading = {"ranks": "rank-{r}.pt"}
    done = convert(source, reading=reading, key_map=[*RANK_STEPS, *MAP])
    assert done.code == 0, done.said
    assert done.holds(expected)
    planned = convert(source, command="plan", reading=reading, key_map=[*RANK_STEPS, *MAP])
    entry = next(
        one for one in planned.document["tensors"] if one["name"].endswith("0.mlp.up_proj.weight")
    )
    assert entry["from"] == [f"decoder.layers.0.mlp.linear_fc1.weight@{rank}" for rank in (0, 1)]
    assert entry["steps"] == ["split dim 0", "join dim 0"]
    assert planned.document["source"]["format"] == "ranks"


def test_replicas_that_differ_stop_the_run(store: Store, convert: Convert) -> None:
    files = _ranks(_fused_model()[0])
    files["rank-1.pt"]["decoder.layers.1.input_layernorm.weight"][3] += 1
    source = store(files, config=CONFIG)
    done = convert(source, reading={"ranks": "rank-{r}.pt"}, key_map=[*RANK_STEPS, *MAP])
    assert done.code == 3
    assert "its replica of rank 1 differs from that of rank 0" in done.findings("error")


def test_slices_that_no_step_joins_are_an_error(store: Store, convert: Convert) -> None:
    source = store(_ranks(_fused_model()[0]), config=CONFIG)
    done = convert(source, reading={"ranks": "rank-{r}.pt"})
    assert done.code == 2
    assert "22 tensors are still slices of ranks" in done.findings("error")


def test_geometry_that_the_configuration_lacks_is_said_before_anything_is_read(
    store: Store, convert: Convert
) -> None:
    source = store({"model.pt": _fused_model()[0]})
    done = convert(source, key_map=MAP)
    assert done.code == 2
    assert "`${config.num_attention_heads}` has no value" in done.findings("error")


def test_heads_that_do_not_fit_the_shapes(store: Store, convert: Convert) -> None:
    config = {"num_attention_heads": 5, "num_key_value_heads": 5}
    done = convert(store({"model.pt": _fused_model()[0]}, config=config), key_map=MAP[:1])
    assert done.code == 2
    errors = done.findings("error")
    assert "`decoder.layers.{0..1}.self_attention.linear_qkv.weight`" in errors
    assert "does not divide into 5 query heads and 5 key and value heads" in errors
    assert "recipe.yaml:" in errors


RENAMED = {"*.input_layernorm.weight": "*.ln_1.weight", "model.norm.weight": "model.ln_f.weight"}


def test_146_names_are_held_against_those_of_the_base(
    tiny: State, config: dict[str, Any], store: Store, convert: Convert
) -> None:
    base = store({"model.safetensors": tiny}, config=config, folder="base")
    source = store({"pytorch_model.bin": tiny}, config=config)
    reference = {"reference": str(base), "logits": "off", "architecture": "off"}
    done = convert(source, key_map=[{"rename": RENAMED}], validate=reference)
    assert done.code == 1
    assert done.check("architecture")["status"] == "fail"
    plan = convert(source, command="plan", key_map=[{"rename": RENAMED}], validate=reference)
    assert plan.code == 0
    said = plan.findings("warning")
    assert "3 only in the reference: `model.layers.{0..1}.input_layernorm.weight`" in said
    assert "3 only in the result: `model.layers.{0..1}.ln_1.weight`, `model.ln_f.weight`" in said
    (hint,) = [
        one["hint"] for one in plan.document["findings"] if "are not those of" in one["message"]
    ]
    assert "- rename:\n" in hint
    assert '"model.layers.{i}.ln_1.weight": "model.layers.{i}.input_layernorm.weight"' in hint
    assert '"model.ln_f.weight": "model.norm.weight"' in hint


def test_146_the_same_names_pass_and_say_so(
    tiny: State, config: dict[str, Any], store: Store, convert: Convert
) -> None:
    base = store({"model.safetensors": tiny}, config=config, folder="base")
    source = store({"pytorch_model.bin": tiny}, config=config)
    reference = {"reference": str(base), "logits": "off", "architecture": "off"}
    done = convert(source, validate=reference)
    assert done.code == 0, done.said
    assert "all 21 names and shapes are those of" in done.findings("info")


def test_146_a_tie_is_no_difference(
    tiny: State, tiny_tied: State, config_tied: dict[str, Any], store: Store, convert: Convert
) -> None:
    untied = {name: tensor.clone() for name, tensor in tiny_tied.items()}
    base = store({"model.safetensors": untied}, config=config_tied, folder="base")
    source = store({"pytorch_model.bin": tiny_tied}, config=config_tied)
    reference = {"reference": str(base), "logits": "off", "architecture": "off"}
    done = convert(source, validate=reference)
    assert done.code == 0, done.document["checks"]
    assert "lm_head.weight" not in done.tensors()


def test_a_reference_that_is_not_there(tiny: State, store: Store, convert: Convert) -> None:
    source = store({"pytorch_model.bin": tiny})
    done = convert(source, validate={"reference": "./nowhere", "logits": "off"})
    assert done.code == 2
    assert "cannot be read: there is no such file or folder" in done.findings("error")
