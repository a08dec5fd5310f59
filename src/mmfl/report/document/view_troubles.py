"""Auctions, failures and faults, prepared for the template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmfl.errors import plural
from mmfl.report.document.numbers import as_step

__all__ = ["list_auctions", "list_troubles", "say_no_troubles"]


_STOPS = {
    "budget": "The budget ended it.",
    "exhausted": "It ended because no willing client was left.",
}
"""Why no more clients joined."""


def _number(path: str, style: str) -> dict[str, str]:
    return {"at": path, "style": style}


def list_auctions(chapter: Mapping[str, Any], at: str) -> list[dict[str, Any]]:
    """The auction of each variant that had one."""
    found = []
    variants = chapter["results"]["variants"]
    most = max(
        (
            task["take_up"]["mean"] or 0.0
            for auction in chapter["auctions"]
            if auction
            for task in auction["tasks"].values()
        ),
        default=0.0,
    )
    for v, auction in enumerate(chapter["auctions"]):
        if auction is None or auction in chapter["auctions"][:v]:
            continue
        alike = [n for n, other in enumerate(chapter["auctions"]) if other == auction]
        whose = ", ".join(variants[n]["name"] for n in alike)
        whose = "all variants" if 1 < len(alike) == len(variants) else whose
        where = f"{at}.auctions.{v}"
        found.append(
            {
                "title": f"{whose}: {auction['mechanism']}",
                "summary": _summarise(auction, where),
                "seeds": len(auction["seeds"]),
                "rows": [
                    {
                        "name": name,
                        "task": s,
                        "at": f"{where}.tasks.{as_step(name)}",
                        "width": round(100 * (task["take_up"]["mean"] or 0.0) / (most or 1.0), 1),
                    }
                    for s, (name, task) in enumerate(auction["tasks"].items())
                ],
                "note": _describe_left_out(auction),
            }
        )
    return found


def _summarise(auction: Mapping[str, Any], at: str) -> list[Any]:
    """Who was willing, who was left out, what it cost."""
    sentence: list[Any] = []
    sentence += [_number(f"{at}.willing.mean", "count"), " of "]
    sentence += [_number(f"{at}.bidders", "count"), " clients were willing to train, and "]
    sentence += [_number(f"{at}.left_out.mean", "count"), " of these were left out. "]
    sentence += [_number(f"{at}.spent.mean", "money")]
    if auction["budget"] is not None:
        sentence += [" of a budget of ", _number(f"{at}.budget", "money")]
    sentence += [" is committed"]
    if auction["paid"]["mean"] is not None:
        sentence += [", and ", _number(f"{at}.paid.mean", "money"), " was paid"]
    sentence += ["; the smallest take-up is ", _number(f"{at}.min_take_up.mean", "count")]
    many = len(auction["seeds"])
    stops = "".join(f" {_STOPS.get(stop, stop)}" for stop in auction["stops"])
    return [
        *sentence,
        f" (means over {many} seeds)." if many > 1 else ".",
        *([stops] * bool(stops)),
    ]


def _describe_left_out(auction: Mapping[str, Any]) -> str:
    note = "Take-up counts fractional winners by their fraction. A price is what each winner gets."
    left = auction["left_out_first"]
    if left["clients"]:
        listed = ", ".join(map(str, left["clients"]))
        more = left["count"] - len(left["clients"])
        also = f" and {more} more" if more > 0 else ""
        note += f" Left out with seed {left['seed']}: clients {listed}{also}."
    return note


def list_troubles(chapter: Mapping[str, Any], at: str) -> list[dict[str, Any]]:
    """What went wrong, for each variant in which something did."""
    found = []
    for v, trouble in enumerate(chapter["troubles"]):
        if not (trouble["failed"] or trouble["faults"] or trouble["quarantined"]):
            continue
        where = f"{at}.troubles.{v}"
        summary: list[Any] = [
            _number(f"{where}.failed", "count"), " of ", _number(f"{where}.turns", "count"),
            " turns failed.",
        ]  # fmt: skip
        if trouble["quarantined"]:
            summary += [" The most clients in quarantine after a round: "]
            summary += [_number(f"{where}.quarantined", "count"), "."]
        if trouble["other_reasons"]:
            summary += [f" Not shown: {plural(trouble['other_reasons'], 'rarer reason')}."]
        found.append(
            {
                "title": chapter["results"]["variants"][v]["name"],
                "at": where,
                "summary": summary,
                "reasons": trouble["reasons"],
                "faults": [{"kind": kind, "step": as_step(kind)} for kind in trouble["faults"]],
            }
        )
    return found


def say_no_troubles(chapter: Mapping[str, Any], at: str) -> list[Any]:
    """What is said if nothing went wrong."""
    if len(chapter["troubles"]) == 1:
        count = _number(f"{at}.troubles.0.turns", "count")
        return ["None of the ", count, " turns failed, and no fault was injected."]
    return ["No turn failed, and no fault was injected."]
