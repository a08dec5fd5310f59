"""One picture of a comparison: how the worst model fared, and where the clients went."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mmfl.report.figures.page import Page, own_style
from mmfl.report.figures.panels import GREY, Bars, Lines
from mmfl.report.figures.saving import check_path, save
from mmfl.report.statistics import Variant, same_tasks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_comparison", "save_comparison"]

_WIDTH, _HEIGHT, _EDGE = 8.0, 4.0, 0.16
_LEFT, _RIGHT = (0.42, 4.22), (4.62, 7.84)
_TITLE, _TEXT = 11.0, 8.0


def save_comparison(
    variants: Sequence[Variant], path: str | Path, *, subtitle: str = "", metric: str = "accuracy"
) -> Path:
    """Draw the picture of `draw` into a file: .png (1600 pixels wide), .svg or .pdf.

    The same variants give the same bytes, with the same version of matplotlib.

    Args:
        variants: What to compare.
        path: Where to; a file that is there is replaced.
        subtitle: A line at the foot, e.g. "Seeds 0 to 3, 30 rounds, 40 clients."
        metric: What the tasks' metric is called.
    """
    check_path(path)
    return save(draw_comparison(variants, subtitle=subtitle, metric=metric), path)


def draw_comparison(
    variants: Sequence[Variant], *, subtitle: str = "", metric: str = "accuracy"
) -> Figure:
    """The picture as a matplotlib figure.

    On the left the worst task's merit over rounds, a line per variant: the mean over seeds, in a
    band from the lowest to the highest seed. On the right the share of clients' turns that each
    task got, over all seeds, with its final metric. A run that is shorter than another of its
    variant keeps its last values, so that a line ends at the value that the tables show (unless a
    seed has none: tables leave that seed out).

    Args:
        variants: What to compare.
        subtitle: A line at the foot.
        metric: What the tasks' metric is called.
    """
    same_tasks(variants)
    with own_style():
        page = Page(_WIDTH, _HEIGHT)
        panels: list[Lines | Bars] = [
            Lines(page, variants, metric, *_LEFT),
            Bars(page, variants, metric, *_RIGHT),
        ]
        heads = [
            [part for line in p.explanation for part in page.folded(line, p.right - p.left, _TEXT)]
            for p in panels
        ]
        foot = page.folded(_foot(variants, subtitle), _RIGHT[1] - _LEFT[0], _TEXT)
        above = 0.54 + page.line(_TEXT) * max(map(len, heads))
        below = _EDGE + page.line(_TEXT) * len(foot) + 0.08 * bool(foot)
        page.resize(max(_HEIGHT, above + below + max(panel.least for panel in panels)))
        for panel, head in zip(panels, heads, strict=True):
            page.write(panel.left, page.top - 0.3, panel.title, _TITLE, weight="bold")
            page.write_lines(panel.left, page.top - 0.52, head, _TEXT, color=GREY)
            panel.paint(below, page.top - above)
        page.write_lines(_LEFT[0], below - 0.2, foot, _TEXT, color=GREY)
    return page.figure


def _foot(variants: Sequence[Variant], subtitle: str) -> str:
    uneven = any(len({run.rounds for run in v.runs.values()}) > 1 for v in variants)
    held = "Runs that ended early keep their last values." if uneven else ""
    return " · ".join(text for text in (subtitle, held) if text)
