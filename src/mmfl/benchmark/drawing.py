"""The picture of the benchmark: the worst task against the mean, a point per rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mmfl.benchmark.scores import Estimate, RuleScore
from mmfl.errors import InputError
from mmfl.report.figures import Point, draw_points, save

__all__ = ["draw_rules"]


def draw_rules(scores: Sequence[RuleScore], path: Path, *, baseline: str, note: str = "") -> Path:
    """Save the picture: gains over the baseline if it was run, else the numbers themselves."""
    if not scores:
        raise InputError("no setting has runs of all rules")
    gains = all(one.gains for one in scores)
    points = {}
    for one in scores:
        x, y = ((one.gains if gains else one.means)[title] for title in ("mean", "worst"))
        points[one.rule] = Point(x.value, y.value, _find_ends(x), _find_ends(y))
    more = f", minus that of {baseline}" if gains else ""
    labels = (f"mean of the tasks{more}", f"worst task{more}")
    foot = f"{note} Whiskers: 95% interval over settings and seeds."
    title = "What rules do for the worst task, and for the mean"
    return save(draw_points(points, labels=labels, title=title, foot=foot.strip()), path)


def _find_ends(estimate: Estimate) -> tuple[float, float]:
    return estimate.low, estimate.high
