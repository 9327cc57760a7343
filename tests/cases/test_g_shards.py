"""Section G: index, shards, sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

State = dict[str, torch.Tensor]
Convert = Callable[..., Any]
Store = Callable[..., Path]
Sharded = Callable[..., dict[str, Any]]

INDEX = "model.safetensors.index.json"


def nbytes(state: State) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in state.values())


def test_53_the_index_decides_over_a_stray_single_file(
    tiny: State, config: dict[str, Any], store: Store, sharded: Sharded, convert: Convert
) -> None:
    files = sharded(tiny, 3, "model", "safetensors")
    files["model.safetensors"] = {name: torch.zeros_like(tensor) for name, tensor in tiny.items()}
    done = convert(store(files, config=config))
    assert done.code == 0
    assert done.holds(tiny)
    assert "model.safetensors: left aside" in done.findings("warning")
    assert done.weights() == {"model.safetensors"}


def wrong_mapping(index: dict[str, Any]) -> None:
    index["weight_map"]["model.norm.weight"] = "model-00001-of-00003.safetensors"


def ghost_key(index: dict[str, Any]) -> None:
    index["weight_map"]["model.ghost.weight"] = "model-00001-of-00003.safetensors"


def dropped_key(index: dict[str, Any]) -> None:
    del index["weight_map"]["model.norm.weight"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (wrong_mapping, "model.norm.weight: the index maps it to model-00001-of-00003"),
        (ghost_key, "model.ghost.weight: the index maps it to model-00001-of-00003"),
        (
            dropped_key,
            "model.norm.weight: model-00003-of-00003.safetensors holds it, but the index",
        ),
    ],
)
def test_55_index_and_headers_are_held_against_each_other(
    tiny: State,
    store: Store,
    sharded: Sharded,
    convert: Convert,
    change: Callable[[dict[str, Any]], None],
    says: str,
) -> None:
    files = sharded(tiny, 3, "model", "safetensors")
    change(files[INDEX])
    done = convert(store(files))
    assert done.code == 3
    assert says in done.findings("error")


def twice(tiny: State, sharded: Sharded, other: torch.Tensor) -> dict[str, Any]:
    """`mtp.fc.weight` in shards 1 and 3; the index names shard 3."""
    files = sharded({**tiny, "mtp.fc.weight": torch.ones(4, 4)}, 3, "model", "safetensors")
    files["model-00001-of-00003.safetensors"]["mtp.fc.weight"] = other
    return files


def test_56_equal_duplicates_are_kept_once_and_said(
    tiny: State, store: Store, sharded: Sharded, convert: Convert
) -> None:
    done = convert(store(twice(tiny, sharded, torch.ones(4, 4))))
    assert done.code == 0
    assert done.holds({**tiny, "mtp.fc.weight": torch.ones(4, 4)})
    warnings = done.findings("warning")
    assert "mtp.fc.weight: stored in model-00001-of-00003.safetensors and model-00003" in warnings
    assert "the one of model-00003-of-00003.safetensors is kept" in warnings


def test_56_duplicates_that_differ_stop_unless_the_recipe_declares_an_overlay(
    tiny: State, store: Store, sharded: Sharded, convert: Convert
) -> None:
    source = store(twice(tiny, sharded, torch.zeros(4, 4)))
    done = convert(source)
    assert done.code == 3
    errors = done.findings("error")
    assert "mtp.fc.weight" in errors
    assert "model-00001-of-00003.safetensors" in errors
    assert "model-00003-of-00003.safetensors" in errors
    overlay = convert(source, output="overlay", reading={"on_duplicate": "keep-indexed"})
    assert overlay.code == 0
    assert overlay.holds({**tiny, "mtp.fc.weight": torch.ones(4, 4)})


def test_58_the_index_follows_the_new_names(
    tiny: State, config: dict[str, Any], store: Store, sharded: Sharded, convert: Convert
) -> None:
    source = store(sharded(tiny, 2), config=config)
    done = convert(source, options=["--set", "output.max_shard_size=12KB"])
    assert done.code == 0
    index = done.json(INDEX)
    assert index["metadata"]["total_size"] == nbytes(tiny)
    assert done.weights() == {INDEX, *index["weight_map"].values()}
    for file in set(index["weight_map"].values()):
        mapped = {name for name, place in index["weight_map"].items() if place == file}
        assert done.header(file).keys() - {"__metadata__"} == mapped
    assert done.holds(tiny)
    assert convert(source, output="one").weights() == {"model.safetensors"}


def test_59_the_total_size_is_that_of_what_is_stored(
    tiny_tied: State, config_tied: dict[str, Any], store: Store, sharded: Sharded, convert: Convert
) -> None:
    source = store(sharded(tiny_tied, 2), config=config_tied)
    done = convert(
        source,
        key_map=[{"drop": ["*.mlp.*"]}],
        options=["--set", "output.max_shard_size=4KB"],
    )
    assert done.code == 0
    left = {name: tensor for name, tensor in tiny_tied.items() if ".mlp." not in name}
    del left["lm_head.weight"]
    assert done.json(INDEX)["metadata"]["total_size"] == nbytes(left)
    assert done.holds(left)


def test_61_packed_weights_keep_their_bytes_and_shapes(store: Store, convert: Convert) -> None:
    state = {
        "q_proj.qweight": torch.arange(16, dtype=torch.int64).reshape(8, 2).to(torch.uint32),
        "q_proj.scales": torch.ones(8, 1, dtype=torch.float16),
    }
    done = convert(store({"model.safetensors": state}))
    assert done.code == 0
    assert done.holds(state)
    header = done.header()
    assert header["q_proj.qweight"]["dtype"] == "U32"
    assert header["q_proj.qweight"]["shape"] == [8, 2]


def test_62_one_tensor_may_exceed_the_limit_and_is_named(store: Store, convert: Convert) -> None:
    state = {"a": torch.ones(10), "big.weight": torch.ones(1000, 1000), "z": torch.ones(10)}
    source = store({"pytorch_model.bin": state})
    done = convert(source, options=["--set", "output.max_shard_size=1KB"])
    assert done.code == 0
    assert done.holds(state)
    assert "big.weight: is 4000000 bytes" in done.findings("warning")
    weight_map = done.json(INDEX)["weight_map"]
    assert [name for name, file in weight_map.items() if file == weight_map["big.weight"]] == [
        "big.weight"
    ]


def test_64_meta_tensors_hold_no_data(store: Store, convert: Convert) -> None:
    state = {f"w{i}": torch.empty(1000, device="meta") for i in range(2)}
    done = convert(store({"pytorch_model.bin": {**state, "x": torch.ones(2)}}))
    assert done.code == 3
    errors = done.findings("error")
    assert "w0" in errors
    assert "w1" in errors
    assert "meta" in errors


def test_64_sizes_come_from_shapes_and_not_from_storages(store: Store, convert: Convert) -> None:
    state = {f"w{i}": torch.full((1,), float(i)).expand(1000) for i in range(2)}
    source = store({"pytorch_model.bin": state})
    done = convert(source, options=["--set", "output.max_shard_size=5KB"])
    assert done.code == 0
    assert len(set(done.json(INDEX)["weight_map"].values())) == 2
    assert done.holds(state)


def test_65_the_limit_is_our_own_and_the_recipe_s(
    tiny: State, store: Store, convert: Convert
) -> None:
    from hfconvert.recipe import parse

    assert parse("version: 1\nsource: {path: .}\n", "r.yaml").output.max_shard_size == 5 * 10**9
    source = store({"pytorch_model.bin": tiny})
    done = convert(source, options=["--set", "output.max_shard_size=4KB"])
    assert done.code == 0
    sizes = {
        name: sum(
            entry["data_offsets"][1] - entry["data_offsets"][0]
            for key, entry in done.header(name).items()
            if key != "__metadata__"
        )
        for name in set(done.json(INDEX)["weight_map"].values())
    }
    assert len(sizes) > 3
    assert max(sizes.values()) <= 4000
    assert min(sizes.values()) > 0


def test_67_only_the_layout_that_the_index_names_is_read(
    tiny: State, store: Store, sharded: Sharded, convert: Convert
) -> None:
    files = sharded(tiny, 2, "model", "safetensors")
    renamed = {name.replace("self_attn", "attention"): tensor for name, tensor in tiny.items()}
    other = sharded(renamed, 2, "consolidated", "safetensors")
    del other["consolidated.safetensors.index.json"]
    source = store({**files, **other})
    done = convert(source)
    assert done.code == 0
    assert done.holds(tiny)
    assert "consolidated" in done.findings("info")
    chosen = convert(source, output="other", reading={"files": ["consolidated-*.safetensors"]})
    assert chosen.code == 0
    assert chosen.holds(renamed)


def test_68_the_plan_is_frozen(
    tiny: State, store: Store, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens to the mapping after the plan, what was planned is written."""
    from hfconvert.making.execute import execute
    from hfconvert.planning.decide import decide

    checkpoints: list[Any] = []

    def remembering(applied: Any, *rest: Any) -> Any:
        decided = decide(applied, *rest)
        checkpoints.extend((applied.checkpoint, decided.checkpoint))
        return decided

    def mutating(*arguments: Any) -> Any:
        for checkpoint in checkpoints:
            names = list(checkpoint.entries)
            checkpoint.entries[names[0]] = checkpoint.entries[names[1]]
            for name in names[2:]:
                del checkpoint.entries[name]
        return execute(*arguments)

    monkeypatch.setattr("hfconvert.planning.plan.decide", remembering)
    monkeypatch.setattr("hfconvert.making.make.execute", mutating)
    source = store({"pytorch_model.bin": tiny})
    done = convert(source, options=["--set", "output.max_shard_size=4KB"])
    assert checkpoints
    assert done.code == 0
    assert done.holds(tiny)
    assert set(done.json(INDEX)["weight_map"]) == set(tiny)


