"""Section I: LoRA merges."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

State = dict[str, torch.Tensor]
Convert = Callable[..., Any]
Store = Callable[..., Path]
Adapt = Callable[..., Path]

R, ALPHA = 4, 8
SCALE = ALPHA / R
ON_Q = [f"model.layers.{layer}.self_attn.q_proj" for layer in range(2)]


@pytest.fixture
def adapt(store: Store) -> Adapt:
    """ADP(targets): an adapter folder as PEFT saves it; fields go into its configuration."""

    def write(
        factors: Mapping[str, torch.Tensor], *, folder: str = "adapter", **fields: Any
    ) -> Path:
        config = {
            "peft_type": "LORA",
            "r": R,
            "lora_alpha": ALPHA,
            "target_modules": ["q_proj"],
            "base_model_name_or_path": "./base",
            **fields,
        }
        return store(
            {"adapter_model.safetensors": dict(factors), "adapter_config.json": config},
            folder=folder,
        )

    return write


def factors(
    modules: list[str], state: State, *, r: int = R, front: str = "base_model.model."
) -> State:
    """A and B for modules of a model, drawn so that every value of the update counts."""
    generator = torch.Generator().manual_seed(11)
    found: State = {}
    for module in modules:
        out, inputs = state[f"{module}.weight"].shape
        found[f"{front}{module}.lora_A.weight"] = torch.randn(r, inputs, generator=generator)
        found[f"{front}{module}.lora_B.weight"] = torch.randn(out, r, generator=generator)
    return found


def merged(state: State, adapter: State, scale: float = SCALE) -> State:
    """What comes of adding B A, by the names of the factors."""
    result = dict(state)
    for name, b in adapter.items():
        if name.endswith(".lora_B.weight"):
            module = name.removeprefix("base_model.model.").removesuffix(".lora_B.weight")
            a = adapter[name.replace("lora_B", "lora_A")].float()
            result[f"{module}.weight"] = result[f"{module}.weight"] + (b.float() @ a) * scale
    return result


def lora(*adapters: Path | dict[str, Any], **fields: Any) -> dict[str, Any]:
    given = [one if isinstance(one, dict) else {"adapter": str(one)} for one in adapters]
    return {"adapters": given, **fields}


def test_88_the_result_holds_no_trace_of_the_adapter(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    adapter = factors(ON_Q, tiny)
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(adapt(adapter)))
    assert done.code == 0
    assert done.holds(merged(tiny, adapter))
    assert not any("lora_" in name or "base_layer" in name for name in done.tensors())
    assert "adapter_config.json" not in done.files


@pytest.mark.parametrize("other", ["model.decoder.blocks.", "encoder.layer."])
def test_89_an_adapter_for_other_names_is_an_error(
    other: str, tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    renamed = {
        name.replace("model.layers.", other): one for name, one in factors(ON_Q, tiny).items()
    }
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(adapt(renamed)))
    assert done.code == 3
    assert "4 tensors of the adapter match nothing in the base" in done.said
    assert "{0..1}" in done.said


def test_91_a_head_that_is_a_target_and_has_no_tensors(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    path = adapt(factors(ON_Q, tiny), target_modules=["q_proj", "lm_head"])
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(path))
    assert done.code == 3
    assert "1 modules are targets of the configuration and have no tensors: `lm_head`" in done.said


def test_92_other_targets_than_tensors(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    path = adapt(factors(ON_Q, tiny), target_modules=["v_proj"])
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(path))
    assert done.code == 3
    assert "`model.layers.{0..1}.self_attn.v_proj`" in done.said


def test_94_nested_wrappers_and_an_adapter_upon_an_adapter(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    first = factors(ON_Q, tiny)
    nested = factors(ON_Q, tiny, front="base_model.model.base_model.model.")
    one, two = adapt(first), adapt(nested, folder="second")
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(one, two))
    assert done.code == 0
    again = {
        name.replace("base_model.model.base_model", "base_model"): t for name, t in nested.items()
    }
    assert done.holds(merged(merged(tiny, first), again))


def test_97_a_rank_stabilised_adapter_alone_is_itself(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    adapter = factors(ON_Q, tiny)
    path = adapt(adapter, use_rslora=True)
    recipe = lora({"adapter": str(path), "weight": 1.0})
    done = convert(store({"model.safetensors": tiny}, config=config), lora=recipe)
    assert done.holds(merged(tiny, adapter, ALPHA / R**0.5))


def test_97_weights_scale_the_sum(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    adapter = factors(ON_Q, tiny)
    recipe = lora({"adapter": str(adapt(adapter)), "weight": 0.25})
    done = convert(store({"model.safetensors": tiny}, config=config), lora=recipe)
    assert done.holds(merged(tiny, adapter, SCALE * 0.25))


def test_98_adapters_in_bf16_are_read_as_what_they_are(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    adapter = {name: one.bfloat16() for name, one in factors(ON_Q, tiny).items()}
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(adapt(adapter)))
    assert done.holds(merged(tiny, adapter))


def test_100_patterns_of_rank_and_alpha(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    adapter = {**factors(ON_Q[:1], tiny, r=8), **factors(ON_Q[1:], tiny)}
    path = adapt(
        adapter,
        rank_pattern={"layers.0.self_attn.q_proj": 8},
        alpha_pattern={"layers.0.self_attn.q_proj": 64},
    )
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(path))
    one = {name: t for name, t in adapter.items() if "layers.0." in name}
    two = {name: t for name, t in adapter.items() if "layers.1." in name}
    assert done.holds(merged(merged(tiny, one, 64 / 8), two))


def test_101_another_rank_in_the_configuration(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    path = adapt(factors(ON_Q, tiny), r=8)
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(path))
    assert done.code == 3
    assert "the configuration says rank 8, the tensors have rank 4" in done.said
    assert "lora_alpha" in done.said


def test_107_an_update_of_a_part_of_a_joined_layer(
    store: Store, adapt: Adapt, convert: Convert
) -> None:
    base = {"h.0.attn.qkv.weight": torch.randn(24, 16)}
    adapter = {
        "base_model.model.h.0.attn.qkv.lora_A.weight": torch.randn(4, 16),
        "base_model.model.h.0.attn.qkv.lora_B.weight": torch.randn(16, 4),
    }
    path = adapt(adapter, target_modules=["qkv"])
    done = convert(store({"model.safetensors": base}), lora=lora(path))
    assert done.code == 3
    assert "do not fit h.0.attn.qkv.weight, which is [24, 16]" in done.said


@pytest.mark.parametrize("init", ["pissa_niter_4", "corda", "loftq"])
def test_109_initialisers_that_change_the_base_beyond_recall(
    init: str, tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    path = adapt(factors(ON_Q, tiny), init_lora_weights=init)
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(path))
    assert done.code == 3
    assert f"`init_lora_weights: {init}` cannot be merged" in done.said


def test_110_what_rounding_takes_is_said_and_a_wider_dtype_keeps_it(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    base = {name: (one * 0.02).bfloat16() for name, one in tiny.items()}
    adapter = {
        name: one * (0.002 if "lora_B" in name else 0.01)
        for name, one in factors(ON_Q, tiny).items()
    }
    source = store({"model.safetensors": base}, config=config)
    path = adapt(adapter)
    narrow = convert(source, lora=lora(path)).check("merge")
    assert narrow["measured"]["lost_by_rounding"]["q_proj"] > 0.1
    assert "a wider dtype keeps more" in narrow["detail"]
    wide = convert(source, lora=lora(path), dtype="float32", output="wide")
    assert wide.check("merge")["measured"]["lost_by_rounding"]["q_proj"] < 0.001
    expected = merged({name: one.float() for name, one in base.items()}, adapter)
    assert wide.holds(expected)


def test_113_packed_weights_are_refused_with_the_parents_name(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [16, 16]}
    name = f"{ON_Q[0]}.weight"
    packed = {
        **tiny,
        name: torch.zeros(128, 1, dtype=torch.uint8),
        f"{name}.absmax": torch.ones(4),
        f"{name}.quant_map": torch.linspace(-1, 1, 16),
        f"{name}.quant_state.bitsandbytes__nf4": torch.tensor(
            list(json.dumps(state).encode()), dtype=torch.uint8
        ),
    }
    settings = {
        **config,
        "_name_or_path": "org/tiny-bnb-4bit",
        "quantization_config": {"load_in_4bit": True},
    }
    source = store({"model.safetensors": packed}, config=settings)
    path = adapt(factors(ON_Q, tiny))
    refused = convert(source, lora=lora(path))
    assert refused.code == 2
    assert "the base is quantised: bitsandbytes NF4" in refused.said
    assert "take org/tiny as the source" in refused.said
    plain = convert(source, lora=lora(path, base_quantization="dequantize"), output="plain")
    assert plain.code == 0
    assert "quantization_config" not in plain.json("config.json")
    assert plain.tensors()[name].dtype == torch.bfloat16
    assert plain.tensors().keys() == tiny.keys()


def test_116_a_head_that_is_tied_is_untied(
    tiny_tied: State, config_tied: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    base = {name: one for name, one in tiny_tied.items() if name != "lm_head.weight"}
    adapter = factors(["lm_head"], tiny_tied)
    path = adapt(adapter, target_modules=["lm_head"])
    source = store({"model.safetensors": base}, config=config_tied)
    done = convert(source, lora=lora(path))
    assert done.code == 0
    assert done.holds(merged(tiny_tied, adapter))
    assert done.json("config.json")["tie_word_embeddings"] is False
    refused = convert(source, lora=lora(path, on_tie="error"), output="refused")
    assert refused.code == 2
    assert "which are tied" in refused.said


def test_119_both_ends_trained_together_change_once(
    tiny_tied: State, config_tied: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    base = {name: one for name, one in tiny_tied.items() if name != "lm_head.weight"}
    a, b = torch.randn(R, 32), torch.randn(16, R)
    front = "base_model.model.model.embed_tokens.lora_embedding_"
    path = adapt(
        {f"{front}A": a, f"{front}B": b},
        target_modules=["embed_tokens"],
        ensure_weight_tying=True,
    )
    done = convert(store({"model.safetensors": base}, config=config_tied), lora=lora(path))
    assert done.code == 0
    name = "model.embed_tokens.weight"
    assert done.holds({**base, name: base[name] + (b @ a).T * SCALE})
    assert done.json("config.json")["tie_word_embeddings"] is True


def test_121_rows_that_the_adapter_stores_resize_the_base(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    adapter = factors(ON_Q, tiny)
    rows = {
        "base_model.model.model.embed_tokens.weight": torch.randn(35, 16),
        "base_model.model.lm_head.weight": torch.randn(35, 16),
    }
    path = adapt({**adapter, **rows})
    (path / "tokenizer.json").write_text('{"added": 3}')
    source = store({"model.safetensors": tiny, "tokenizer.json": b"{}"}, config=config)
    done = convert(source, lora=lora(path))
    assert done.code == 0
    expected = merged(tiny, adapter)
    expected["model.embed_tokens.weight"] = rows["base_model.model.model.embed_tokens.weight"]
    expected["lm_head.weight"] = rows["base_model.model.lm_head.weight"]
    assert done.holds(expected)
    assert done.json("config.json")["vocab_size"] == 35
    assert done.files["tokenizer.json"] == b'{"added": 3}'
    assert "brings tokenizer.json, which take the place of the base's" in done.findings("info")


def test_121_rows_of_one_end_alone_are_not_enough(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    rows = {"base_model.model.model.embed_tokens.weight": torch.randn(35, 16)}
    path = adapt({**factors(ON_Q, tiny), **rows})
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(path))
    assert done.code == 3
    assert "the adapter expects 35 rows, lm_head.weight of the base has 32" in done.said


def test_122_an_update_of_rows_that_the_base_lacks(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    front = "base_model.model.model.embed_tokens.lora_embedding_"
    path = adapt(
        {f"{front}A": torch.randn(R, 36), f"{front}B": torch.randn(16, R)},
        target_modules=["embed_tokens"],
    )
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(path))
    assert done.code == 3
    assert "its update has 36 rows of 16, the base has 32 of 16" in done.said


def test_124_a_classifier_takes_the_place_of_the_head(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    score = torch.randn(5, 16)
    adapter = factors(ON_Q, tiny)
    path = adapt(
        {**adapter, "base_model.model.score.weight": score},
        task_type="SEQ_CLS",
        modules_to_save=["classifier", "score"],
    )
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(path))
    assert done.code == 0
    expected = merged(tiny, adapter)
    del expected["lm_head.weight"]
    assert done.holds({**expected, "score.weight": score})
    written = done.json("config.json")
    assert written["architectures"] == ["LlamaForSequenceClassification"]
    assert written["id2label"] == {str(number): f"LABEL_{number}" for number in range(5)}


def test_125_trained_tokens_replace_their_rows(
    tiny_tied: State, config_tied: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    base = {name: one for name, one in tiny_tied.items() if name != "lm_head.weight"}
    rows = torch.randn(2, 16)
    adapter = factors(ON_Q, tiny_tied)
    name = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"
    path = adapt({**adapter, name: rows}, trainable_token_indices={"embed_tokens": [1, 3]})
    done = convert(store({"model.safetensors": base}, config=config_tied), lora=lora(path))
    assert done.code == 0
    expected = merged(base, adapter)
    embedding = base["model.embed_tokens.weight"].clone()
    embedding[[1, 3]] = rows
    assert done.holds({**expected, "model.embed_tokens.weight": embedding})


@pytest.mark.parametrize(("value", "code"), [({"x": 1}, 3), (None, 0), (False, 0), ({}, 0)])
def test_127_fields_of_a_later_peft(
    value: Any, code: int, tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    path = adapt(factors(ON_Q, tiny), brand_new_field=value)
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(path))
    assert done.code == code
    assert "brand_new_field" in (done.said if code else done.findings("warning"))


def test_128_a_models_configuration_in_the_adapters_place(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    path = adapt(factors(ON_Q, tiny))
    (path / "adapter_config.json").write_text(json.dumps(config))
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(path))
    assert done.code == 3
    assert "this is the configuration of a model, not of an adapter" in done.said


@pytest.mark.parametrize("record", ["./base", None, "/somewhere/base"])
def test_131_a_record_that_is_no_identity_is_a_finding(
    record: str | None, tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    path = adapt(factors(ON_Q, tiny), base_model_name_or_path=record)
    done = convert(store({"model.safetensors": tiny}, config=config), lora=lora(path))
    assert done.code == 0
    assert "base" in done.findings("info") + done.findings("warning")


def test_133_base_and_adapter_swapped(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    base = store({"model.safetensors": tiny}, config=config)
    done = convert(adapt(factors(ON_Q, tiny)), lora=lora(base))
    assert done.code == 2
    assert "base and adapter were swapped" in done.said


def test_134_an_adapter_of_another_size_lists_every_misfit(
    tiny: State, config: Any, store: Store, adapt: Adapt, convert: Convert
) -> None:
    wide = {module + ".weight": torch.zeros(24, 24) for module in ON_Q}
    done = convert(
        store({"model.safetensors": tiny}, config=config), lora=lora(adapt(factors(ON_Q, wide)))
    )
    assert done.code == 3
    assert done.said.count("do not fit") == 2


@pytest.mark.parametrize("shards", [1, 3])
def test_136_as_many_tensors_as_the_base(
    shards: int,
    tiny: State,
    config: Any,
    store: Store,
    adapt: Adapt,
    convert: Convert,
    sharded: Callable[..., dict[str, Any]],
) -> None:
    adapter = factors(ON_Q, tiny)
    files = sharded(tiny, shards)
    done = convert(store(files, config=config), lora=lora(adapt(adapter)))
    assert done.code == 0
    assert done.holds(merged(tiny, adapter))
    assert done.check("merge")["measured"]["modules"] == {"q_proj": 2}


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ("model.language_model.", "language_model.model."),
        ("language_model.model.", "model.language_model."),
        ("model.language_model.", "model."),
        ("language_model.model.", "model."),
    ],
)
def test_137_names_of_another_version_of_transformers(
    files: str, names: str, tiny: State, store: Store, adapt: Adapt, convert: Convert
) -> None:
    base = {name.replace("model.", files, 1): one for name, one in tiny.items()}
    adapter = {
        name.replace("base_model.model.model.", f"base_model.model.{names}", 1): one
        for name, one in factors(ON_Q, tiny).items()
    }
    done = convert(store({"model.safetensors": base}), lora=lora(adapt(adapter)))
    assert done.code == 0
    expected = merged(tiny, factors(ON_Q, tiny))
    assert done.holds({name.replace("model.", files, 1): one for name, one in expected.items()})
    assert "are called otherwise in the files of the base" in done.findings("info")
