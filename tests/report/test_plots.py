"""Plots: what is drawn lies within them and is in proportion."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from hfconvert.report.plots import WIDTH, Bar, Row, bars, curve

floats = st.lists(st.floats(0, 10, allow_subnormal=False), min_size=1, max_size=60)


def points(svg: str) -> list[tuple[float, float]]:
    (found,) = re.findall(r'points="([^"]*)"', svg)
    return [(float(x), float(y)) for x, y in (one.split(",") for one in found.split())]


@given(floats)
def test_every_point_lies_within_the_plot(values: list[float]) -> None:
    svg = str(curve(values, "t", limit=0.001, across="position"))
    (height,) = re.findall(r'viewBox="0 0 \d+ (\d+)"', svg)
    found = points(svg)
    assert len(found) == len(values)
    assert all(0 <= x <= WIDTH and 0 <= y <= int(height) for x, y in found)
    assert [x for x, _ in found] == sorted(x for x, _ in found)


@given(st.lists(st.floats(1e-6, 1, allow_subnormal=False), min_size=2, max_size=20, unique=True))
def test_a_larger_value_lies_higher(values: list[float]) -> None:
    found = points(str(curve(values, "t", limit=None, across="layer")))
    smallest, largest = values.index(min(values)), values.index(max(values))
    assert found[largest][1] <= found[smallest][1]


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=6))
def test_bars_are_in_proportion(values: list[float]) -> None:
    rows = [Row(str(number), [Bar(value, 0, "")], "") for number, value in enumerate(values)]
    svg = str(bars(rows, "t"))
    widths = [float(one) for one in re.findall(r'<rect[^>]* width="([0-9.]+)"', svg)]
    longest = max(values)
    for value, width in zip(values, widths, strict=True):
        assert abs(width - max(1.0, max(widths) * value / longest)) < 0.3


def test_text_is_escaped() -> None:
    svg = str(bars([Row("<b>", [Bar(1, 0, "<i>")], "<u>")], "<s>"))
    assert not re.search(r"<[bius]>", svg)
    assert svg.count("&lt;") == 5


def test_a_long_label_keeps_its_end_and_stays_in_its_room() -> None:
    name = "transformer.encoder.experts.gate_up_proj"
    svg = str(bars([Row(name, [Bar(1.0, 0, "x")], "1")], "t"))
    assert ">….gate_up_proj<" in svg
    assert name not in svg
