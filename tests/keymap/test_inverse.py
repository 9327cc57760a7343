from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfconvert.errors import UserError
from hfconvert.keymap.apply import apply
from hfconvert.keymap.inverse import inverse

Any_ = Callable[..., Any]
WHERE: Any = lambda *path: ".".join(map(str, path))  # noqa: E731 - positions that a test can read


def _model(draw: st.DrawFn) -> dict[str, Any]:
    """A decoder of a few layers: attention of any geometry, gated MLPs or experts, one value an element."""
    kv_heads, share, pairs = (draw(st.integers(1, 2)) for _ in range(3))
    rows = kv_heads * share * pairs * 2, kv_heads * pairs * 2
    width = draw(st.sampled_from([2, 4]))
    shapes: dict[str, tuple[int, ...]] = {"embed.weight": (3, width)}
    for layer in range(draw(st.integers(1, 2))):
        base = f"layers.{layer}"
        shapes |= {f"{base}.q.weight": (rows[0], width), f"{base}.k.weight": (rows[1], width)}
        shapes |= {f"{base}.v.weight": (rows[1], width), f"{base}.norm.weight": (width,)}
        for expert in range(2):
            name = f"{base}.experts.{expert}"
            shapes |= {f"{name}.gate.weight": (4, width), f"{name}.up.weight": (4, width)}
    arrays, first = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        arrays[name] = np.arange(first, first + size, dtype="<u4").reshape(shape)
        first += size
    return {"arrays": arrays, "heads": kv_heads * share, "kv_heads": kv_heads}


def _steps(draw: st.DrawFn, model: dict[str, Any]) -> list[tuple[str, Any]]:
    """Invertible steps that follow each other, some of them left out."""
    heads = {"heads": model["heads"], "kv_heads": model["kv_heads"]}
    attention = tuple(f"layers.{{i}}.{name}.*" for name in "qkv")
    stages: list[list[tuple[str, Any]]] = [
        [
            ("permute_rope", {"names": ("*.q.weight",), "heads": model["heads"], "to": "half"}),
            ("permute_rope", {"names": ("*.k.weight",), "heads": model["kv_heads"], "to": "half"}),
        ],
        [
            (
                "qkv",
                {
                    "from": attention,
                    "into": "layers.{i}.qkv.*",
                    "layout": draw(st.sampled_from(["interleaved", "blocked"])),
                    **heads,
                },
            )
        ],
        [
            (
                "concat",
                {
                    "from": tuple(f"{{a}}.{{i}}.experts.{{n}}.{x}.weight" for x in ("gate", "up")),
                    "into": "{a}.{i}.experts.{n}.fc1",
                    "dim": draw(st.integers(0, 1)),
                },
            ),
            (
                "stack",
                {
                    "from": "layers.{i}.experts.{n}.fc1",
                    "into": "layers.{i}.experts.fc1",
                    "dim": draw(st.integers(0, 2)),
                },
            ),
        ],
        [("split", {"from": "embed.*", "into": ("one.*", "two.*"), "dim": 1})],
        [("transpose", ("*.q.weight", "*qkv*", "*fc1"))],
        [("rename", {"layers.{i}.norm.*": "h.{i}.ln.*", "layers.{i}.*": "h.{i}.attn.*"})],
        [("add_prefix", "module.")],
        [("add_prefix", "module.")],
        [("untie", {"copy": "module.module.one.weight"})],
    ]
    return [step for stage in stages if draw(st.booleans()) for step in stage]


@given(st.data())
@settings(max_examples=settings().max_examples * 2)
def test_the_inverse_after_the_map_is_the_identity(
    holding: Any_, values: Any_, step: Any_, data: st.DataObject
) -> None:
    model = st.composite(_model)
    drawn = data.draw(model())
    before = holding(drawn["arrays"])
    steps = data.draw(st.composite(_steps)(drawn))
    key_map, after = [], before
    for name, value in steps:
        with contextlib.suppress(UserError):  # it needs an earlier step, which was left out
            after = apply(after, [step(name, value)], WHERE).checkpoint
            key_map.append(step(name, value))
    back = inverse(key_map, before, WHERE)
    again = apply(after, back, WHERE).checkpoint
    found = values(again, data.draw(st.integers(1, 64)))
    assert set(found) == set(drawn["arrays"])
    assert all(np.array_equal(found[name], array) for name, array in drawn["arrays"].items())


def _dumped(steps: Any) -> list[dict[str, Any]]:
    return [step.model_dump(by_alias=True) for step in steps]


def test_steps_are_undone_in_reverse(holding: Any_, step: Any_) -> None:
    before = holding({"model.h.0.w": np.zeros((4, 2), "<u2")})
    key_map = [
        step("strip_prefix", ("model.",)),
        step("rename", {"h.{i}.*": "layers.{i}.*"}),
        step("split", {"from": "layers.{i}.w", "into": ("{i}.a", "{i}.b"), "dim": 1}),
        step("add_prefix", "x."),
    ]
    assert _dumped(inverse(key_map, before, WHERE)) == [
        {"rename": {"x.*": "*"}},
        {"concat": {"from": ("{i}.a", "{i}.b"), "into": "layers.{i}.w", "dim": 1}},
        {"rename": {"layers.{i}.*": "h.{i}.*"}},
        {"add_prefix": "model."},
    ]


def test_all_the_steps_without_an_inverse_are_named(holding: Any_, step: Any_) -> None:
    before = holding({"w": np.zeros((4, 2), "<u2")})
    key_map = [
        step("drop", ("a",)),
        step("resize", {"w": 2}),
        step("strip_prefix", ("module.",)),
        step("strip_prefix", ("a.", "b.")),
        step("rename", {"a.{i}": "b", "c": "d"}),
        step("rename", {"a": "b", "c": "b"}),
        step("join", {"w": 0}),
        step("add_prefix", "a{"),
        step("transpose", ("w",)),
    ]
    with pytest.raises(UserError) as caught:
        inverse(key_map, before, WHERE)
    subjects = [problem.subject for problem in caught.value.problems]
    assert subjects == [f"key_map.{number}" for number in range(8)]


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        (("a.x", "b.y"), {"a.*": "b.*"}),  # `b.y` looks like a result
        (("a.x", "c"), {"a.*": "b.*", "c": "b.c"}),  # the first inverse pattern takes both
    ],
)
def test_names_that_look_like_results_are_found_out(
    checkpoint: Any_, step: Any_, names: tuple[str, ...], pairs: dict[str, str]
) -> None:
    with pytest.raises(UserError, match="no inverse on these names"):
        inverse([step("rename", pairs)], checkpoint(names), WHERE)


def test_parts_of_different_sizes_are_found_out(holding: Any_, step: Any_) -> None:
    before = holding({"a": np.zeros((1, 2), "<u2"), "b": np.zeros((3, 2), "<u2")})
    with pytest.raises(UserError, match="would not come back as before"):
        inverse([step("concat", {"from": ("a", "b"), "into": "c", "dim": 0})], before, WHERE)
