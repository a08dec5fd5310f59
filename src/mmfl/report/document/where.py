"""Where the clients went: each task's share of the turns, and who trained what in which round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmfl.report.document.facts import RunFacts
from mmfl.report.document.image import make_png
from mmfl.report.document.series import bin_rounds
from mmfl.report.document.turns import FAILED, SEVERAL
from mmfl.report.statistics import Variant

__all__ = ["TASK_COLOURS", "describe_turns"]

TASK_COLOURS = (
    "#77AADD", "#EE8866", "#44BB99", "#D9B84C", "#BB8FCE",
    "#9BBB2E", "#F08CA4", "#7FCDE0", "#A8A8A8", "#B08A5B",
)  # fmt: skip
"""Areas of tasks, on light and on dark paper; the eleventh has the first colour again."""

SEVERAL_COLOUR, FAILED_COLOUR = "#6E6E6E", "#D0004F"
"""Of a client that trained several tasks in a round, and of one whose turn failed."""


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
    turns = [fact.turns for fact in facts.values()]
    used = [one.used for one in turns]
    return {
        "edges": edges.tolist(),
        "counts": counts.tolist(),
        "accepted": accepted.tolist(),
        "asked": np.sum([one.asked for one in turns], axis=0).tolist(),
        "share": [float(n / accepted.sum()) if accepted.sum() else None for n in accepted],
        "clients": clients,
        "used": [min(used), max(used)],
        "busiest": max(one.busiest for one in turns),
        "map": _draw_map(variant.tasks, variant.seeds[0], facts[variant.seeds[0]]),
    }


def _draw_map(tasks: Sequence[str], seed: int, facts: RunFacts) -> dict[str, Any] | None:
    """Who trained what in which round, as an image; None if nobody trained."""
    found = facts.turns.map
    if not found.cells.size:
        return None
    colours = [TASK_COLOURS[s % len(TASK_COLOURS)] for s in range(min(len(tasks), 200))]
    cells = found.cells.copy()
    cells[found.cells == SEVERAL] = len(colours) + 1
    cells[found.cells == FAILED] = len(colours) + 2
    return {
        "seed": seed,
        "clients": found.clients.tolist(),
        "others": found.others,
        "rounds": found.rounds,
        "step": found.step,
        "several": bool((found.cells == SEVERAL).any()),
        "failed": bool((found.cells == FAILED).any()),
        "colours": [*colours, SEVERAL_COLOUR, FAILED_COLOUR],
        "image": make_png(cells, [*colours, SEVERAL_COLOUR, FAILED_COLOUR]),
    }
