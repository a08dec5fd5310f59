"""The figure of a study, drawn from curves alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mmfl.errors import InputError
from mmfl.report import Variant
from mmfl.report.figures import (
    AgainstPanel,
    BarPanel,
    LinePanel,
    MapPanel,
    SmallPanel,
    draw_panels,
    save,
)
from mmfl.reproduce.archive import Archive
from mmfl.reproduce.auctions import AuctionStudy
from mmfl.reproduce.panels import Against, Bars, Lines, Map, Panel
from mmfl.reproduce.quantities import curve, find_quantity, scale_round
from mmfl.reproduce.study import Study

__all__ = ["draw_study"]

Floats = npt.NDArray[np.float64]


def draw_study(study: Study | AuctionStudy, runs: Archive, path: Path) -> Path:
    """Save the figure; panels whose runs are missing are left out."""
    auctions = isinstance(study, AuctionStudy)
    drawn = [_prepare(panel, runs, auctions=auctions) for panel in study.panels]
    panels = [panel for panel in drawn if panel is not None]
    if not panels:
        raise InputError("the runs of all panels are missing")
    seeds = sorted({seed for _, _, seed, _ in runs})
    said = ", ".join(map(str, seeds)) if len(seeds) < 6 else f"{seeds[0]} to {seeds[-1]}"
    foot = (
        f"Seed{'s' if len(seeds) > 1 else ''} {said}. Line or bar: mean. "
        "Band or whisker: from the lowest seed to the highest."
    )
    names = [name for name in study.variants if any(name in by for by in runs.runs.values())]
    page = draw_panels(panels, names, columns=study.columns, title=study.title, foot=foot)
    return save(page, path)


def _prepare(panel: Panel, runs: Archive, *, auctions: bool) -> SmallPanel | None:
    """What is to be drawn; None if there are no runs for it."""
    here = runs.variants().get(panel.setting, {})
    if isinstance(panel, Map):
        archived = runs.runs.get(panel.setting, {}).get(panel.variant, {})
        found = next((run for run in archived.values() if run.map), None)
        return None if found is None else MapPanel(panel.title, found.map, found.curves.tasks)
    if isinstance(panel, Against):
        return _prepare_against(panel, here)
    assert isinstance(panel, Lines | Bars)
    names = [name for name in panel.variants or here if name in here]
    if not names:
        return None
    values = curve(panel.quantity)
    curves = {name: _stack([values(run) for run in here[name].runs.values()]) for name in names}
    if isinstance(panel, Lines) and auctions:
        return LinePanel(panel.title, curves, "clients", "budget")
    label = panel.quantity if panel.quantity == "variance" else "accuracy"
    if isinstance(panel, Lines):
        return LinePanel(panel.title, curves, label)
    rounds = next(iter(curves.values())).shape[1]
    at = [scale_round(number, rounds) for number in panel.at]
    groups = [*map(str, at), "average"]
    table = {
        name: np.column_stack([*(rows[:, t - 1] for t in at), rows.mean(axis=1)])
        for name, rows in curves.items()
    }
    return BarPanel(panel.title, groups, table, label)


def _prepare_against(panel: Against, here: dict[str, Variant]) -> AgainstPanel | None:
    if not all(name in here for name in panel.variants):
        return None
    steps = [here[name] for name in panel.variants]
    seeds = sorted(set(steps[0].seeds).intersection(*(step.seeds for step in steps)))
    if not seeds:
        return None
    values = {}
    for what in panel.quantities:
        by_step = [step.values(find_quantity(what)) for step in steps]
        values[what] = np.array([[one[seed] for one in by_step] for seed in seeds])
    return AgainstPanel(panel.title, [name.split()[-1] for name in panel.variants], values)


def _stack(curves: Sequence[Floats]) -> Floats:
    """A row per seed; what is longer than the shortest is cut off."""
    length = min(map(len, curves))
    return np.array([values[:length] for values in curves])
