"""What was run: tasks, clients, rule, auction; what varies; and what it was run with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mmfl.errors import one_line, shorten
from mmfl.experiment import differences
from mmfl.report.collect import StoredRun
from mmfl.report.document.facts import RunFacts
from mmfl.runs import made_with, sessions

__all__ = [
    "count_clients",
    "describe_clients",
    "describe_environment",
    "describe_experiment",
    "describe_runs",
    "describe_value",
]

_LONGEST = 300

_PARTS = {
    "rule": "allocator",
    "aggregator": "aggregator",
    "auction": "recruitment",
    "local training": "local",
    "score": "score",
    "faults": "faults",
    "quarantine": "quarantine",
    "precision": "precision",
    "kernel": "kernel",
}
"""From what a part of an experiment is called to its key."""


def describe_value(value: Any) -> str:
    """A value of an experiment in one line: ``cnn (channels 8, 16; dense 64)``.

    >>> describe_value({"kind": "cnn", "channels": [8, 16]}), describe_value(True)
    ('cnn (channels 8, 16)', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        inner = {key: inner for key, inner in value.items() if key != "kind"}
        listed = "; ".join(f"{key} {describe_value(item)}" for key, item in inner.items())
        kind = str(value.get("kind", ""))
        return shorten(
            one_line(f"{kind} ({listed})" if kind and listed else kind or listed), _LONGEST
        )
    if isinstance(value, list):
        return shorten(one_line(", ".join(map(describe_value, value))), _LONGEST)
    if isinstance(value, float):
        return f"{value:g}"
    return shorten(one_line(value), _LONGEST)


def count_clients(settings: Mapping[str, Any]) -> int | None:
    """How many clients an experiment has, if it says so."""
    clients = settings.get("clients")
    count = clients.get("count") if isinstance(clients, Mapping) else None
    return count if isinstance(count, int) else None


def describe_experiment(runs: Mapping[str, Mapping[int, StoredRun]]) -> dict[str, Any]:
    """What was run, according to the first run of each variant."""
    firsts = {name: next(iter(by.values())).settings for name, by in runs.items()}
    first = next(iter(firsts.values()))
    varied = _find_varied(firsts)
    return {
        "tasks": [_describe_task(task) for task in _list(first.get("tasks"))],
        "clients": describe_clients(first.get("clients")),
        "rounds": sorted({run.overview.planned for by in runs.values() for run in by.values()}),
        "parts": {
            title: describe_value(first[key])
            for title, key in _PARTS.items()
            if key in first and not any(name.partition(".")[0] == key for name in varied)
        },
        "varied": varied,
    }


def describe_clients(clients: Any) -> str:
    """How many there are, how many of them are active, and whatever else is set."""
    if not isinstance(clients, Mapping):
        return describe_value(clients)
    others = {key: value for key, value in clients.items() if key not in ("count", "active")}
    active = clients.get("active", 1.0)
    share = active if isinstance(active, int | float) else None
    text = f"{clients.get('count', '?')}"
    if share is not None and share < 1:
        text += f", of which a share of {share:g} is active in each round"
    elif share is None:
        text += f", active: {describe_value(active)}"
    return f"{text}; {describe_value(others)}" if others else text


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _describe_task(task: Mapping[str, Any]) -> dict[str, str]:
    keys = ("name", "dataset", "model", "partition", "loss", "metric")
    return {key: describe_value(task.get(key, "")) for key in keys}


def _find_varied(firsts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """The keys in which variants differ: from key to each variant's value."""
    names = list(firsts)
    first = firsts[names[0]]
    found: dict[str, dict[str, str]] = {}
    for name in names[1:]:
        for key, (was, now) in differences(first, firsts[name]).items():
            if key == "seed":
                continue
            row = found.setdefault(key, dict.fromkeys(names, _describe_unset(was)))
            row[name] = _describe_unset(now)
    return found


def _describe_unset(value: Any) -> str:
    return "-" if value is None else describe_value(value)


def describe_runs(
    runs: Mapping[str, Mapping[int, StoredRun]], facts: Mapping[str, Mapping[int, RunFacts]]
) -> list[dict[str, Any]]:
    """A row for each run: where it is, how it ended, its fingerprint."""
    found = []
    for name, by_seed in runs.items():
        for seed, stored in by_seed.items():
            run = facts[name][seed].run
            merits = run.merits
            found.append(
                {
                    "variant": name,
                    "seed": seed,
                    "folder": str(stored.folder),
                    "state": run.status,
                    "reason": run.reason,
                    "rounds": run.rounds,
                    "planned": run.planned,
                    "worst": _known(min(merits)),
                    "fingerprint": run.fingerprint,
                    "inexact": run.inexact,
                    "verifiable": run.verifiable,
                    "started": stored.overview.started,
                    "seconds": run.seconds,
                    "resumed": len(sessions(facts[name][seed].environment)) - 1,
                }
            )
    return found


def _known(value: float) -> float | None:
    return value if abs(value) < float("inf") else None  # NaN is not smaller either


def describe_environment(facts: Sequence[RunFacts]) -> list[dict[str, Any]]:
    """What the runs were made with: by name, each value with how many runs had it."""
    counts: dict[str, dict[str, int]] = {}
    for one in facts:
        session = sessions(one.environment)[-1]
        known = made_with(session) | {
            key: one_line(session[key])
            for key in ("python", "system", "machine", "cores")
            if key in session
        }
        for name, value in known.items():
            by_value = counts.setdefault(name, {})
            by_value[value] = by_value.get(value, 0) + 1
    return [
        {"name": name, "values": [{"value": value, "runs": n} for value, n in by_value.items()]}
        for name, by_value in counts.items()
    ]
