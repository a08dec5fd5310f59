"""The two halves of the picture: lines over rounds, and bars of shares."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.fairness import merit
from mmfl.report.figures.page import Page, apart
from mmfl.report.statistics import Variant, of_task, spread
from mmfl.report.words import broken

__all__ = ["DASHES", "GREY", "INK", "RULE", "STRONG", "Bars", "Lines", "held"]

Floats = npt.NDArray[np.float64]

# Colours that people with any kind of colour vision can tell apart: strong ones for the lines of
# variants (Okabe and Ito), pale ones for the areas of tasks, under black text (Tol, "light").
STRONG = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000")
_PALE = (
    "#77AADD", "#EEDD88", "#EE8866", "#99DDFF", "#BBCC33",
    "#FFAABB", "#44BB99", "#DDDDDD", "#CCAA55", "#BBAADD",
)  # fmt: skip
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1.5, 1.5)))
INK, GREY, RULE = "#222222", "#666666", "#E2E2E2"
_NAME, _TEXT, _SMALL = 9.0, 8.0, 7.8


def held(curves: Sequence[Floats]) -> Floats:
    """Curves as rows of one matrix; the shorter ones go on with their last value."""
    length = max(len(curve) for curve in curves)
    return np.array([np.pad(curve, (0, length - len(curve)), mode="edge") for curve in curves])


class Lines:
    """The worst task's merit over rounds, one line per variant.

    Attributes:
        left: Where it begins, in inches.
        right: Where it ends.
        least: How high it must be, at least.
        title: Its title.
        explanation: What one sees, line by line.
    """

    least = 2.2

    def __init__(
        self, page: Page, variants: Sequence[Variant], metric: str, left: float, right: float
    ) -> None:
        self._page, self._variants, self.left, self.right = page, variants, left, right
        self._curves = [held([run.worst for run in v.runs.values()]) for v in variants]
        self._means = [curves.mean(axis=0) for curves in self._curves]
        S = len(variants[0].tasks)
        self.title = f"The {f'worst of {S} models' if S > 1 else 'model'}, round by round"
        counts = sorted({len(variant.seeds) for variant in variants})
        seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
        merit = "merit (1 - metric where lower is better)"
        what = metric if set(variants[0].better) == {"higher"} else merit
        whose = "whichever model is worst in that round" if S > 1 else f"{variants[0].tasks[0]}"
        how = f"Line: mean of {seeds} seeds. Band: from the lowest to the highest."
        self.explanation = (
            f"{what[0].upper()}{what[1:]} of {whose}.",
            how if counts[-1] > 1 else "One seed.",
        )

    def paint(self, bottom: float, top: float) -> None:
        """Draw it between these heights."""
        names = [self._label(number) for number in range(len(self._variants))]
        column = max(self._page.width(name, _NAME, "bold") for name in names) + 0.14
        bottom += 0.34
        axes = self._page.axes(self.left, bottom, self.right - self.left - column, top - bottom)
        low, high = self._limits()
        longest = max(len(mean) for mean in self._means)
        axes.patch.set_visible(False)
        axes.set(xlim=(min(1, longest - 1), longest), ylim=(low, high))
        self._rules(axes)
        for number, (curves, mean) in enumerate(zip(self._curves, self._means, strict=True)):
            rounds = np.arange(1, len(mean) + 1)
            colour, dash = _look(number)
            if len(curves) > 1:
                edges = (
                    np.where(np.isfinite(e), e, np.nan) for e in (curves.min(0), curves.max(0))
                )
                axes.fill_between(rounds, *edges, color=colour, alpha=0.13, linewidth=0)
            shown = np.where(np.isfinite(mean), mean, np.nan)
            above = 3 + len(self._means) - number
            axes.plot(rounds, shown, color=colour, linestyle=dash, linewidth=1.7, zorder=above)
            axes.plot(
                rounds[-1],
                shown[-1],
                "o",
                color=colour,
                markersize=3.5,
                zorder=above,
                clip_on=False,
            )
        ends = [float(np.clip(np.nan_to_num(m[-1], nan=low), low, high)) for m in self._means]
        edge = self.right - column
        points = [
            (
                self.left + (edge - self.left) * _part(len(mean), longest)
                if np.isfinite(mean[-1])
                else None,
                bottom + (end - low) / (high - low) * (top - bottom),
            )
            for mean, end in zip(self._means, ends, strict=True)
        ]
        colours = [_look(number)[0] for number in range(len(names))]
        self._page.label_ends(
            names, colours, points, _NAME, edge=edge, low=bottom - 0.1, high=top + 0.02
        )

    def _label(self, number: int) -> str:
        last = self._means[number][-1]
        value = f"{last:.2f}" if np.isfinite(last) else "not measured"
        name = self._variants[number].name
        return broken(f"{name if len(name) <= 60 else name[:59] + '…'} {value}", 16)

    def _limits(self) -> tuple[float, float]:
        known = np.concatenate([curves.ravel() for curves in self._curves])
        known = known[np.isfinite(known)]
        if not known.size:
            return 0.0, 1.0
        low, high = float(known.min()), float(known.max())
        pad = max(0.05 * (high - low), 0.01)
        if low >= 0 and high <= 1:
            return max(0.0, low - pad), min(1.0, high + pad)
        return low - pad, high + pad

    def _rules(self, axes: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.tick_params(labelsize=_TEXT, length=0, colors=GREY, pad=3)
        axes.grid(axis="y", color=RULE, linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "left", "right"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(GREY)
        axes.set_xlabel("round", fontsize=_TEXT, color=GREY, labelpad=2)


class Bars:
    """Where the clients went: each task's share of their turns, one bar per variant.

    Attributes:
        left: Where it begins, in inches.
        right: Where it ends.
        least: How high it must be, at least.
        title: Its title.
        explanation: What one sees, line by line.
    """

    title = "Where the clients went"
    _row = (0.56, 0.96)
    _key_line = 0.17
    _thick_up_to = 4  # variants; then a bar has room for two lines

    def __init__(
        self, page: Page, variants: Sequence[Variant], metric: str, left: float, right: float
    ) -> None:
        self._page, self._variants, self.left, self.right = page, variants, left, right
        turns = [np.sum([run.turns for run in v.runs.values()], axis=0) for v in variants]
        self._shares = [row / max(row.sum(), 1) for row in turns]
        S = len(variants[0].tasks)
        what = metric if set(variants[0].better) == {"higher"} else "metric"
        self.explanation = (
            "In the bars: each model's share of the clients' turns.",
            f"Below: its final {what}{', in bold for the worst' if S > 1 else ''}.",
        )
        self._key: list[list[int]] = []
        self._key = self._key_rows()
        self._key_height = len(self._key) * self._key_line + 0.06 * bool(self._key)
        self.least = len(variants) * self._row[0] + self._key_height

    def paint(self, bottom: float, top: float) -> None:
        """Draw it between these heights."""
        for line, row in enumerate(self._key):
            x, y = self.left, top - line * self._key_line - 0.12
            for task in row:
                self._box(x, y, 0.1, 0.1, task)
                self._page.write(x + 0.14, y + 0.01, self._named(task), _TEXT, color=INK)
                x += self._key_width(task)
        top -= self._key_height
        row_height = min((top - bottom) / len(self._variants), self._row[1])
        for number, variant in enumerate(self._variants):
            self._bar(number, variant, top - number * row_height, row_height)

    def _bar(self, number: int, variant: Variant, top: float, height: float) -> None:
        name = self._page.cut(variant.name, self.right - self.left, _NAME, "bold")
        self._page.write(self.left, top - 0.13, name, _NAME, color=_look(number)[0], weight="bold")
        thick = min(max(height - 0.4, 0.17), 0.36)
        base = top - 0.19 - thick
        shares = self._shares[number]
        starts = [0.0, *accumulate(shares.tolist())]
        width = self.right - self.left
        for task, share in enumerate(shares):
            x = self.left + width * starts[task]
            self._box(x, base, width * share, thick, task)
            text = self._inside(task, share)
            middle = (x + width * share / 2, base + thick / 2 + 0.003)
            self._page.write(*middle, text, _SMALL, color=INK, ha="center", va="center_baseline")
        if not shares.any():
            self._page.write(self.left, base + thick / 2, "no turns", _SMALL, color=GREY)
        self._finals(variant, shares, starts, base - 0.13)

    def _finals(
        self, variant: Variant, shares: Floats, starts: Sequence[float], height: float
    ) -> None:
        """The tasks' final metrics under their parts of the bar."""
        finals = [spread(variant.values(of_task(variant, t)).values()).mean for t in variant.tasks]
        merits = list(map(merit, finals, variant.better))
        texts = [f"{value:.2f}" if np.isfinite(value) else "–" for value in finals]
        sizes = [self._page.width(text, _SMALL, "bold") + 0.06 for text in texts]
        width = self.right - self.left
        wanted = [
            self.left + width * (start + share / 2)
            for start, share in zip(starts, shares, strict=False)
        ]
        places = apart(wanted, sizes, self.left, self.right)
        for text, place, own in zip(texts, places, merits, strict=True):
            worst = len(texts) > 1 and own == min(merits)
            weight, colour = ("bold", INK) if worst else ("normal", GREY)
            self._page.write(place, height, text, _SMALL, color=colour, weight=weight, ha="center")

    def _inside(self, task: int, share: float) -> str:
        """As much about a task as fits into its part of a bar; its name only if there is no key."""
        name, percent = self._variants[0].tasks[task], f"{share:.0%}"
        named = [f"{name} {percent}"]
        if len(self._variants) <= self._thick_up_to:
            named.append(f"{name}\n{percent}")
        for text in [*([] if self._key else named), percent]:
            if self._page.width(text, _SMALL) + 0.06 <= (self.right - self.left) * share:
                return text
        return ""

    def _key_rows(self) -> list[list[int]]:
        """A key is needed if there is a task that no bar has room to name."""
        tasks = range(len(self._variants[0].tasks))
        places = [[(task, share[task]) for share in self._shares] for task in tasks]
        if all(any(self._inside(*at) not in ("", f"{at[1]:.0%}") for at in row) for row in places):
            return []
        rows: list[list[int]] = [[]]
        for task in tasks:
            taken = sum(self._key_width(other) for other in rows[-1])
            if rows[-1] and taken + self._key_width(task) > self.right - self.left:
                rows.append([])
            rows[-1].append(task)
        return rows

    def _key_width(self, task: int) -> float:
        return 0.14 + self._page.width(self._named(task), _TEXT) + 0.16

    def _named(self, task: int) -> str:
        return self._page.cut(self._variants[0].tasks[task], self.right - self.left - 0.3, _TEXT)

    def _box(self, x: float, y: float, width: float, height: float, task: int) -> None:
        from matplotlib.patches import Rectangle

        colour = _PALE[task % len(_PALE)]
        self._page.space.add_patch(
            Rectangle((x, y), width, height, facecolor=colour, edgecolor="white", linewidth=0.8)
        )


def _look(number: int) -> tuple[str, Any]:
    """A variant's colour and dashes."""
    again, colour = divmod(number, len(STRONG))
    return STRONG[colour], DASHES[again % len(DASHES)]


def _part(rounds: int, longest: int) -> float:
    """How far along the axis a line of so many rounds ends."""
    return (rounds - 1) / (longest - 1) if longest > 1 else 1.0
