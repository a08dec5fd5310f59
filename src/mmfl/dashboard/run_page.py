"""The page of one run, live while it goes on: numbers, curves, clients, failures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mmfl.dashboard.history import History, read_history
from mmfl.errors import MmflError, StoreError, plural, printable
from mmfl.experiment import read_table
from mmfl.fairness import variance
from mmfl.report import number
from mmfl.report.document import (
    bin_rounds,
    describe_clients,
    describe_value,
    draw_lines,
    draw_shares,
    pick_rounds,
    round_off,
    show,
)
from mmfl.runs import Overview, place_of

__all__ = ["describe_acts", "describe_now", "describe_settings", "make_chart"]


def describe_acts(overview: Overview) -> dict[str, bool]:
    """What can be done with a run now."""
    alone = place_of(overview.folder) is None
    return {
        "stop": alone and overview.state == "running",
        "resume": overview.state in ("stopped", "interrupted", "failed"),
        "again": overview.state != "damaged",
    }


def make_content(history: History) -> dict[str, Any]:
    """The curves, as the charts' script reads them."""
    S = len(history.tasks)
    picked = pick_rounds(history.rounds, S + 2) if history.rounds else np.zeros(0, np.int64)
    rows = picked - 1
    merit = history.merit
    metric = np.array(history.metric, np.float64).reshape(history.rounds, S)
    if not history.rounds:
        return {"rounds": [], "tasks": [[] for _ in range(S)], "worst": [], "mean": []}
    return {
        "rounds": picked.tolist(),
        "tasks": [round_off(metric[rows, s]) for s in range(S)],
        "worst": round_off(merit[rows].min(axis=1)),
        "mean": round_off(merit[rows].mean(axis=1)),
    }


def make_chart(
    content: Mapping[str, Any],
    title: str,
    note: str,
    lines: Mapping[str, str],
    *,
    wide: bool = False,
) -> dict[str, Any]:
    """A chart as the report's templates take it.

    Args:
        content: What the script reads.
        title: Of the chart.
        note: Behind the title.
        lines: From name to where the line is in the content, such as ``tasks.0``.
        wide: Whether it takes a row of the page.
    """
    rounds = content["rounds"]
    values = [_find(content, path) for path in lines.values()]
    drawn = [one if isinstance(one, Mapping) else {"mean": one} for one in values]
    picture = draw_lines(rounds or [0], drawn if rounds else [], title, wide=wide)
    return {
        "title": title,
        "note": note,
        "names": list(lines),
        "lines": list(lines.values()),
        "rounds": "rounds",
        "style": "share",
        "crowded": False,
        "svg": picture,
    }


def _find(content: Any, path: str) -> Any:
    for step in path.split("."):
        content = content[step] if isinstance(content, Mapping) else content[int(step)]
    return content


_CLIENTS = 60
"""How many clients are listed at most."""


