"""Section I: LoRA merges, their arithmetic."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from tests.cases.adapters import (
    ALPHA,
    ON_Q,
    SCALE,
    Adapt,
    Convert,
    R,
    State,
    Store,
    factors,
    lora,
    merged,
)


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
