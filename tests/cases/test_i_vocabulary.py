"""Section I: embeddings, heads, vocabulary, and what an adapter says of itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.cases.adapters import (
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
