"""What a checkpoint tells beside its weights."""

from __future__ import annotations

import argparse
import json
import pathlib
from collections import OrderedDict
from typing import Any

import pytest
import torch

from hfconvert.pickles.values import Global, Stub
from hfconvert.readers.state_dict_facts import MAX_ITEMS, facts, plain_json


class Config:
    def __init__(self) -> None:
        self.layers = [1, 2]
        self.inner = {"lr": 0.5}


def test_counters_and_settings(kit: Any) -> None:
    found = kit.open(
        kit.save(
            {
                "epoch": 3,
                "global_step": 10,
                "pytorch-lightning_version": "2.6",
                "hyper_parameters": {"config": Config(), "path": pathlib.PurePosixPath("/data/x")},
                "args": argparse.Namespace(lr=0.1, dtype=torch.bfloat16),
                "state_dict": {"w": torch.ones(2)},
                "optimizer_states": [{"state": {}}],
            }
        )
    )
    assert facts(found.file.tree) == {
        "epoch": 3,
        "global_step": 10,
        "pytorch-lightning_version": "2.6",
        "hyper_parameters": {"config": {"layers": [1, 2], "inner": {"lr": 0.5}}, "path": "/data/x"},
        "args": {"lr": 0.1, "dtype": "torch.bfloat16"},
        "framework": "lightning",
    }


def test_an_object_at_the_top_tells_its_attributes(kit: Any) -> None:
    """As `training_args.bin` is one."""
    config = Config()
    config.seed = 42  # type: ignore[attr-defined]  # what is small is told
    assert facts(kit.open(kit.save(config)).file.tree) == {"seed": 42}


@pytest.mark.parametrize("value", [torch.ones(2), [1, 2], torch.nn.Linear(1, 1), "text"], ids=type)
def test_others_tell_nothing(kit: Any, value: Any) -> None:
    assert facts(kit.open(kit.save(value)).file.tree) == {}


def test_omegaconf_is_flattened() -> None:
    """The objects of omegaconf keep their content in `_content` and their values in `_val`."""

    def node(value: Any) -> Stub:
        return Stub(Global("omegaconf.nodes", "AnyNode"), state={"_metadata": None, "_val": value})

    inner = Stub(
        Global("omegaconf.listconfig", "ListConfig"), state={"_content": [node(1), node(2)]}
    )
    outer = Stub(
        Global("omegaconf", "DictConfig"), state={"_content": {"a": inner, "b": node("x")}}
    )
    assert plain_json(outer) == {"a": [1, 2], "b": "x"}


HOSTILE: dict[str, Any] = {
    "not a number": float("nan"),
    "infinite": float("inf"),
    "long text": "x" * 10_000,
    "surrogates": "\ud800",
    "bytes": b"\xff" * 1000,
    "wide": list(range(10_000)),
    "keys": {("a", 1): 1, None: 2, b"x": 3, 1.5: 4},
    "ordered": OrderedDict(a=1),
    "tensor": torch.ones(2, 3),
    "size": torch.Size([1]),
    "complex": 1 + 2j,
    "set": {1, 2},
    "big": 1 << 4000,
}


@pytest.mark.parametrize("case", HOSTILE)
def test_anything_becomes_json_of_bounded_size(kit: Any, case: str) -> None:
    tree = kit.open(kit.save({"config": HOSTILE[case], "w": torch.ones(1)})).file.tree
    text = json.dumps(facts(tree), allow_nan=False)
    text.encode()
    assert len(text) < 10_000


def test_depth_and_number_are_bounded() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    assert len(json.dumps(plain_json(deep))) < 100
    wide = [[[0] * 50] * 50] * 50
    assert len(json.dumps(plain_json(wide))) < 60_000
    cycle: dict[str, Any] = {}
    cycle["a"] = cycle
    assert len(json.dumps(plain_json(cycle))) < 200


def test_no_more_facts_than_a_bound() -> None:
    assert len(facts({f"k{index}": index for index in range(10_000)})) == MAX_ITEMS
