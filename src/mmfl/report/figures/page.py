"""Shared code of all figures: page, title, foot, headings, keys, labels at the ends of lines."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.report.figures.style import BOLD, GREY, SMALL, TITLE
from mmfl.report.words import amount, break_name

__all__ = [
    "WIDTH",
    "add_key",
    "fits",
    "fix_layout",
    "fold",
    "fold_label",
    "format_brief",
    "format_power",
    "make_page",
    "measure_labels",
    "name_ends",
    "set_apart",
    "set_heads",
]

WIDTH = 8.0  # inches
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LINE = 1.25  # from one line of text to the next, in sizes of its letters


def make_page(
    height: float, *, title: str = "", marks: Mapping[str, Any] | None = None, foot: str = ""
) -> Any:
    """A figure with `height` inches between its title and its foot; the key is below the title."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    title = fold(title, WIDTH - 0.4, size=TITLE, weight="bold", most=2)
    foot = fold(foot, WIDTH - 0.4)
    lines = title.count("\n") + 1.5 * bool(title) + foot.count("\n") + 1.5 * bool(foot)
    figure = Figure(figsize=(WIDTH, height + 0.15 * lines), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.05, h_pad=0.06, rect=(0.01, 0, 0.98, 1))
    if marks:
        add_key(figure, marks, WIDTH - 0.3, loc="outside upper left", title=title or None)
    elif title:
        figure.suptitle(title, x=0.02, ha="left")
    if foot:
        figure.supxlabel(foot, x=0.02, ha="left", color=GREY)
    return figure


def fix_layout(figure: Any) -> Any:
    """The figure with its layout made, once and for all.

    The solver's last digits vary: they are rounded, so that the same figure has the same bytes.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position(np.round(axes.get_position().bounds, 4))
    return figure


def fits(text: str, inches: float, size: float = SMALL, weight: str = "normal") -> bool:
    """Whether a line of text is at most so wide, with a little room at its ends."""
    return _measure(text, size, weight) + 0.06 <= inches


def fold(
    text: str, inches: float, *, size: float = SMALL, weight: str = "normal", most: int = 99
) -> str:
    """A text in lines of that width, broken between words; an ellipsis stands for what is left."""

    def shorten(line: str) -> str:
        if fits(line, inches, size, weight):
            return line
        cuts = [line[:n] + "…" for n in range(len(line))]
        too_wide = bisect.bisect(cuts, False, key=lambda cut: not fits(cut, inches, size, weight))
        return cuts[max(too_wide - 1, 0)]

    lines: list[str] = []
    for word in text.replace("\n", " \n").split(" "):
        if lines and word[:1] != "\n" and fits(f"{lines[-1]} {word}", inches, size, weight):
            lines[-1] += f" {word}"
        else:
            lines.append(shorten(word.strip()))
    if len(lines) > most:
        lines[most - 1 :] = [shorten(" ".join(lines[most - 1 :]))]
    return "\n".join(lines)


def set_heads(panels: Iterable[Any], heads: Iterable[tuple[str, str]], inches: float) -> None:
    """Give panels a bold title and grey lines below it, at the same heights in all of them."""
    folded = [(fold(title, inches, size=BOLD, weight="bold", most=2), fold(told, inches))
              for title, told in heads]  # fmt: skip
    room = _LINE * SMALL * max(bool(told) + told.count("\n") for _, told in folded) + 3
    for axes, (title, told) in zip(panels, folded, strict=True):
        axes.set_title(title, pad=room + 3)
        axes.annotate(told, (0, 1), (0, room), xycoords="axes fraction", va="top", color=GREY,
                      textcoords="offset points", linespacing=_LINE)  # fmt: skip


def add_key(place: Any, marks: Mapping[str, Any], inches: float, **how: Any) -> None:
    """Say in a figure or axes what marks mean, in as many columns as fit into that width."""
    names = [fold(name, inches - 0.5, most=1) for name in marks]
    widths = [_measure(name) + 0.5 for name in names]
    columns = len(names) if sum(widths) <= inches else max(1, int(inches / max(widths)))
    font = {"size": TITLE, "weight": "bold"}
    place.legend(marks.values(), names, ncols=columns, columnspacing=1.5, alignment="left",
                 title_fontproperties=font, **how)  # fmt: skip


def fold_label(text: str) -> str:
    """A label for `name_ends` in lines that leave room for the figure."""
    folded = (break_name(text, letters) for letters in (16, 12, 8))
    narrow = (x for x in folded if all(fits(y, 1.55, BOLD, "bold") for y in x.split("\n")))
    return next(narrow, break_name(text, 8))


def measure_labels(labels: Iterable[str]) -> float:
    """Inches that labels below each other take, in `name_ends`."""
    return sum((label.count("\n") + 1) * _LINE * BOLD + 3 for label in labels) / 72


def name_ends(figure: Any, axes: Any, labels: Sequence[str], lines: Sequence[Any]) -> None:
    """Write labels right of the axes, near the ends of their lines and without overlap."""
    figure.draw_without_rendering()  # so that it is known how high the axes are
    box = axes.get_window_extent()
    ends = [line.get_xydata()[-1] for line in lines]
    known = [bool(np.isfinite(end).all()) for end in ends]
    pixels = [axes.transData.transform(end)[1] if ok else box.y0
              for end, ok in zip(ends, known, strict=True)]  # fmt: skip
    wanted = (np.array(pixels) - box.y0) / box.height
    places = set_apart(wanted, [measure_labels([x]) * figure.dpi / box.height for x in labels])
    for label, line, end, ok, place in zip(labels, lines, ends, known, places, strict=True):
        colour = line.get_color()
        leader = {"arrowstyle": "-", "color": colour, "linestyle": ":", "linewidth": 0.7,
                  "shrinkA": 1, "shrinkB": 3, "relpos": (0, 0.5)}  # fmt: skip
        axes.annotate(
            label, end if ok else (1, 0), (1.06, place), xycoords="data" if ok else "axes fraction",
            textcoords="axes fraction", annotation_clip=False, arrowprops=leader if ok else None,
            va="center", color=colour, weight="bold", size=BOLD,
        )  # fmt: skip


def set_apart(wanted: npt.ArrayLike, sizes: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Centres near the wanted ones (least squares) at which things of these sizes do not overlap.

    They keep their order and stay between 0 and 1, if there is room for all of them. Subtracting
    from each centre what lies before it turns "no overlap" into isotonic regression.
    """
    from scipy.optimize import isotonic_regression

    order = np.argsort(wanted, kind="stable")
    size = np.asarray(sizes, dtype=np.float64)[order]
    before = np.cumsum(size) - size / 2
    level = isotonic_regression(np.asarray(wanted)[order] - before).x
    centres = np.empty(len(order))
    centres[order] = np.clip(level, 0.0, max(1.0 - size.sum(), 0.0)) + before
    return centres


def format_brief(value: float, _: object = None) -> str:
    """An amount next to an axis, where there is little room."""
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep="")(value) if abs(value) >= 1e4 else amount(value)


def format_power(value: float, _: object = None) -> str:
    """A power of ten next to a logarithmic axis."""
    return "10" + str(round(math.log10(value))).translate(_SUPERSCRIPTS)


def _measure(text: str, size: float = SMALL, weight: str = "normal") -> float:
    """Inches that a line of text takes."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) / 72
