"""Section A: shared, tied and aliased tensors."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

State = dict[str, torch.Tensor]
Convert = Callable[..., Any]
Store = Callable[..., Path]
Sharded = Callable[..., dict[str, Any]]


def spans(done: Any) -> list[tuple[int, int]]:
    """The byte ranges of an output file, in the order of the file."""
    header = done.header()
    return sorted(
        tuple(entry["data_offsets"]) for name, entry in header.items() if name != "__metadata__"
    )


def test_2_disjoint_slices_of_one_buffer_are_all_kept(store: Store, convert: Convert) -> None:
    buffer = torch.arange(12.0)
    state = {"a": buffer[:6], "b": buffer[6:]}
    source = store({"pytorch_model.bin": state})
    done = convert(source)
    assert done.code == 0
    assert done.holds(state)
    plan = convert(source, command="plan", output="planned")
    assert plan.document["ties"] == []


def test_2_a_whole_model_in_one_flat_buffer(tiny: State, store: Store, convert: Convert) -> None:
    flat = torch.cat([tensor.flatten() for tensor in tiny.values()])
    state, position = {}, 0
    for name, tensor in tiny.items():
        state[name] = flat[position : position + tensor.numel()].view(tensor.shape)
        position += tensor.numel()
    done = convert(store({"pytorch_model.bin": state}))
    assert done.code == 0
    assert done.holds(tiny)


def test_2_overlapping_slices_are_copied_and_said(store: Store, convert: Convert) -> None:
    buffer = torch.arange(12.0)
    state = {"all": buffer, "head": buffer[:8], "tail": buffer[4:]}
    done = convert(store({"pytorch_model.bin": state}))
    assert done.code == 0
    assert done.holds(state)
    assert "lie over common bytes without being the same" in done.findings("info")
    assert spans(done) == [(0, 32), (32, 64), (64, 112)] or len(set(spans(done))) == 3


def three_names() -> State:
    shared = torch.randn(8, 4)
    return {"a.emb": shared, "b.emb": shared, "head": shared, "w": torch.ones(2)}


def test_4_a_tie_that_no_configuration_declares(store: Store, convert: Convert) -> None:
    state = three_names()
    source = store({"pytorch_model.bin": state})
    plan = convert(source, command="plan", output="planned").document
    assert plan["ties"] == [
        {"kept": "a.emb", "dropped": "b.emb"},
        {"kept": "a.emb", "dropped": "head"},
    ]
    done = convert(source)
    assert done.code == 0
    assert done.holds({"a.emb": state["a.emb"], "w": state["w"]})
    assert "head: is a.emb: one storage, written once" in done.findings("info")


def test_4_the_recipe_decides_which_name_is_kept(store: Store, convert: Convert) -> None:
    state = three_names()
    source = store({"pytorch_model.bin": state})
    done = convert(source, key_map=[{"drop": ["{side}.emb"]}])
    assert done.code == 0
    assert done.holds({"head": state["head"], "w": state["w"]})


def test_4_a_tie_step_keeps_the_name_it_is_told_to(store: Store, convert: Convert) -> None:
    state = three_names()
    source = store({"pytorch_model.bin": {**state, "b.emb": state["head"].clone()}})
    steps = [{"tie": {"a.emb": "head", "b.emb": "head"}}]
    done = convert(source, key_map=steps)
    assert done.code == 0
    assert done.holds({"head": state["head"], "w": state["w"]})
    plan = convert(source, command="plan", output="planned", key_map=steps).document
    assert {(tie["kept"], tie["dropped"]) for tie in plan["ties"]} == {
        ("head", "a.emb"),
        ("head", "b.emb"),
    }


def test_4_a_tie_step_over_different_values_stops(store: Store, convert: Convert) -> None:
    state = three_names()
    other = {**state, "b.emb": state["head"] + 1}
    done = convert(store({"pytorch_model.bin": other}), key_map=[{"tie": {"b.emb": "head"}}])
    assert done.code == 1
    assert "b.emb and head hold different values" in done.findings("error")


def test_4_an_untie_step_writes_both_names(
    tiny_tied: State, config_tied: dict[str, Any], store: Store, convert: Convert
) -> None:
    source = store({"pytorch_model.bin": tiny_tied}, config=config_tied)
    steps = [{"untie": {"lm_head.weight": "model.embed_tokens.weight"}}]
    assert convert(source, key_map=steps).holds(tiny_tied)
    alone = {name: tensor for name, tensor in tiny_tied.items() if name != "lm_head.weight"}
    source = store({"pytorch_model.bin": alone}, config=config_tied, folder="alone")
    assert convert(source, key_map=steps, output="made").holds(tiny_tied)


def test_10_the_index_is_built_from_what_was_written(
    tiny_tied: State, config_tied: dict[str, Any], store: Store, sharded: Sharded, convert: Convert
) -> None:
    files = sharded({"lm_head.weight": tiny_tied["lm_head.weight"], **tiny_tied}, 3)
    assert "lm_head.weight" in files["pytorch_model.bin.index.json"]["weight_map"]
    source = store(files, config=config_tied)
    done = convert(source, options=["--set", "output.max_shard_size=8KB"])
    assert done.code == 0
    weight_map = done.json("model.safetensors.index.json")["weight_map"]
    assert "lm_head.weight" not in weight_map
    for name, file in weight_map.items():
        assert done.header(file)[name]["dtype"] == "F32"
    assert set(weight_map) == set(done.tensors()) == set(tiny_tied) - {"lm_head.weight"}


def test_10_an_index_that_names_an_absent_tensor_stops(
    tiny: State, store: Store, sharded: Sharded, convert: Convert
) -> None:
    without = {name: tensor for name, tensor in tiny.items() if name != "lm_head.weight"}
    files = sharded(without, 2)
    files["pytorch_model.bin.index.json"]["weight_map"]["lm_head.weight"] = (
        "pytorch_model-00001-of-00002.bin"
    )
    done = convert(store(files))
    assert done.code == 3
    assert "lm_head.weight: the index maps it to" in done.findings("error")


def test_11_overlapping_ranges_are_malformed(store: Store, convert: Convert) -> None:
    entry = {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]}
    header = json.dumps({"a": entry, "b": entry}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(64)
    done = convert(store({"model.safetensors": content}))
    assert done.code == 3
    errors = done.findings("error")
    assert "model.safetensors" in errors
    assert "overlap" in errors


def test_11_ties_are_never_written_as_one_range(
    tiny_tied: State, config_tied: dict[str, Any], store: Store, convert: Convert
) -> None:
    done = convert(store({"pytorch_model.bin": tiny_tied}, config=config_tied))
    found = spans(done)
    assert len(found) == 20
    assert all(before[1] == after[0] for before, after in pairwise(found))
