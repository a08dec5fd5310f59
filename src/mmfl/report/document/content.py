"""Everything that a report says, as plain data: pages are rendered from it, and tests read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmfl import __version__
from mmfl.errors import StoreError
from mmfl.report.collect import Collection, StoredRun, collect
from mmfl.report.document.auctions import describe_auctions
from mmfl.report.document.facts import read_facts
from mmfl.report.document.series import MEASURES, pick_rounds, summarise
from mmfl.report.document.settings import (
    count_clients,
    describe_environment,
    describe_experiment,
    describe_runs,
)
from mmfl.report.document.troubles import describe_times, describe_troubles
from mmfl.report.document.verdict import write_verdict
from mmfl.report.document.where import describe_turns
from mmfl.report.remarks import remarks
from mmfl.report.statistics import WORST, Variant, compare_variants, spread
from mmfl.report.tables import data
from mmfl.runs import no_nan
from mmfl.system.files import SETTINGS, read_text

__all__ = ["Content", "gather"]

Content = dict[str, Any]
"""What a report says, as JSON has it."""

_STEP = 0.05
"""Targets are multiples of it, if nobody has chosen one."""


def gather(paths: Iterable[Path], *, target: float | None = None, title: str = "") -> Content:
    """Read runs, comparisons and folders of runs, and compute what a report says about them.

    Runs with other tasks are another chapter. Where runs are finished, others are left out.

    Args:
        paths: What to read.
        target: What the worst task's merit is to reach; by default a value that all variants
            reach, if there is one.
        title: Of the report; by default a description of what was run.
    """
    paths = list(paths)
    whole = collect(paths, also=read_facts)
    chapters = []
    left_out = dict(whole.left_out)
    for part in _split(whole):
        done = part.finished()
        used = done if done.runs else part
        left_out |= used.left_out
        chapters.append(_write_chapter(used, target))
    name = title or _make_title(paths, chapters)
    found = {
        "title": name,
        "started": sorted({run["started"] for one in chapters for run in one["runs"]} - {""}),
        "mmfl": __version__,
        "chapters": chapters,
        "left_out": [{"folder": str(folder), "why": why} for folder, why in left_out.items()],
    }
    content: Content = no_nan(found)
    for number, chapter in enumerate(content["chapters"]):
        chapter["verdict"] = write_verdict(chapter, f"chapters.{number}")
    return content


def _make_title(paths: Sequence[Path], chapters: Sequence[Content]) -> str:
    names = [one["name"] for chapter in chapters for one in chapter["results"]["variants"]]
    if len(paths) == 1:
        return f"Report on {paths[0].resolve().name}"
    return f"Report on {', '.join(names[:3])}{f' and {len(names) - 3} more' * (len(names) > 3)}"


def _split(whole: Collection) -> list[Collection]:
    """The runs by their tasks, in the order in which they were named."""
    parts: dict[Any, dict[str, Mapping[int, StoredRun]]] = {}
    for name, by_seed in whole.runs.items():
        curves = next(iter(by_seed.values())).curves
        key = (curves.tasks, curves.better, curves.kinds)
        parts.setdefault(key, {})[name] = by_seed
    return [Collection(runs, {}) for runs in parts.values()]


def _write_chapter(collection: Collection, target: float | None) -> Content:
    """All that is said about runs with the same tasks."""
    variants = collection.variants
    facts = {
        name: {seed: run.facts for seed, run in by_seed.items()}
        for name, by_seed in collection.runs.items()
    }
    settings = {n: next(iter(by.values())).settings for n, by in collection.runs.items()}
    clients = {name: count_clients(table) for name, table in settings.items()}
    goal = _choose_target(variants) if target is None else target
    first = variants[0].curves
    about = [*collection.remarks(), *remarks(variants)]
    picked = pick_rounds(
        max(run.rounds for v in variants for run in v.runs.values()),
        3 * len(variants) * (len(first.tasks) + len(MEASURES)),
    )
    return {
        "name": ", ".join(first.tasks),
        "tasks": [
            {"name": name, "metric": kind, "better": better, "target": first.targets.get(name)}
            for name, kind, better in zip(
                first.tasks, first.kinds or ("",) * len(first.tasks), first.better, strict=True
            )
        ],
        "results": data(variants, goal),
        "lead": _find_lead(variants),
        "sound": [v.name not in {r.variant for r in about if r.serious} for v in variants],
        "remarks": [{"text": remark.line, "serious": remark.serious} for remark in about],
        "experiment": describe_experiment(collection.runs),
        "curves": _summarise(variants, picked),
        "turns": [describe_turns(v, facts[v.name], clients[v.name]) for v in variants],
        "auctions": [describe_auctions(facts[v.name], clients[v.name]) for v in variants],
        "troubles": [describe_troubles(v, facts[v.name]) for v in variants],
        "times": [describe_times(v, facts[v.name], picked) for v in variants],
        "runs": describe_runs(collection.runs, facts),
        "environment": describe_environment([f for by in facts.values() for f in by.values()]),
        "config": _read_config(next(iter(next(iter(collection.runs.values())).values()))),
    }


def _summarise(variants: Sequence[Variant], picked: Any) -> Content:
    """The curves: of all tasks together, and of each task's metric."""
    tasks = [
        {
            "name": name,
            "variants": [
                summarise(variant, picked, lambda run, s=s: run.metric[:, s])  # type: ignore[misc]
                for variant in variants
            ],
        }
        for s, name in enumerate(variants[0].tasks)
    ]
    measures = {
        name: [summarise(v, picked, lambda run, f=of: f(run.merit)) for v in variants]  # type: ignore[misc]
        for name, of in MEASURES.items()
    }
    uneven = any(len({run.rounds for run in v.runs.values()}) > 1 for v in variants)
    return {"rounds": picked.tolist(), "measures": measures, "tasks": tasks, "held": uneven}


def _find_lead(variants: Sequence[Variant]) -> Content | None:
    """By how much the variant with the best worst task is ahead of the next, seed by seed."""
    means = {v.name: spread(v.values(WORST).values()).mean for v in variants}
    known = [v for v in variants if np.isfinite(means[v.name])]
    order = sorted(known, key=lambda v: -means[v.name])
    for best, other in ((order[0], other) for other in order[1:]):
        if set(other.seeds) & set(best.seeds):
            pair = compare_variants(other, best, WORST)
            return {
                "best": best.name,
                "over": other.name,
                "mean": pair.mean,
                "interval": pair.interval,
                "ahead": pair.other_better,
                "seeds": len(pair.seeds),
            }
    return None


def _choose_target(variants: Sequence[Variant]) -> float | None:
    """The highest multiple of .05 that the worst task reaches on average with every variant."""
    means = [spread(variant.values(WORST).values()).mean for variant in variants]
    if not np.isfinite(means).all():
        return None
    target = round(np.floor(min(means) / _STEP) * _STEP, 2)
    return float(target) if target > 0 else None


def _read_config(run: StoredRun) -> Content:
    """The resolved experiment of a run, as its directory has it."""
    try:
        text = read_text(run.folder / "experiment.toml", limit=SETTINGS)
    except (OSError, UnicodeError) as error:
        raise StoreError(f"cannot read {str(run.folder / 'experiment.toml')!r}: {error}") from None
    return {"folder": str(run.folder), "text": text}
