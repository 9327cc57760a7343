from __future__ import annotations

from hfconvert.report.maps import map_lines
from hfconvert.tensors.checkpoint import Entry
from hfconvert.tensors.dtype import BY_CODE
from hfconvert.tensors.lazy import TensorSpec
from hfconvert.tensors.zeros import zeros

TENSOR = zeros(TensorSpec(BY_CODE["F32"], (1,)))


def _entry(sources: str, steps: str = "") -> Entry:
    return Entry(TENSOR, tuple(sources.split()), tuple(steps.split(", ")) if steps else ())


def test_layers_are_folded_and_sources_stand_before_targets() -> None:
    entries = [
        (f"l.{i}.qkv", _entry(f"h.{i}.q h.{i}.k h.{i}.v", "rename, qkv interleaved"))
        for i in range(32)
    ]
    assert list(map_lines(entries)) == [
        "map      32 tensors by rename, qkv interleaved",
        "           h.{0..31}.q, h.{0..31}.k, h.{0..31}.v -> l.{0..31}.qkv",
    ]


def test_one_block_for_the_same_steps_one_line_for_like_names() -> None:
    entries = [
        ("a.0.w", _entry("x.0.w", "rename")),
        ("b.w", _entry("y.w", "transpose")),
        ("c", _entry("c")),
        ("a.1.w", _entry("x.1.w", "rename, dtype bfloat16")),
        ("d.0.w", _entry("z.0.w", "rename")),
        ("e", _entry("e", "dtype bfloat16")),
    ]
    assert list(map_lines(entries)) == [
        "map      3 tensors by rename",
        "           x.{0..1}.w -> a.{0..1}.w",
        "           z.0.w -> d.0.w",
        "map      1 tensor by transpose",
        "           y.w -> b.w",
        "keep     2 tensors under the source's name",
    ]


def test_names_that_stay_are_said_once() -> None:
    entries = [(f"l.{i}.w", _entry(f"l.{i}.w", "lora adapter")) for i in range(3)]
    assert list(map_lines(entries))[1] == "           l.{0..2}.w"


def test_experts_stand_on_one_line() -> None:
    sources = " ".join(f"l.{{i}}.e.{n}.{part}" for part in ("gate", "up") for n in range(8))
    entries = [
        (f"l.{i}.e.gate_up", _entry(sources.replace("{i}", str(i)), "concat dim 0, stack dim 0"))
        for i in (3, 4, 9)
    ]
    assert list(map_lines(entries))[1] == (
        "           l.{3..4,9}.e.{0..7}.gate, l.{3..4,9}.e.{0..7}.up -> l.{3..4,9}.e.gate_up"
    )


def test_no_map_says_nothing() -> None:
    assert list(map_lines([("a", _entry("a")), ("b", _entry("b", "dtype float16"))])) == []


def test_names_that_do_not_fold_are_counted() -> None:
    entries = [(f"x{i}.a{i * i}", _entry(f"y{i}.b{i * i}", "rename")) for i in range(9)]
    line = list(map_lines(entries))[1]
    assert line.count("and 5 more") == 2