def test_70_shared_tensors_do_not_grow(store: Store, convert: Convert) -> None:
    decoder = torch.randn(32, 16)
    state = {"decoder.weight": decoder} | {f"heads.{i}.weight": decoder for i in range(3)}
    source = store({"pytorch_model.bin": state})
    done = convert(source)
    assert done.code == 0
    ((kept, written),) = done.tensors().items()
    assert kept in state
    assert torch.equal(written, decoder)
    assert done.check("tensors")["status"] == "pass"
    plan = convert(source, command="plan", output="planned").document
    assert sorted([kept, *(tie["dropped"] for tie in plan["ties"])]) == sorted(state)


def test_70_clones_are_kept_and_growth_is_explained(store: Store, convert: Convert) -> None:
    decoder = torch.randn(32, 16)
    clones = {f"heads.{i}.weight": decoder.clone() for i in range(3)}
    done = convert(store({"pytorch_model.bin": {"decoder.weight": decoder, **clones}}))
    assert done.holds({"decoder.weight": decoder, **clones})
    views = {"all": decoder, "most": decoder[:24], "rest": decoder[8:]}
    grown = convert(store({"pytorch_model.bin": views}, folder="views"), output="grown")
    assert grown.holds(views)
    assert "lie over common bytes" in grown.findings("info")
