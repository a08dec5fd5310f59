"""The page of a comparison, live while it goes on: how far each run is, and how the variants do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mmfl.dashboard.library import Snapshot, make_id
from mmfl.errors import printable
from mmfl.report import number, spread
from mmfl.report.document import pick_rounds, round_off
from mmfl.runs import Line, Overview, count_states, list_variants, place_of

__all__ = ["describe_comparison"]


def describe_comparison(snapshot: Snapshot, key: str) -> dict[str, Any] | None:
    """What the page shows, and its curves as "content"; None if there is no such comparison."""
    lines = find_variants(snapshot, key)
    if not lines:
        return None
    runs = [run for line in lines for run in line.runs]
    rounds, planned = sum(run.rounds for run in runs), sum(run.planned for run in runs)
    seeds = sorted({_seed(run) for run in runs})
    states = {run.state for run in runs}
    return {
        "name": _name(snapshot, runs[0]),
        "state": count_states(runs),
        "look": next(iter(states)) if len(states) == 1 else "mixed",
        "rounds": rounds,
        "planned": planned,
        "share": round(100 * rounds / planned, 1) if planned else 0,
        "seeds": seeds,
        "variants": [_describe_variant(snapshot, line, seeds) for line in lines],
        "content": _make_content(lines),
    }


def find_variants(snapshot: Snapshot, key: str) -> list[Line]:
    """The variants of the comparison with an id."""
    runs = [run for run in snapshot.find(key) if place_of(run.folder) is not None]
    whole = {make_id(run.folder.parent.parent, snapshot.root) for run in runs}
    if whole != {key}:  # it is the id of a run or of a variant
        return []
    return list(list_variants(runs[0].folder.parent.parent, runs))


def _seed(run: Overview) -> int:
    place = place_of(run.folder)
    return 0 if place is None else place.seed


def _name(snapshot: Snapshot, run: Overview) -> str:
    folder = run.folder.parent.parent
    same = folder == snapshot.root
    return printable(folder.resolve().name if same else str(folder.relative_to(snapshot.root)))


def _describe_variant(snapshot: Snapshot, line: Line, seeds: Sequence[int]) -> dict[str, Any]:
    by_seed = {_seed(run): run for run in line.runs}
    worst = [run.worst for run in line.runs if run.worst is not None]
    mean = [run.mean for run in line.runs if run.mean is not None]
    return {
        "name": printable(line.name),
        "worst": _describe_spread(worst),
        "mean": _describe_spread(mean),
        "runs": [_describe_seed(snapshot, by_seed.get(seed)) for seed in seeds],
    }


def _describe_spread(values: Sequence[float]) -> tuple[str, str]:
    found = spread(values)
    sd = f"±{number(found.sd, 3)}" if found.n > 1 and math.isfinite(found.sd) else ""
    return number(found.mean, 3) if values else "-", sd


def _describe_seed(snapshot: Snapshot, run: Overview | None) -> dict[str, Any] | None:
    if run is None:
        return None
    return {
        "id": make_id(run.folder, snapshot.root),
        "state": run.state,
        "rounds": f"{run.rounds} of {run.planned or '?'} rounds",
        "share": round(100 * run.rounds / run.planned, 1) if run.planned else 0,
        "worst": number(math.nan if run.worst is None else run.worst, 3),
    }


def _make_content(lines: Sequence[Line]) -> dict[str, Any]:
    """The worst task of each variant: mean, lowest and highest of the seeds that got so far."""
    longest = max((len(run.history) for line in lines for run in line.runs), default=0)
    if not longest:
        return {"rounds": [], "variants": [{"mean": []} for _ in lines]}
    picked = pick_rounds(longest, 3 * len(lines))
    return {"rounds": picked.tolist(), "variants": [_summarise(line, picked) for line in lines]}


def _summarise(line: Line, picked: Any) -> dict[str, list[Any]]:
    table = np.full((len(line.runs), len(picked)), math.nan)
    for row, run in enumerate(line.runs):
        values = np.array([math.nan if v is None else v for v in run.history], np.float64)
        there = picked <= len(values)
        table[row, there] = values[picked[there] - 1]
    known = np.isfinite(table)
    count = known.sum(axis=0)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, table, 0.0).sum(axis=0) / np.where(count, count, math.nan)
    low = np.where(count, np.where(known, table, math.inf).min(axis=0), math.nan)
    high = np.where(count, np.where(known, table, -math.inf).max(axis=0), math.nan)
    return {"mean": round_off(mean), "low": round_off(low), "high": round_off(high)}
