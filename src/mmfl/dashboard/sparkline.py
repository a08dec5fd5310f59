"""A small curve as SVG, for a line of a list."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["draw_sparkline"]

_WIDTH, _HEIGHT, _EDGE = 96, 24, 3
_POINTS = 48


def draw_sparkline(values: Sequence[float | None]) -> str:
    """A curve from its lowest to its highest value; "" if nothing is known.

    >>> draw_sparkline([None, 0.1, 0.3])[-52:]
    '"93,3"/><circle class="end" cx="93" cy="3" r="2"/></svg>'
    """
    count = len(values)
    step = max(-(-count // _POINTS), 1)
    picked = sorted({*range(0, count, step), count - 1}) if count else []
    points = [(place, value) for place in picked if (value := values[place]) is not None]
    if not points:
        return ""
    low, high = min(v for _, v in points), max(v for _, v in points)
    last = max(count - 1, 1)

    def place(index: int, value: float) -> tuple[str, str]:
        share = (value - low) / (high - low) if high > low else 0.5
        x = _EDGE + index / last * (_WIDTH - 2 * _EDGE)
        return f"{x:.4g}", f"{_HEIGHT - _EDGE - share * (_HEIGHT - 2 * _EDGE):.4g}"

    there = [place(*point) for point in points]
    line = " ".join(f"{x},{y}" for x, y in there)
    x, y = there[-1]
    return (
        f'<svg class="spark" viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true">'
        f'<polyline points="{line}"/><circle class="end" cx="{x}" cy="{y}" r="2"/></svg>'
    )
