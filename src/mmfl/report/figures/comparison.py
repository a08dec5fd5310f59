"""One figure of a comparison: how the worst model fared, and where the clients went."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mmfl.report.figures.page import (
    add_key,
    fits,
    fix_layout,
    fold,
    fold_label,
    make_page,
    measure_labels,
    name_ends,
    set_apart,
    set_heads,
)
from mmfl.report.figures.saving import check_path, save
from mmfl.report.figures.style import BOLD, GREY, PALE, get_line_look, own_style
from mmfl.report.statistics import Variant, of_task, refuse_other_tasks, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_comparison", "save_comparison"]

Floats = npt.NDArray[np.float64]

_HALF = 3.1  # inches: how wide a bar is, at least
_BAR: dict[str, Any] = {"height": 0.4, "edgecolor": "white", "linewidth": 0.8}


def save_comparison(
    variants: Sequence[Variant], path: str | Path, *, subtitle: str = "", metric: str = "accuracy"
) -> Path:
    """Save the figure of `draw_comparison` to a file, which is replaced: .png, .svg or .pdf.

    The same variants give the same bytes, with the same version of matplotlib.
    """
    check_path(path)
    return save(draw_comparison(variants, subtitle=subtitle, metric=metric), path)


def draw_comparison(
    variants: Sequence[Variant], *, subtitle: str = "", metric: str = "accuracy"
) -> Figure:
    """Return the figure, as a matplotlib object.

    On the left the worst task's merit over rounds, a line per variant: the mean over seeds, in a
    band from the lowest to the highest seed. On the right the share of clients' turns that each
    task got, over all seeds, with its final metric; of more than ten tasks the nine worst, and the
    others together. A run that is shorter than another of its variant keeps its last values, so
    that a line ends at the value that the tables show (unless a seed has none: tables leave that
    seed out).

    Args:
        variants: What to compare.
        subtitle: A line at the foot, e.g. "Seeds 0 to 3, 30 rounds, 40 clients."
        metric: What the tasks' metric is called.
    """
    refuse_other_tasks(variants)
    curves = [_hold(variant) for variant in variants]
    uneven = any(len({run.rounds for run in v.runs.values()}) > 1 for v in variants)
    held = "Runs that ended early keep their last values." if uneven else ""
    foot = " · ".join(text for text in (subtitle, held) if text)
    with own_style():
        bars = _Bars(variants)
        ends = [rows[:, -1].mean() for rows in curves]
        labels = [_name_end(v.name, end) for v, end in zip(variants, ends, strict=True)]
        height = 1.3 + max(0.58 * max(4, len(variants)) + bars.key_height, measure_labels(labels))
        figure = make_page(height, foot=foot)
        lines, shares = figure.subplots(1, 2, width_ratios=(1, 1.25))
        set_heads((lines, shares), _describe(variants, metric, bars.others), 3.5)
        bars.draw(shares)
        name_ends(figure, lines, labels, _draw_lines(lines, curves))
        return fix_layout(figure)  # type: ignore[no-any-return]


def _describe(variants: Sequence[Variant], metric: str, others: int) -> list[tuple[str, str]]:
    """The panels' titles, and what one sees in them."""
    first = variants[0]
    S, plain = len(first.tasks), set(first.better) == {"higher"}
    counts = sorted({len(variant.seeds) for variant in variants})
    seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    rule = "1 - metric where lower is better"
    rule += ", 1 / metric if that is perplexity" if "perplexity" in first.curves.kinds else ""
    what = metric if plain else f"merit ({rule})"
    whose = "whichever model is worst in that round" if S > 1 else first.tasks[0]
    how = f"Line: mean of {seeds} seeds. Band: from the lowest to the highest."
    bold = ", in bold for the worst" if S > 1 else ""
    grey = f"\nThe {S - others} worst models; grey: {others} others." if others else ""
    return [
        (
            f"The {f'worst of {S} models' if S > 1 else 'model'}, round by round",
            f"{what[0].upper()}{what[1:]} of {whose}.\n{how if counts[-1] > 1 else 'One seed.'}",
        ),
        (
            "Where the clients went",
            "In the bars: each model's share of the clients' turns.\n"
            f"Below: its final {metric if plain else 'metric'}{bold}.{grey}",
        ),
    ]


def _hold(variant: Variant) -> Floats:
    """The worst task's merit, a row for each seed; shorter runs go on with their last value."""
    curves = [run.worst for run in variant.runs.values()]
    length = max(map(len, curves))
    return np.array([np.pad(curve, (0, length - len(curve)), mode="edge") for curve in curves])


def _name_end(name: str, last: float) -> str:
    value = f"{last:.2f}" if np.isfinite(last) else "not measured"
    return fold_label(f"{name if len(name) <= 60 else name[:59] + '…'} {value}")


