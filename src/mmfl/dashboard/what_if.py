"""What another alpha would do: the allocation for the difficulties that a run has now."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmfl.allocate import FedFair
from mmfl.dashboard.history import History
from mmfl.dashboard.library import Snapshot
from mmfl.errors import InputError, StoreError, printable
from mmfl.experiment import read_table
from mmfl.report import number
from mmfl.runs import Overview

__all__ = ["HIGHEST", "allocate", "list_choices", "read_alpha", "read_rule"]

HIGHEST = 10.0
"""The slider's end."""

_LARGEST = 100.0


def list_choices(snapshot: Snapshot) -> list[Overview]:
    """The runs with something to divide, the newest first."""
    runs = [run for run in snapshot.runs.values() if run.rounds and len(run.tasks or ()) > 1]
    return sorted(runs, key=lambda run: -run.changed)


def read_alpha(text: str, otherwise: float) -> float:
    """An alpha that a person typed; another one if it makes no sense."""
    try:
        alpha = float(text) if len(text) < 40 else math.nan
    except ValueError:
        alpha = math.nan
    return alpha if 1 <= alpha <= _LARGEST else otherwise


def read_rule(folder: Path) -> dict[str, Any]:
    """The rule of a run: its kind, its alpha (None without one), and the tasks' weights."""
    try:
        table = read_table(folder / "experiment.toml")
    except (StoreError, OSError):
        table = {}
    given = table.get("allocator", {})
    rule: Mapping[str, Any] = given if isinstance(given, Mapping) else {"kind": given}
    tasks = table.get("tasks")
    listed = (
        [task for task in tasks if isinstance(task, Mapping)] if isinstance(tasks, list) else []
    )
    kind = str(rule.get("kind", "fed_fair"))
    alpha = rule.get("alpha", FedFair().alpha if kind == "fed_fair" else None)
    recruitment = table.get("recruitment")
    auction = recruitment.get("mechanism") if isinstance(recruitment, Mapping) else None
    budget = auction.get("budget") if isinstance(auction, Mapping) else None
    return {
        "kind": printable(kind),
        "alpha": float(alpha) if isinstance(alpha, int | float) else None,
        "weights": {str(task.get("name")): task.get("weight", 1.0) for task in listed},
        "budget": float(budget) if isinstance(budget, int | float) else None,
    }


def allocate(history: History, weights: Mapping[str, Any], alpha: float) -> list[dict[str, Any]]:
    """Each task's difficulty, and the chance that a client gets it in the next round."""
    hard = [value for value in history.difficulty if value is not None]
    if not hard or len(hard) < len(history.tasks):
        raise InputError("the difficulty of a task is not known yet")
    given = [weights.get(name, 1.0) for name in history.tasks]
    plain = [float(one) if isinstance(one, int | float) and one > 0 else 1.0 for one in given]
    shares = FedFair(alpha=alpha).probabilities(hard, plain)
    return [
        {
            "name": name,
            "difficulty": number(hard[s], 3),
            "share": round(100 * float(shares[s]), 2),
            "percent": f"{float(shares[s]):.0%}",
        }
        for s, name in enumerate(history.tasks)
    ]
