from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hfconvert.keymap.apply import apply
from hfconvert.keymap.suggest import kinds, suggest
from hfconvert.recipe import parse
from hfconvert.tensors.checkpoint import Checkpoint, found
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.zeros import zeros

Any_ = Callable[..., Any]
Shapes = dict[str, tuple[int, ...]]


def _layers(*kinds_: tuple[str, tuple[int, ...]], count: int = 3) -> Shapes:
    return {name.replace("#", str(i)): shape for i in range(count) for name, shape in kinds_}


def _checkpoint(shapes: Shapes) -> Checkpoint:
    return found({name: zeros(TensorSpec(BY_CODE["F32"], shape)) for name, shape in shapes.items()})


def _led_by(lines: list[str], ours: Shapes) -> Shapes:
    """The names and shapes that the suggested steps lead to, as a recipe would take them."""
    text = "\n".join(f"  {line}" for line in lines)
    recipe = parse(f"version: 1\nsource: {{path: x}}\nkey_map:\n{text}\n", "recipe.yaml")
    after = apply(_checkpoint(ours), recipe.key_map or (), recipe.position).checkpoint
    return {name: entry.tensor.spec.shape for name, entry in after.items()}


OURS = _layers(
    ("h.#.attn.q.weight", (8, 4)), ("h.#.attn.k.weight", (4, 4)), ("h.#.ln.weight", (4,))
)


@pytest.mark.parametrize(
    ("ours", "theirs", "lines"),
    [
        (OURS, OURS, 0),
        (OURS, {f"model.{name}": shape for name, shape in OURS.items()}, 1),
        ({f"module.{name}": shape for name, shape in OURS.items()}, OURS, 1),
        (
            OURS,
            _layers(
                ("layers.#.self_attn.q_proj.weight", (8, 4)),
                ("layers.#.self_attn.k_proj.weight", (4, 4)),
                ("layers.#.norm.weight", (4,)),
            ),
            4,
        ),
        ({**OURS, "w": (9, 4), "e.0.w": (2, 3)}, {**OURS, "w": (7, 4), "e.0.w": (3, 2)}, 2),
        (
            {f"h.{i}.e.{n}.w": (2, 3) for i in range(2) for n in range(4)},
            {f"h.{i}.e.w": (4, 2, 3) for i in range(2)},
            1,
        ),
        (
            {f"h.{i}.e.w": (4, 2, 3) for i in range(2)},
            {f"h.{i}.e.{n}.w": (2, 3) for i in range(2) for n in range(4)},
            1,
        ),
    ],
)
def test_suggested_steps_lead_there(ours: Shapes, theirs: Shapes, lines: int) -> None:
    found_lines = suggest(ours, theirs)
    assert len(found_lines) == lines
    if lines:
        assert _led_by(found_lines, ours) == theirs


def test_what_fits_in_several_ways_says_so() -> None:
    ours = _layers(("h.#.query.w", (4, 4)), ("h.#.key.w", (4, 4)))
    theirs = _layers(("l.#.q_query.w", (4, 4)), ("l.#.k_key.w", (4, 4)))
    lines = suggest(ours, theirs)
    assert lines[1:] == [
        '    "h.{i}.query.w": "l.{i}.q_query.w"  # or l.{i}.k_key.w, of the same shape',
        '    "h.{i}.key.w": "l.{i}.k_key.w"  # or l.{i}.q_query.w, of the same shape',
    ]


def test_what_has_no_counterpart_is_a_comment() -> None:
    lines = suggest({"a.x": (2,), "b": (3,)}, {"a.x": (2,), "c": (4, 4)})
    assert lines == [
        '# - drop: ["b"]  # the reference has nothing like it',
        "# nothing here makes `c` of the reference",
    ]


def test_shapes_that_no_single_step_mends() -> None:
    assert suggest({"a": (2, 3)}, {"a": (4, 5)}) == [
        "# `a` is [2, 3] here and [4, 5] in the reference"
    ]


def test_layers_that_are_missing_are_no_rename() -> None:
    ours, theirs = _layers(("h.#.w", (2,)), count=3), _layers(("l.#.w", (2,)), count=4)
    assert suggest(ours, theirs)[0].startswith("# - drop")


def test_only_whole_parts_are_numbers() -> None:
    (kind,) = kinds({"conv1.0.w2.3": (1,), "conv1.4.w2.5": (1,)})
    assert kind.pattern == "conv1.{i}.w2.{n}"
    assert set(kind.shapes) == {("0", "3"), ("4", "5")}