def _draw_lines(axes: Any, curves: Sequence[Floats]) -> list[Any]:
    """A line and a band for each variant."""
    lines = []
    for number, rows in enumerate(curves):
        rounds = np.arange(1, rows.shape[1] + 1)
        known = [np.where(np.isfinite(line), line, np.nan)
                 for line in (rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0))]  # fmt: skip
        look = get_line_look(number) | {"zorder": 3 + len(curves) - number}
        if len(rows) > 1:
            axes.fill_between(rounds, *known[1:], color=look["color"], alpha=0.13, linewidth=0)
        lines += axes.plot(rounds, known[0], marker="o", markevery=[-1], clip_on=False, **look)
    longest = max(rows.shape[1] for rows in curves)
    axes.set(xlim=(min(1, longest - 1), longest), xlabel="round")
    axes.locator_params(axis="x", nbins=6, integer=True, min_n_ticks=1)
    axes.locator_params(axis="y", nbins=5)
    values = np.concatenate([rows[np.isfinite(rows)] for rows in curves])
    if not values.size:
        axes.set_ylim(0, 1)
    elif values.min() >= 0:
        axes.set_ylim(bottom=max(0.0, axes.get_ylim()[0]))
    return lines


class _Bars:
    """Each task's share of the clients' turns, one bar per variant.

    Attributes:
        others: How many tasks are shown together, as the last part of a bar.
        key_height: Inches that the key takes.
    """

    def __init__(self, variants: Sequence[Variant]) -> None:
        first, self._variants = variants[0], variants
        finals = np.array([[spread(v.values(of_task(v, task)).values()).mean for task in v.tasks]
                           for v in variants])  # fmt: skip
        merits = first.curves.merit_of(finals)
        turns = np.array([sum(run.turns for run in v.runs.values()) for v in variants])
        shown = np.arange(len(first.tasks))
        if len(shown) > len(PALE):
            worst = np.where(np.isfinite(merits), merits, -np.inf).min(axis=0)
            shown = np.sort(np.argsort(worst, kind="stable")[: len(PALE) - 1])
        self.others = len(first.tasks) - len(shown)
        self._names = [" ".join(first.tasks[s].split()) for s in shown]
        self._finals, self._merits = finals[:, shown], merits[:, shown]
        self._shares = (turns / np.maximum(turns.sum(axis=1, keepdims=True), 1))[:, shown]
        self._key = not all(  # needed if there is a task that no bar has room to name
            any(fits(f"{name} {share:.0%}", _HALF * share) for share in column)
            for name, column in zip(self._names, self._shares.T, strict=True)
        )
        self.key_height = 0.16 * self._key * len(self._names)

    def draw(self, axes: Any) -> None:
        """Draw all bars, and the key."""
        rows, lefts = np.arange(len(self._variants)), np.cumsum(self._shares, 1) - self._shares
        parts = zip(self._shares.T, lefts.T, PALE, strict=False)
        marks = [axes.barh(rows, width, left=left, color=colour, **_BAR)
                 for width, left, colour in parts]  # fmt: skip
        if self.others:
            sums = self._shares.sum(axis=1)
            axes.barh(rows, np.where(sums, 1 - sums, 0), left=sums, color="#EEEEEE", **_BAR)
        for row, variant in enumerate(self._variants):
            name = fold(variant.name, _HALF, size=BOLD, weight="bold", most=1)
            colour = get_line_look(row)["color"]
            axes.text(0, row - 0.25, name, color=colour, size=BOLD, weight="bold", va="bottom")
            if not self._shares[row].any():
                axes.text(0, row, "no turns", color=GREY, va="center")
            self._write(axes, row, lefts[row] + self._shares[row] / 2)
        axes.set(xlim=(0, 1), ylim=(max(len(rows), 4) - 0.5, -0.5))
        axes.set_axis_off()
        if self._key:
            named = dict(zip(self._names, marks, strict=True))
            add_key(axes, named, _HALF, loc="upper left", bbox_to_anchor=(0, 0))

    def _write(self, axes: Any, row: int, middles: Floats) -> None:
        """The shares in a bar, and the final metrics below it."""
        merits, places = self._merits[row], set_apart(middles, [0.3 / _HALF] * len(middles))
        for s, share in enumerate(self._shares[row]):
            texts = ["" if self._key else f"{self._names[s]} {share:.0%}", f"{share:.0%}"]
            inside = next((t for t in texts if t and fits(t, _HALF * share)), "")
            axes.text(middles[s], row, inside, ha="center", va="center")
            final = self._finals[row, s]
            worst = len(merits) > 1 and merits[s] == merits.min()
            look = {"weight": "bold"} if worst else {"color": GREY}
            text = f"{final:.2f}" if np.isfinite(final) else "–"
            axes.text(places[s], row + 0.24, text, ha="center", va="top", **look)
