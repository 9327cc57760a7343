"""Walks over what pickles turn into."""

from __future__ import annotations

from typing import Any

import pytest

from hfconvert.errors import UserError
from hfconvert.pickles.values import Global, Group, Span, Stub, Table, TensorRef
from hfconvert.readers.torch_walk import Walk, entries, is_module, leaves, printed
from hfconvert.tensors.dtype import BY_TORCH

TENSOR = TensorRef("dense", BY_TORCH["float32"], (1,), (1,))
OTHER = TensorRef("dense", BY_TORCH["float32"], (2,), (1,))


def module(parameters: Any, modules: Any = (), buffers: Any = (), **state: Any) -> Stub:
    return Stub(
        Global("m", "Net"),
        state={
            "_parameters": parameters,
            "_buffers": dict(buffers),
            "_modules": dict(modules),
            **state,
        },
    )


def walked(tree: Any) -> dict[str, Any]:
    return {printed(path): value for path, value in leaves(tree, Walk())}


def test_containers_are_walked_in_order() -> None:
    tree = {
        "b": [TENSOR, (1, None)],
        "a": Table("OrderedDict", {"x": TENSOR}),
        "s": Group("set", ["v"]),
    }
    assert walked(tree) == {"b.0": TENSOR, "b.1.0": 1, "b.1.1": None, "a.x": TENSOR, "s.0": "v"}


def test_a_dictionary_of_an_unknown_class() -> None:
    assert walked(Stub(Global("m", "Dict"), items=[("w", TENSOR)])) == {"w": TENSOR}


def test_a_list_of_an_unknown_class() -> None:
    assert walked(Stub(Global("m", "List"), appended=[TENSOR, 2])) == {"0": TENSOR, "1": 2}


def test_an_object_of_an_unknown_class_is_a_leaf() -> None:
    stub = Stub(Global("m", "X"), state={"w": TENSOR})
    assert walked({"a": stub}) == {"a": stub}


def test_a_module_gives_its_state_dict() -> None:
    child = module({"weight": TENSOR, "bias": None})
    hidden = Group("set", ["fleeting"])
    tree = module(
        {"scale": OTHER},
        {"layer": child, "none": None},
        {"fleeting": TENSOR, "kept": OTHER},
        _non_persistent_buffers_set=hidden,
        training=True,
    )
    assert is_module(tree)
    assert walked(tree) == {"scale": OTHER, "kept": OTHER, "layer.weight": TENSOR}


@pytest.mark.parametrize(
    "state", [{}, {"_parameters": {}}, None, {"_parameters": None, "_modules": None}]
)
def test_what_is_no_module(state: Any) -> None:
    stub = Stub(Global("m", "X"), state=state)
    assert not list(entries(stub) or ())


def test_a_script_object_gives_its_attributes() -> None:
    tree = Stub(Global("__torch__.m", "Net"), state={"w": TENSOR, "training": False})
    assert walked(tree) == {"w": TENSOR, "training": False}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ((), ""),
        (("a", 0, "b"), "a.0.b"),
        (((1, "x"), None, 1.5, True), "(1, 'x').None.1.5.True"),
        ((b"k", Global("torch", "float32")), "b'k'.torch.float32"),
        ((Stub(Global("m", "Key")), ""), "<m.Key>."),
    ],
)
def test_names_as_python_prints_them(path: Any, name: str) -> None:
    assert printed(path) == name


def test_one_walk_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    from hfconvert.readers import torch_walk

    monkeypatch.setattr(torch_walk, "MAX_VISITS", 10)
    walk = Walk()
    list(leaves([1, 2, 3], walk))
    with pytest.raises(UserError, match="more than 10 values"):
        list(leaves([1] * 8, walk))


def test_a_span_is_a_leaf(kit: Any) -> None:
    span = Span(kit.source(b"abc"), 0, 3)
    assert walked([span]) == {"0": span}
