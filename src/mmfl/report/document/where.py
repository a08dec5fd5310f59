"""Where the clients went: each task's share of the turns, and who trained what in which round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmfl.report.document.facts import RunFacts
from mmfl.report.document.image import make_png
from mmfl.report.document.series import bin_rounds
from mmfl.report.statistics import Variant

__all__ = ["FAILED", "SEVERAL", "TASK_COLOURS", "describe_turns"]

TASK_COLOURS = (
    "#77AADD", "#EE8866", "#44BB99", "#D9B84C", "#BB8FCE",
    "#9BBB2E", "#F08CA4", "#7FCDE0", "#A8A8A8", "#B08A5B",
)  # fmt: skip
"""Areas of tasks, on light and on dark paper; the eleventh has the first colour again."""

SEVERAL, FAILED = "#6E6E6E", "#D0004F"
"""Of a client that trained several tasks in a round, and of one whose turn failed."""

_ROWS, _COLUMNS = 400, 1000


def describe_turns(
    variant: Variant, facts: Mapping[int, RunFacts], clients: int | None
) -> dict[str, Any]:
    """What became of a variant's turns.

    Args:
        variant: Its runs.
        facts: More about them, by seed.
        clients: How many clients there are, if that is known.
    """
    longest = max(run.rounds for run in variant.runs.values())
    edges = bin_rounds(longest)
    counts = np.zeros((len(edges) - 1, len(variant.tasks)), np.int64)
    for run in variant.runs.values():
        which = np.searchsorted(edges, np.arange(1, run.rounds + 1), side="left") - 1
        np.add.at(counts, which, run.clients)
    accepted = counts.sum(axis=0)
    asked = np.zeros(len(variant.tasks), np.int64)
    for fact in facts.values():
        asked += np.bincount(fact.turns.tasks, minlength=len(asked))
    used = [len(np.unique(fact.turns.clients)) for fact in facts.values()]
    busiest = [
        int(np.unique(f.turns.clients, return_counts=True)[1].max(initial=0))
        for f in facts.values()
    ]
    return {
        "edges": edges.tolist(),
        "counts": counts.tolist(),
        "accepted": accepted.tolist(),
        "asked": asked.tolist(),
        "share": [float(n / accepted.sum()) if accepted.sum() else None for n in accepted],
        "clients": clients,
        "used": [min(used), max(used)],
        "busiest": max(busiest),
        "map": _draw_map(variant.tasks, variant.seeds[0], facts[variant.seeds[0]]),
    }


def _draw_map(tasks: Sequence[str], seed: int, facts: RunFacts) -> dict[str, Any] | None:
    """Who trained what in which round, as an image; None if nobody trained."""
    turns = facts.turns
    ids = np.unique(turns.clients)
    if not ids.size:
        return None
    shown = ids[:_ROWS]
    rounds = facts.run.rounds
    step = -(-rounds // _COLUMNS)
    columns = np.arange(0, rounds, step)
    pixels = np.zeros((len(shown), len(columns)), np.uint8)
    seen = (turns.rounds - 1) % step == 0
    seen &= np.isin(turns.clients, shown)
    row = np.searchsorted(shown, turns.clients[seen])
    column = (turns.rounds[seen] - 1) // step
    colours = [TASK_COLOURS[s % len(TASK_COLOURS)] for s in range(len(tasks))][:200]
    pixels[row, column] = np.minimum(turns.tasks[seen], 199) + 1
    times = np.zeros(pixels.shape, np.int64)
    np.add.at(times, (row, column), 1)
    pixels[times > 1] = len(colours) + 1
    lost = ~turns.accepted[seen]
    pixels[row[lost], column[lost]] = len(colours) + 2
    return {
        "seed": seed,
        "clients": shown.tolist(),
        "others": len(ids) - len(shown),
        "rounds": rounds,
        "step": step,
        "several": bool((times > 1).any()),
        "failed": bool(lost.any()),
        "colours": [*colours, SEVERAL, FAILED],
        "image": make_png(pixels, [*colours, SEVERAL, FAILED]),
    }
