"""Plots as inline SVG, drawn for a phone and scaled up: bars, and a curve on a logarithmic scale.

Colours are classes of the page's own style, so that they follow its light and dark. All text is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

WIDTH = 360  # units; one is a pixel on a phone
_LABEL = 92  # of a row of bars
_LETTERS = 14  # that fit before them
_FIGURE = 86  # right of them
_ROW = 26
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 10, 14, 34


class Bar(NamedTuple):
    """A part of a row: its length, its class of colour (0 to 5), and what is said of it."""

    value: float
    colour: int
    said: str


class Row(NamedTuple):
    """A row of bars end to end, its label on the left and a figure on the right."""

    label: str
    bars: Sequence[Bar]
    figure: str


def bars(rows: Sequence[Row], title: str) -> Markup:
    """Rows of bars, all on one scale from zero."""
    longest = max((sum(bar.value for bar in row.bars) for row in rows), default=0) or 1
    room = WIDTH - _LABEL - _FIGURE
    parts = []
    for number, row in enumerate(rows):
        top = number * _ROW + 4
        parts.append(_text(_LABEL - 8, top + 13, _short(row.label), "end"))
        left = float(_LABEL)
        for bar in row.bars:
            width = room * bar.value / longest
            parts.append(
                Markup(
                    '<rect class="c{}" x="{:.1f}" y="{}" width="{:.1f}" height="18" rx="2">'
                    "<title>{}</title></rect>"
                ).format(bar.colour, left, top, max(width, 1.0), bar.said)
            )
            left += width
        parts.append(_text(left + 6, top + 13, row.figure, "start"))
    return _svg(parts, len(rows) * _ROW + 6, title)


def curve(values: Sequence[float], title: str, *, limit: float | None, across: str) -> Markup:
    """Values above zero by their number, on a logarithmic scale; `limit` is a dashed line.

    Values of zero lie on the lowest line. `across` names what is counted along the horizontal axis.
    """
    low, high = _decades([*values, *([limit] if limit else [])])
    height = 170
    plot = _Plot(len(values), low, high, height)
    parts = [*_grid(plot)]
    if limit:
        level = plot.level(limit)
        parts.append(
            Markup('<line class="limit" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
                _LEFT, WIDTH - _RIGHT, level, level
            )
        )
        parts.append(_text(WIDTH - _RIGHT, level - 4, "limit", "end"))
    points = " ".join(
        f"{plot.place(number):.1f},{plot.level(value):.1f}" for number, value in enumerate(values)
    )
    parts.append(Markup('<polyline class="curve" points="{}"/>').format(points))
    parts += [_dot(plot, number, value) for number, value in enumerate(values) if len(values) <= 40]
    parts.append(_text((_LEFT + WIDTH - _RIGHT) / 2, height - 4, across, "middle"))
    parts += [
        _text(plot.place(number), height - 18, str(number), "middle")
        for number in sorted({0, len(values) - 1})
    ]
    return _svg(parts, height, title)


def _short(label: str) -> str:
    """A label that fits its room: names of modules differ at their ends."""
    return label if len(label) <= _LETTERS else f"…{label[1 - _LETTERS :]}"


class _Plot(NamedTuple):
    """The area of a curve: how many values, the decades that it spans, its height."""

    points: int
    low: int
    high: int
    height: int

    def place(self, number: int) -> float:
        """Across."""
        room = WIDTH - _LEFT - _RIGHT - 8
        return _LEFT + 4 + (room * number / (self.points - 1) if self.points > 1 else room / 2)

    def level(self, value: float) -> float:
        """Down."""
        room = self.height - _TOP - _BOTTOM
        exponent = math.log10(value) if value > 0 else self.low
        share = (min(max(exponent, self.low), self.high) - self.low) / (self.high - self.low)
        return _TOP + room * (1 - share)


def _decades(values: Iterable[float]) -> tuple[int, int]:
    exponents = [math.log10(value) for value in values if value > 0]
    low = max(-12, math.floor(min(exponents, default=-9)))
    return low, max(low + 1, math.ceil(max(exponents, default=low + 1)))


def _grid(plot: _Plot) -> Iterator[Markup]:
    step = max(1, (plot.high - plot.low) // 4)
    for exponent in range(plot.low, plot.high + 1, step):
        level = plot.level(10.0**exponent)
        yield Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
            _LEFT, WIDTH - _RIGHT, level, level
        )
        yield _text(_LEFT - 6, level + 4, f"1e{exponent}" if exponent else "1", "end")


def _dot(plot: _Plot, number: int, value: float) -> Markup:
    said = f"{number}: {value:.3g}"
    return Markup(
        '<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="2.5"><title>{}</title></circle>'
    ).format(plot.place(number), plot.level(value), said)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, text
    )


def _svg(parts: Iterable[Markup], height: float, title: str) -> Markup:
    inner = Markup("").join(parts)
    return Markup(
        '<svg viewBox="0 0 {} {:.0f}" role="img" aria-label="{}"><title>{}</title>{}</svg>'
    ).format(WIDTH, height, title, title, inner)
