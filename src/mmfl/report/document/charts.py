"""Charts as SVG, which need no script: for print, and until a script replaces them.

Colours are classes (`line-0`, `area-0`, ...) of the page's style sheet, so that they follow light
and dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

__all__ = ["draw_bars", "draw_lines", "draw_shares", "make_ticks"]

_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 18, 8, 26
_WIDTH, _HEIGHT = 480, 220
_LOOKS = 6
"""How many colours lines have; after these, dashes tell them apart."""


def make_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from `low` to `high`, about as many as wanted.

    >>> make_ticks(0.07, 0.66)
    [0.2, 0.4, 0.6]
    """
    if not high > low:
        return [low]
    raw = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(s * unit for s in (1, 2, 2.5, 5, 10) if s * unit >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return [round((first + k) * step, 10) for k in range(count)]


class _Frame:
    """The place of numbers in a picture."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], width: int = _WIDTH) -> None:
        self._x, self._y = x, y
        self.width = width

    def x(self, value: float) -> float:
        low, high = self._x
        share = (value - low) / (high - low) if high > low else 0.5
        return round(_LEFT + share * (self.width - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        low, high = self._y
        share = (value - low) / (high - low) if high > low else 0.5
        return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM), 1)


def draw_lines(
    rounds: Sequence[int],
    lines: Sequence[Mapping[str, Sequence[float | None]]],
    title: str,
    *,
    wide: bool = False,
) -> str:
    """Lines over rounds, each in a band from its lowest to its highest value.

    Args:
        rounds: Where the points are.
        lines: Each has "mean", and may have "low" and "high".
        title: What a screen reader says.
        wide: Whether it takes a row of the page.
    """
    width = 2 * _WIDTH if wide else _WIDTH
    values = [v for line in lines for part in line.values() for v in part if v is not None]
    if not values:
        return _wrap(title, [_text(_WIDTH / 2, _HEIGHT / 2, "nothing was measured", "middle")])
    low, high = min(values), max(values)
    room = (high - low) * 0.04 or abs(high) * 0.05 or 0.5
    frame = _Frame((rounds[0], rounds[-1]), (low - room, high + room), width)
    parts = list(_draw_axes(frame, rounds, make_ticks(low - room, high + room)))
    for number, line in enumerate(lines):
        if "low" in line and list(line["low"]) != list(line["high"]):
            parts += _draw_band(frame, rounds, line["low"], line["high"], number)
    for number, line in enumerate(lines):
        parts += _draw_line(frame, rounds, line["mean"], number)
    return _wrap(title, parts, width)


def _look(number: int) -> str:
    return f"line-{number % _LOOKS} dash-{number // _LOOKS % 3}"


def _draw_axes(
    frame: _Frame, rounds: Sequence[int], ticks: Sequence[float], shift: float = 0.0
) -> Iterator[str]:
    """Lines at the ticks, their values, and round numbers below; bars stand left of their edge."""
    right, bottom = frame.width - _RIGHT, _HEIGHT - _BOTTOM
    for tick in ticks:
        y = frame.y(tick)
        yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y}" y2="{y}"/>'
        yield _text(_LEFT - 6, y + 4, f"{tick:g}", "end")
    across = [t for t in make_ticks(rounds[0], rounds[-1], 6) if float(t).is_integer()]
    for tick in across or [rounds[0]]:
        yield _text(frame.x(tick - shift), bottom + 16, f"{tick:g}", "middle")


def _runs(values: Sequence[float | None]) -> Iterator[list[int]]:
    """The stretches of points that are known."""
    found: list[int] = []
    for place, value in enumerate(values):
        if value is not None:
            found.append(place)
        elif found:
            yield found
            found = []
    if found:
        yield found


def _draw_line(
    frame: _Frame, rounds: Sequence[int], values: Sequence[float | None], number: int
) -> Iterator[str]:
    for places in _runs(values):
        points = [(frame.x(rounds[p]), frame.y(values[p] or 0.0)) for p in places]
        if len(points) == 1:
            (x, y) = points[0]
            yield f'<circle class="dot {_look(number)}" cx="{x}" cy="{y}" r="3"/>'
        else:
            listed = " ".join(f"{x},{y}" for x, y in points)
            yield f'<polyline class="line {_look(number)}" points="{listed}"/>'


def _draw_band(
    frame: _Frame,
    rounds: Sequence[int],
    low: Sequence[float | None],
    high: Sequence[float | None],
    number: int,
) -> Iterator[str]:
    for places in _runs(low):
        there = [(rounds[p], high[p]) for p in places]
        back = [(rounds[p], low[p]) for p in reversed(places)]
        listed = " ".join(f"{frame.x(t)},{frame.y(v or 0.0)}" for t, v in (*there, *back))
        yield f'<polygon class="band {_look(number)}" points="{listed}"/>'


def draw_shares(
    edges: Sequence[int], counts: Sequence[Sequence[int]], names: Sequence[str], title: str
) -> str:
    """Stacked shares of turns: a bar for each bin of rounds, a part for each task."""
    frame = _Frame((edges[0], edges[-1]), (0.0, 1.0))
    parts = list(_draw_axes(frame, [edges[0] + 1, edges[-1]], [], 0.5))
    parts = [part for part in parts if "grid" not in part]
    for tick in (0, 0.5, 1):
        parts.append(_text(_LEFT - 6, frame.y(tick) + 4, f"{tick:.0%}", "end"))
    for first, last, row in zip(edges, edges[1:], counts, strict=False):
        total, below = sum(row), 0
        for task, count in enumerate(row):
            if not count:
                continue
            top, bottom = frame.y((below + count) / total), frame.y(below / total)
            below += count
            x, wide = frame.x(first), frame.x(last) - frame.x(first)
            gap = 1 if wide > 4 else 0
            said = f"rounds {first + 1} to {last}: {names[task]} {count} of {total} turns"
            yield_ = f'x="{x}" y="{top}" width="{wide - gap:.1f}" height="{bottom - top:.1f}"'
            parts.append(
                f'<rect class="area-{task % 10}" {yield_}><title>{escape(said)}</title></rect>'
            )
    return _wrap(title, parts)


def draw_bars(
    edges: Sequence[int], counts: Sequence[int], title: str, what: str = "failed turns"
) -> str:
    """How often something happened, in each bin of rounds."""
    most = max(counts, default=0)
    frame = _Frame((edges[0], edges[-1]), (0.0, float(most or 1)))
    ticks = [tick for tick in make_ticks(0, most or 1, 4) if float(tick).is_integer()]
    parts = list(_draw_axes(frame, [edges[0] + 1, edges[-1]], ticks, 0.5))
    for first, last, count in zip(edges, edges[1:], counts, strict=False):
        x, wide = frame.x(first), frame.x(last) - frame.x(first)
        top, bottom = frame.y(count), frame.y(0)
        said = f"rounds {first + 1} to {last}: {count} {what}"
        place = f'x="{x}" y="{top}" width="{max(wide - 1, 0.5):.1f}" height="{bottom - top:.1f}"'
        parts.append(f'<rect class="bar" {place}><title>{escape(said)}</title></rect>')
    return _wrap(title, parts)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _wrap(title: str, parts: Sequence[str], width: int = _WIDTH) -> str:
    head = f'<svg viewBox="0 0 {width} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
    return f"{head}{''.join(parts)}</svg>"
