"""What went wrong in a variant's runs: failed turns, injected faults, quarantine, lost time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.errors import shorten
from mmfl.report.document.facts import RunFacts
from mmfl.report.document.series import bin_rounds, round_off
from mmfl.report.statistics import Variant, spread

__all__ = ["describe_times", "describe_troubles"]

Ints = npt.NDArray[np.int64]

_REASONS = 12
"""How many reasons a report has for each variant."""

_LONGEST = 200
"""How many characters of an example are shown."""


def describe_troubles(variant: Variant, facts: Mapping[int, RunFacts]) -> dict[str, Any]:
    """Failures and faults of a variant's runs, all seeds together."""
    counts: dict[tuple[str, str], list[Any]] = {}
    for one in facts.values():
        for task, reason, count, example in one.failures:
            entry = counts.setdefault((task, reason), [0, example])
            entry[0] += count
    ordered = sorted(counts.items(), key=lambda item: (-item[1][0], item[0]))
    reasons = [
        {"task": task, "reason": reason, "count": count, "example": shorten(example, _LONGEST)}
        for (task, reason), (count, example) in ordered[:_REASONS]
    ]
    faults: dict[str, dict[str, int]] = {}
    for one in facts.values():
        for kind, tally in one.run.faults.items():
            entry_of = faults.setdefault(
                kind, dict.fromkeys(("injected", "lost", "refused", "accepted"), 0)
            )
            for key in entry_of:
                entry_of[key] += getattr(tally, key)
    edges = bin_rounds(max(run.rounds for run in variant.runs.values()))
    rounds = np.concatenate([one.failed_rounds for one in facts.values()])
    return {
        "failed": int(sum(one.run.failed for one in facts.values())),
        "turns": int(sum(one.turns.count for one in facts.values())),
        "reasons": reasons,
        "other_reasons": len(ordered) - len(reasons),
        "faults": dict(sorted(faults.items())),
        "quarantined": max(one.quarantined for one in facts.values()),
        "edges": edges.tolist(),
        "by_round": np.histogram(rounds, [edge + 0.5 for edge in edges.tolist()])[0].tolist(),
    }


def describe_times(variant: Variant, facts: Mapping[int, RunFacts], picked: Ints) -> dict[str, Any]:
    """How long a variant's runs took: in all, and by round as the mean over seeds.

    A round that only some seeds have done is the mean of these, and one that none has done is not
    known.
    """
    table = np.full((len(facts), int(picked[-1])), np.nan)
    for row, one in enumerate(facts.values()):
        table[row, : len(one.seconds)] = one.seconds[:, 0]
    table = table[:, picked - 1]
    count = np.isfinite(table).sum(axis=0)
    by_round = np.where(count, np.nansum(table, axis=0) / np.maximum(count, 1), np.nan)
    virtual = [run.virtual for run in variant.runs.values() if run.virtual is not None]
    keys = ("seconds", "seconds_train", "seconds_evaluate", "seconds_setup", "samples")
    found: dict[str, Any] = {
        key: _over([float(getattr(one.run, key)) for one in facts.values()]) for key in keys
    }
    found["by_round"] = round_off(by_round)
    found["virtual"] = _over([float(np.sum(v)) for v in virtual]) if virtual else None
    return found


def _over(values: list[float]) -> dict[str, Any]:
    """Mean and standard deviation over the seeds."""
    found = spread(values)
    return {
        "mean": found.mean if np.isfinite(found.mean) else None,
        "sd": found.sd if np.isfinite(found.sd) else None,
        "n": found.n,
        "values": [value if np.isfinite(value) else None for value in values],
    }