def describe_now(
    root: Path, overview: Overview, history: History
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a run's page shows, and its curves, after reading what is new.

    Args:
        root: The listed folder: runs outside it are not read.
        overview: The run at a glance.
        history: What was read of it before.
    """
    try:
        if overview.state not in ("damaged", "locked"):
            read_history(root, history)
        return describe_run(overview, history), make_content(history)
    except MmflError as error:
        damage = str(error)
    except Exception as error:  # a foreign run must not end a page, or the streams of all others
        damage = f"it cannot be read: {type(error).__name__}"
    history.forget()
    overview = replace(overview, state="damaged", damage=damage)
    return describe_run(overview, history), make_content(history)


def describe_run(overview: Overview, history: History) -> dict[str, Any]:
    """Everything on the page that changes while the run goes on."""
    merit = history.merit
    last = merit[-1] if history.rounds else np.full(len(history.tasks), math.nan)
    planned = overview.planned
    return {
        "state": overview.state,
        "damage": overview.damage,
        "reason": history.reason,
        "rounds": history.rounds,
        "planned": planned,
        "share": round(100 * history.rounds / planned, 1) if planned else 0,
        "time": _describe_time(overview, history),
        "tiles": _list_tiles(history, last),
        "tasks": _list_tasks(history, last),
        "shares": _draw_shares(history),
        "clients": _list_clients(history),
        "more_clients": max(len(history.by_client) - _CLIENTS, 0),
        "failed": sum(history.failures),
        "reasons": sorted(
            ((reason, count, example) for reason, (count, example) in history.reasons.items()),
            key=lambda row: -row[1],
        ),
        "fingerprint": overview.fingerprint,
    }


def _describe_time(overview: Overview, history: History) -> str:
    spent = sum(history.seconds)
    if not history.rounds:
        return ""
    text = f"{show(spent, 'seconds')} in rounds"
    left = overview.planned - history.rounds
    if overview.state == "running" and left > 0:
        recent = history.seconds[-20:]
        text += f", about {show(left * sum(recent) / len(recent), 'seconds')} left"
    return text


def _list_tiles(history: History, last: Any) -> list[dict[str, str]]:
    """The numbers at the top."""
    if not history.tasks:
        return []
    known = bool(history.rounds) and bool(np.isfinite(last).all())
    worst = history.tasks[int(np.argmin(last))] if known else ""
    tiles = [
        {"title": "Worst task", "value": number(float(last.min()), 3), "note": worst},
        {"title": "Mean over tasks", "value": number(float(last.mean()), 3), "note": ""},
    ]
    if len(history.tasks) == 1:
        kind = history.kinds[0].replace("_", " ")
        return [{"title": kind.capitalize(), "value": tiles[0]["value"], "note": worst}]
    spread = show(variance(last.tolist()) if known else None, "variance")
    return [*tiles, {"title": "Variance over tasks", "value": spread, "note": "0 if all are equal"}]


def _list_tasks(history: History, last: Any) -> list[dict[str, Any]]:
    """A row for each task: how good it is, and who trains it."""
    turns = np.array(history.clients, np.int64).sum(axis=0) if history.rounds else None
    rows = []
    for s, name in enumerate(history.tasks):
        count, first = history.turns.get(name, (0, []))
        metric = history.metric[-1][s] if history.rounds else None
        hard = history.difficulty[s] if history.difficulty else None
        listed = ", ".join(first)
        rows.append(
            {
                "name": name,
                "metric": show(metric, "share"),
                "kind": history.kinds[s].replace("_", " "),
                "low": history.better[s] == "lower",
                "difficulty": show(hard, "share"),
                "turns": f"{int(turns[s]):,}" if turns is not None else "0",
                "now": count,
                "clients": listed + f" and {count - len(first)} more" * (count > len(first)),
                "worst": len(history.tasks) > 1
                and bool(np.isfinite(last).all())
                and int(np.argmin(last)) == s,
            }
        )
    return rows


def _list_clients(history: History) -> list[dict[str, Any]]:
    """The clients that had a turn in the last round, then those with the most turns."""
    records = history.by_client.items()
    ranks = sorted(records, key=lambda one: (-one[1].last, -sum(one[1].turns.values()), one[0]))
    return [
        {
            "name": printable(history.name(client)),
            "turns": [f"{record.turns.get(name, 0):,}" for name in history.tasks],
            "failed": f"{record.failed:,}",
            "last": f"{record.last:,}" if record.last else "-",
            "now": record.last == history.rounds,
        }
        for client, record in ranks[:_CLIENTS]
    ]


def _draw_shares(history: History) -> dict[str, str] | None:
    """Each task's share of the turns, over the rounds."""
    table = np.array(history.clients, np.int64).reshape(history.rounds, len(history.tasks))
    if not table.sum():
        return None
    edges = bin_rounds(history.rounds)
    which = np.searchsorted(edges, np.arange(1, history.rounds + 1), side="left") - 1
    counts = np.zeros((len(edges) - 1, table.shape[1]), np.int64)
    np.add.at(counts, which, table)
    width = int(edges[1])
    note = f"in steps of {plural(width, 'round')}" if width > 1 else "round by round"
    title = "Where the clients went"
    svg = draw_shares(edges.tolist(), counts.tolist(), history.tasks, title)
    return {"title": title, "note": note, "svg": svg}


_PARTS = {
    "allocator": "rule",
    "clients": "clients",
    "local": "local training",
    "aggregator": "aggregator",
    "score": "difficulty",
    "recruitment": "auction",
    "faults": "faults",
    "engine": "engine",
    "seed": "seed",
}


def describe_settings(folder: Path) -> dict[str, Any]:
    """What the run was started with: a line for each part, and the tasks."""
    try:
        table = read_table(folder / "experiment.toml")
    except (StoreError, OSError):
        return {"parts": [], "tasks": [], "federation": False}
    tasks = table.get("tasks")
    listed: Sequence[Any] = tasks if isinstance(tasks, list) else []
    keys = ("name", "dataset", "model", "partition")
    engine = table.get("engine")
    kind = engine.get("kind") if isinstance(engine, Mapping) else engine
    return {
        "federation": kind == "flower",
        "parts": [
            (
                title,
                describe_clients(table[key]) if key == "clients" else describe_value(table[key]),
            )
            for key, title in _PARTS.items()
            if key in table
        ],
        "tasks": [
            {key: describe_value(task.get(key, "")) for key in keys}
            for task in listed
            if isinstance(task, Mapping)
        ],
    }
