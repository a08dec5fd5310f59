"""A page to draw on, measured in inches, that knows how wide a text is before it writes it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from mmfl.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DPI", "Page", "apart", "own_style"]

DPI = 200
_LINE = 1.25


@contextmanager
def own_style() -> Iterator[None]:
    """Matplotlib with its own defaults, whatever the user's are, and the same ids in each SVG."""
    try:
        style = _style()
    except ImportError:
        raise InputError(
            "a figure needs matplotlib, which is not installed: pip install 'mmfl[report]'"
        ) from None
    with style.context(["default", {"svg.hashsalt": "mmfl"}]):
        yield


def _style() -> Any:
    """Matplotlib's styles; they do not need the backend that MPLBACKEND names, which may not exist.

    A notebook's backend, for one, is inherited by processes that have no notebook's packages.
    """
    try:
        from matplotlib import style
    except ValueError:
        unknown = os.environ.pop("MPLBACKEND", None)
        try:
            from matplotlib import style
        finally:
            if unknown is not None:
                os.environ["MPLBACKEND"] = unknown
    return style


class Page:
    """A figure of `width` x `height` inches; the origin is at the lower left.

    Attributes:
        figure: matplotlib's.
        space: Axes over the whole page in inches, without any frame.
    """

    def __init__(self, width: float, height: float) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figure: Figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
        self._renderer = FigureCanvasAgg(self.figure).get_renderer()
        self.space = self.figure.add_axes((0, 0, 1, 1), frameon=False)
        self.space.set(xlim=(0, width), ylim=(0, height), xticks=[], yticks=[])

    @property
    def top(self) -> float:
        """The height of the page."""
        return float(self.figure.get_figheight())

    def resize(self, height: float) -> None:
        """Make room, before anything is drawn."""
        self.figure.set_figheight(height)
        self.space.set_ylim(0, height)

    def axes(self, left: float, bottom: float, width: float, height: float) -> Any:
        """Axes with their frame at these inches."""
        w, h = self.figure.get_size_inches()
        return self.figure.add_axes((left / w, bottom / h, width / w, height / h))

    def width(self, text: str, size: float, weight: str = "normal") -> float:
        """Inches that a text takes, the longest of its lines."""
        from matplotlib.font_manager import FontProperties

        font = FontProperties(size=size, weight=weight)
        lines = [line for line in text.split("\n") if line]
        pixels = [self._renderer.get_text_width_height_descent(x, font, False)[0] for x in lines]
        return max(pixels, default=0.0) / DPI

    @staticmethod
    def line(size: float) -> float:
        """Inches from one line of text to the next."""
        return size / 72 * _LINE

    def folded(self, text: str, width: float, size: float) -> list[str]:
        """The text in lines that are not longer than `width`, broken between words."""
        lines: list[str] = []
        for word in text.split():
            if lines and self.width(f"{lines[-1]} {word}", size) <= width:
                lines[-1] += f" {word}"
            else:
                lines.append(word)
        return lines

    def cut(self, text: str, width: float, size: float, weight: str = "normal") -> str:
        """The text, or as much of its beginning as fits into `width`."""
        text = " ".join(text.split())
        if self.width(text, size, weight) <= width:
            return text
        while text and self.width(text + "…", size, weight) > width:
            text = text[:-1]
        return text + "…"

    def write(self, x: float, y: float, text: str, size: float, **style: Any) -> None:
        """Put a text at a place; a $ in it is a $."""
        plain: dict[str, Any] = {"va": "baseline", "linespacing": _LINE, "parse_math": False}
        self.space.text(x, y, text, size=size, **(plain | style))

    def write_lines(
        self, x: float, y: float, lines: Sequence[str], size: float, **style: Any
    ) -> None:
        """Put lines below each other; the first one's base is at `y`."""
        for number, line in enumerate(lines):
            self.write(x, y - number * self.line(size), line, size, **style)

    def label_ends(
        self,
        texts: Sequence[str],
        colours: Sequence[str],
        ends: Sequence[tuple[float | None, float]],
        size: float,
        *,
        edge: float,
        low: float,
        high: float,
    ) -> None:
        """Name lines where they end, in a column right of `edge`, without overlap.

        Args:
            texts: What to write; may have several lines.
            colours: Of each.
            ends: Where each line ends; without an x, no dots lead from there to the text.
            size: Of the letters.
            edge: Where the axes end.
            low: The column's lower end.
            high: Its upper end.
        """
        sizes = [self.line(size) * (text.count("\n") + 1) + 0.04 for text in texts]
        places = apart([y for _, y in ends], sizes, low, high)
        for text, colour, (x, y), place in zip(texts, colours, ends, places, strict=True):
            if x is not None and (abs(place - y) > 0.03 or x < edge):
                way = ([x + 0.03, edge + 0.11], [y, place])
                self.space.plot(*way, color=colour, linewidth=0.7, linestyle=(0, (1, 2)))
            self.write(edge + 0.14, place, text, size, color=colour, weight="bold", va="center")


def apart(wanted: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Centres near the wanted ones (least squares) at which things of these sizes do not overlap.

    They keep their order and stay between `low` and `high`, if there is room for all of them.
    Subtracting from each centre what lies before it turns "no overlap" into "never falling", which
    is isotonic regression; it is solved by pooling neighbours that are in the wrong order.
    """
    if not wanted:
        return []
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    size = np.array([sizes[at] for at in order], dtype=np.float64)
    before = np.concatenate(([0.0], np.cumsum(size[:-1] + size[1:]) / 2))
    pools: list[tuple[float, int]] = []
    for at, shift in zip(order, before, strict=True):
        mean, count = float(wanted[at] - shift), 1
        while pools and pools[-1][0] > mean:
            left, more = pools.pop()
            mean, count = (left * more + mean * count) / (more + count), more + count
        pools.append((mean, count))
    level = np.concatenate([np.full(count, mean) for mean, count in pools])
    level = np.clip(
        level, low + size[0] / 2, max(high - size[-1] / 2 - before[-1], low + size[0] / 2)
    )
    centres = [0.0] * len(wanted)
    for at, centre in zip(order, level + before, strict=True):
        centres[at] = float(centre)
    return centres
