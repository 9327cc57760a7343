"""Which part of a checkpoint is the model, under which names, and what is left out and told."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch

from hfconvert.errors import Exit, UserError
from hfconvert.readers import torch_walk
from hfconvert.readers.state_dict import no_weights, tensors_of, weight_sets
from hfconvert.tensors.unreadable import Unreadable

ONE = torch.ones(1)
MODEL = {"a.weight": ONE, "a.bias": torch.zeros(2)}
OTHER = {"a.weight": torch.zeros(1), "a.bias": torch.ones(2)}


def adam() -> dict[str, Any]:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    return optimizer.state_dict()


def names(found: Any) -> dict[str, list[str]]:
    return {one.name: list(one.tensors) for one in found.found.sets}


FLAT = ["a.weight", "a.bias"]
CHECKPOINTS: dict[str, tuple[Any, dict[str, list[str]], str | None]] = {
    "flat": (MODEL, {"": FLAT}, ""),
    "ordered": (OrderedDict(MODEL), {"": FLAT}, ""),
    **{
        key: ({key: MODEL, "epoch": 3}, {key: FLAT}, key)
        for key in ("state_dict", "model", "module", "model_state_dict", "net", "params", "ema")
    },
    "with an optimizer": ({"model": MODEL, "optimizer": adam()}, {"model": FLAT}, "model"),
    "optimizer under another name": ({"model": MODEL, "x": adam()}, {"model": FLAT}, "model"),
    "two sets": (
        {"state_dict": MODEL, "state_dict_ema": OTHER},
        {"state_dict": FLAT, "state_dict_ema": FLAT},
        None,
    ),
    "lightning": (
        {"pytorch-lightning_version": "2.0", "state_dict": MODEL, "current_model_state": OTHER},
        {"state_dict": FLAT, "current_model_state": FLAT},
        "state_dict",
    ),
    "none of an average": ({"model": MODEL, "ema": None}, {"model": FLAT}, "model"),
    "set in a set": (
        {"model": {"state_dict": MODEL, "step": 1}},
        {"model.state_dict": FLAT},
        "model.state_dict",
    ),
    "a partner of another name": (
        {"model": MODEL, "critic": OTHER},
        {"model": FLAT, "critic": FLAT},
        None,
    ),
    "statistics beside": (
        {"model": MODEL, "normalizer": {"mean": ONE, "std": ONE}},
        {"model": FLAT},
        "model",
    ),
    "containers of no known name": (
        {"encoder": MODEL, "decoder": OTHER},
        {"": [*(f"encoder.{name}" for name in FLAT), *(f"decoder.{name}" for name in FLAT)]},
        "",
    ),
    "nested in a set": (
        {"model": {"l": {"embedding": {"weight": ONE}}}},
        {"model": ["l.embedding.weight"]},
        "model",
    ),
    "a child called model": ({"w": ONE, "model": {"b": ONE}}, {"model": ["b"]}, "model"),
    "lists": ([ONE, {"w": ONE}, (ONE,)], {"": ["0", "1.w", "2.0"]}, ""),
    "number keys": ({0: ONE, 1: {"w": ONE}}, {"": ["0", "1.w"]}, ""),
    "tuple keys": ({("a", 1): ONE}, {"": ["('a', 1)"]}, ""),
    "optimizer alone": (adam(), {}, None),
    "training state": ({"epoch": 1, "optimizer": adam()}, {}, None),
    "random numbers": (
        {"python": (3, (1, 2)), "numpy": ("MT", 1), "cpu": torch.ByteTensor([1, 2])},
        {},
        None,
    ),
    "random numbers beside": ({**MODEL, "rng_state": ONE}, {"": FLAT}, ""),
    "a network called gen": (
        {"gen": MODEL, "dis": OTHER},
        {"": [*(f"gen.{name}" for name in FLAT), *(f"dis.{name}" for name in FLAT)]},
        "",
    ),
    "empty": ({}, {}, None),
}


@pytest.mark.parametrize("case", CHECKPOINTS)
def test_the_sets(kit: Any, case: str) -> None:
    value, expected, default = CHECKPOINTS[case]
    found = kit.open(kit.save(value))
    assert names(found) == expected
    assert found.found.default == default


def test_nothing_is_lost(kit: Any) -> None:
    """Every tensor of a file is in a set or among the others."""
    for value, *_ in CHECKPOINTS.values():
        found = kit.open(kit.save(value))
        count = sum(len(one.tensors) for one in found.found.sets) + len(found.found.others)
        assert count == len(tensors_of(found.file.tree, "f"))


def test_what_belongs_to_the_run_is_told(kit: Any) -> None:
    found = kit.open(kit.save({"model": MODEL, "optimizer": adam(), "cuda_rng_state": ONE}))
    assert "7 tensors belong to the training run" in found.messages


def test_values_come_from_the_set(kit: Any) -> None:
    found = kit.open(kit.save({"state_dict": MODEL, "state_dict_ema": OTHER}))
    assert [kit.values(one.tensors["a.bias"]) for one in found.found.sets] == [
        kit.raw(MODEL["a.bias"]),
        kit.raw(OTHER["a.bias"]),
    ]


@pytest.mark.parametrize("case", ["lists", "number keys", "tuple keys"])
def test_invented_names_are_told(kit: Any, case: str) -> None:
    found = kit.open(kit.save(CHECKPOINTS[case][0]))
    assert [finding.level for finding in found.found.findings] == ["warning"]
    assert "no string" in found.messages


def test_what_is_no_tensor_is_told(kit: Any) -> None:
    found = kit.open(kit.save({**MODEL, "step": 7, "none": None, "sizes": torch.Size([1])}))
    assert "2 values beside the tensors are no tensors: step (int), sizes.0 (int)" in found.messages


def test_arrays_beside_tensors_are_no_small_matter(kit: Any) -> None:
    found = kit.open(kit.save({**MODEL, "table": np.ones((3, 2), np.float32), "step": 7}))
    assert names(found) == {"": ["a.weight", "a.bias"]}
    (left_out,) = (one for one in found.found.findings if one.level == "warning")
    assert left_out.message == "1 numpy arrays beside the tensors are left out: table"
    assert "torch.from_numpy" in left_out.hint
    assert "1 values beside the tensors are no tensors: step (int)" in found.messages


def test_metadata_of_modules_is_no_tensor(kit: Any) -> None:
    assert names(kit.open(kit.save(torch.nn.Linear(2, 2).state_dict()))) == {"": ["weight", "bias"]}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        self.pair = torch.nn.ParameterList([torch.nn.Parameter(ONE.clone())])
        self.register_buffer("fleeting", torch.ones(4), persistent=False)
        self.register_buffer("kept", torch.ones(2))
        self.register_parameter("absent", None)
        self.tied = self.body[0]


class Net2(torch.nn.DataParallel):  # type: ignore[type-arg]  # torch 2.13 made it generic
    pass


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    "wrap",
    [lambda net: net, Net2, lambda net: {"model": net, "epoch": 1}],
    ids=["module", "data parallel", "in a dictionary"],
)
def test_whole_modules(kit: Any, wrap: Any, legacy: bool) -> None:
    """A pickled module of any class gives what its own `state_dict()` gives, in the same order."""
    net = Net()
    value = wrap(net)
    expected = (value["model"] if isinstance(value, dict) else value).state_dict()
    found = kit.open(kit.save(value, legacy=legacy))
    assert {name: kit.values(lazy) for name, lazy in found.tensors.items()} == {
        name: kit.raw(tensor) for name, tensor in expected.items()
    }
    assert list(found.tensors) == list(expected)
    assert found.dangerous == []


class Odd(torch.Tensor):
    pass


class Quantity:
    def __init__(self) -> None:
        self.data = torch.ones(2)


class Settings:
    pass


def test_a_class_that_holds_a_tensor_stands_for_one(kit: Any) -> None:
    found = kit.open(kit.save({**MODEL, "q": Quantity(), "settings": Settings()}))
    assert list(found.tensors) == [*FLAT, "q"]
    lazy = found.tensors["q"]
    assert isinstance(lazy, Unreadable)
    with pytest.raises(UserError, match=r"object of .*\.Quantity"):
        kit.values(lazy)
    assert "settings (" in found.messages


def test_a_subclass_of_tensor_is_its_values(kit: Any) -> None:
    found = kit.open(kit.save({"w": torch.arange(3.0).as_subclass(Odd)}))
    assert kit.values(found.tensors["w"]) == kit.raw(torch.arange(3.0))


def test_two_tensors_of_one_name(kit: Any) -> None:
    with pytest.raises(UserError, match=r"a\.b: two tensors have this name") as caught:
        kit.open(kit.save({"a.b": ONE, "a": {"b": ONE}}))
    assert caught.value.exit is Exit.SOURCE


def test_a_checkpoint_that_holds_itself_is_refused(kit: Any) -> None:
    value: dict[str, Any] = {"w": ONE}
    value["self"] = {"again": value}
    with pytest.raises(UserError, match="64 containers in each other"):
        kit.open(kit.save(value))


def test_a_value_that_multiplies_is_refused(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times ten times ten ... references to one list."""
    monkeypatch.setattr(torch_walk, "MAX_VISITS", 5000)
    value: Any = [0] * 10
    for _ in range(20):
        value = [value] * 10
    with pytest.raises(UserError, match="more than 5000 values"):
        kit.open(kit.save({"w": ONE, "x": value}))


def test_names_are_bounded(kit: Any) -> None:
    with pytest.raises(UserError, match="a name of 5000 characters"):
        kit.open(kit.save({"a" * 5000: ONE}))


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (adam(), r"no weights, only 6 tensors of an optimizer.*\(state, param_groups\)"),
        ({"a": 1}, r"holds no tensors \(a\)"),
        ([], "holds no tensors"),
    ],
    ids=["optimizer", "settings", "nothing"],
)
def test_why_there_are_no_weights(kit: Any, value: Any, match: str) -> None:
    found = kit.open(kit.save(value))
    assert weight_sets(found.file.tree) == ()
    error = no_weights(found.file.tree, "model.pt", found.found.others)
    assert error.exit is Exit.SOURCE
    with pytest.raises(UserError, match=match):
        raise error
