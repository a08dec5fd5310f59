"""The tables of results, prepared for the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mmfl.report.document.numbers import as_step, find

__all__ = ["list_columns", "list_differences", "list_tasks"]

_OVERALL = (
    ("worst", "worst", "higher", "share"),
    ("mean", "mean", "higher", "share"),
    ("variance", "variance", "lower", "variance"),
    ("jain", "Jain", "higher", "share"),
)
_DECIMALS = {"share": 3, "variance": 4, "rounds": 1}


def list_columns(chapter: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The columns of the table of results: all tasks together, and rounds to the target."""
    columns = [
        {"key": key, "title": title + " ↓" * (better == "lower"), "better": better, "style": style}
        for key, title, better, style in _OVERALL
    ]
    if len(chapter["tasks"]) == 1:
        columns = [*list_tasks(chapter)]
    target = chapter["results"]["target"]
    if target is not None:
        title = f"rounds to {target:g} ↓"
        columns.append(
            {"key": "rounds_to_target", "title": title, "better": "lower", "style": "rounds"}
        )
    return [column | {"best": _find_best(chapter, column)} for column in columns]


def list_tasks(chapter: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of the table of tasks."""
    rows = []
    for task in chapter["results"]["tasks"]:
        arrow = " ↓" * (task["better"] == "lower")
        row = {
            "key": f"tasks.{as_step(task['name'])}",
            "title": f"{task['name']}{arrow}",
            "better": task["better"],
            "style": "share",
        }
        rows.append(row | {"best": _find_best(chapter, row)})
    return rows


def _find_best(chapter: Mapping[str, Any], quantity: Mapping[str, Any]) -> list[int]:
    """The variants that look best, unless all look the same.

    Those whose numbers are not what they seem (see the remarks) are out of the competition.
    """
    variants = chapter["results"]["variants"]
    sign = 1 if quantity["better"] == "higher" else -1
    ranks: list[tuple[float, float]] = []
    for variant in variants:
        found = find(variant, quantity["key"])
        known = found["n"] and found["mean"] is not None
        value = sign * round(found["mean"], _DECIMALS[quantity["style"]]) if known else 0.0
        ranks.append((found["n"] / len(variant["seeds"]), value) if known else (0.0, 0.0))
    rivals = [rank for rank, fit in zip(ranks, chapter["sound"], strict=True) if fit] or ranks
    if min(rivals) == max(rivals):
        return []
    return [
        n
        for n, (rank, fit) in enumerate(zip(ranks, chapter["sound"], strict=True))
        if fit and rank == max(rivals)
    ]


def list_differences(chapter: Mapping[str, Any], at: str) -> list[dict[str, Any]]:
    """The rows of the table of differences to the first variant."""
    results = chapter["results"]
    quantities = [*list_tasks(chapter), *_list_overall(chapter)]
    rows = []
    for number, pair in enumerate(results["differences"]):
        for place, quantity in enumerate(quantities):
            found = find(pair, quantity["key"])
            if found is None:
                continue
            interval = found["interval"]
            known = interval is not None and None not in interval
            rows.append(
                {
                    "variant": pair["variant"] if not place else "",
                    "title": quantity["title"],
                    "at": f"{at}.results.differences.{number}.{quantity['key']}",
                    "style": _sign(quantity["style"]),
                    "interval": known,
                    "sure": known and not interval[0] <= 0 <= interval[1],
                    "seeds": len(found["seeds"]),
                }
            )
    return rows


def _list_overall(chapter: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    columns = list_columns(chapter)
    return [column for column in columns if not column["key"].startswith("tasks.")]


def _sign(style: str) -> str:
    return {"share": "signed", "variance": "signed_variance", "rounds": "signed_rounds"}[style]
