"""What a person sees of auctions: tables on a terminal or in a pipe."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from mmfl.market import Recruitment
    from mmfl.market.lab.audit import Audit
    from mmfl.market.lab.contest import Contest

__all__ = ["audit_data", "outcome_data", "show_audit", "show_contest", "show_outcome"]


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)


def _table(titles: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(titles[0])
    for title in titles[1:]:
        table.add_column(title, justify="right")
    return table


def _amount(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _count(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def outcome_data(outcome: Recruitment, budget: float | None) -> dict[str, Any]:
    """Plain data for JSON."""
    names = outcome.bids.clients
    tasks = {}
    for s, task in enumerate(outcome.bids.tasks):
        part = outcome.fractional[s]
        tasks[task] = {
            "winners": [names[row] for row in outcome.winners[s].tolist()],
            "price": outcome.price[s],
            "fractional": None
            if part is None
            else {
                "client": names[part.user],
                "participation": part.participation,
                "payment": part.payment,
            },
            "take_up": float(outcome.take_up[s]),
            "spend": float(outcome.spend[s]),
        }
    return {
        "budget": budget,
        "tasks": tasks,
        "min_take_up": outcome.min_take_up,
        "difference": outcome.difference,
        "spent": outcome.spent,
        "leftover": None if budget is None else max(0.0, budget - outcome.spent),
        "stop": outcome.stop,
    }


def show_outcome(
    outcome: Recruitment, title: str, budget: float | None, share: float | None
) -> None:
    """A row per task; `share`: what each task may spend, if that is fixed."""
    console = _console()
    console.print(title)
    table = _table(["task", "willing", "winners", "fraction", "price", "take-up", "spend", "left"])
    for s, task in enumerate(outcome.bids.tasks):
        part = outcome.fractional[s]
        spend = float(outcome.spend[s])
        table.add_row(
            task,
            f"{outcome.bids.willing[s]:,}",
            f"{len(outcome.winners[s]):,}",
            "-" if part is None else _amount(part.participation),
            "its bid"
            if outcome.price[s] is None and len(outcome.winners[s])
            else _amount(outcome.price[s]),
            _count(outcome.take_up[s]),
            _amount(spend),
            "-" if share is None else _amount(max(0.0, share - spend)),
        )
    left = None if budget is None else max(0.0, budget - outcome.spent)
    won = sum(len(rows) for rows in outcome.winners)
    table.add_row("all", "", f"{won:,}", "", "", "", _amount(outcome.spent), _amount(left))
    console.print(table)
    why = {"exhausted": "a task has no further willing client", "budget": "the money is spent"}
    ended = f"; it ended because {why[outcome.stop]}" if outcome.stop else ""
    console.print(
        f"min take-up {_count(outcome.min_take_up)}, difference {_count(outcome.difference)}{ended}"
    )


def show_contest(found: Contest) -> None:
    """For each budget a row per mechanism: means over seeds."""
    console = _console()
    seeds = sorted({r.seed for r in found.results if r.seed is not None})
    table = _table(["budget", "mechanism", "min take-up", "difference", "spent", *found.tasks])
    table.columns[1].justify = "left"
    for budget in found.budgets:
        for place, name in enumerate(found.mechanisms):
            results = found.of(name, budget)
            n = len(results)
            per_task = [sum(r.take_up[s] for r in results) / n for s in range(len(found.tasks))]
            over = "" if all(r.within for r in results) else "!"
            table.add_row(
                "" if place else f"{budget:g}",
                name,
                _count(found.mean(name, budget, "min_take_up")),
                _count(found.mean(name, budget, "difference")),
                _amount(found.mean(name, budget, "spent")) + over,
                *map(_count, per_task),
            )
    console.print(table)
    notes = ["The last columns are the clients that each task recruits."]
    if len(seeds) > 1:
        notes.append(f"Means over {len(seeds)} seeds.")
    if any(not r.within for r in found.results):
        notes.append("!: spends more than the budget.")
    console.print(" ".join(notes))


def audit_data(found: Audit) -> dict[str, Any]:
    """Plain data for JSON."""
    best = found.best
    return {
        "budget_feasible": found.overspent is None,
        "overspent": found.overspent,
        "individually_rational": found.irrational is None,
        "irrational": found.irrational,
        "min_take_up": found.outcome.min_take_up,
        "max_min_optimum": found.optimum,
        "truthful_by_theorem": found.proved,
        "best_gain": found.gain,
        "best_lie": None
        if best is None or best.gain <= 0
        else {
            "client": found.outcome.bids.clients[best.user],
            "task": None if best.task is None else found.outcome.bids.tasks[best.task],
            "bids": [bid if math.isfinite(bid) else None for bid in best.bids],
            "utility_if_truthful": best.truthful,
            "utility": best.utility,
        },
        "users_searched": found.users,
        "auctions_tried": found.tried,
    }


def show_audit(found: Audit) -> None:
    """A line per property."""
    console = _console()
    outcome = found.outcome
    if found.budget is None:
        console.print(f"within budget: it has none; {_amount(outcome.spent)} is spent")
    else:
        spent = f"yes, {_amount(outcome.spent)} of {found.budget:g} is spent"
        console.print(f"within budget: {(found.overspent and f'no, {found.overspent}') or spent}")
    fine = "yes, nobody is paid less than its bid for what it does"
    said = fine if found.irrational is None else f"no, {found.irrational}"
    console.print(f"individually rational: {said}", soft_wrap=True)
    if found.optimum is not None:
        console.print(
            f"min take-up: {_count(outcome.min_take_up)}; if everybody were paid its bid, "
            f"{found.optimum:,} for every task could be had"
        )
    console.print(f"truthful: {_truthful(found)}", soft_wrap=True)


def _truthful(found: Audit) -> str:
    searched = f"{found.users:,} clients searched, {found.tried:,} auctions tried"
    if found.best is None or found.gain <= 0:
        if found.proved:
            return f"yes, by a theorem, and no lie was found that pays ({searched})"
        return f"no lie was found that pays, which proves nothing ({searched})"
    best, table = found.best, found.outcome.bids
    who = table.clients[best.user]
    if best.task is None:
        lie = "multiplying all its bids by one factor: " + ", ".join(map(_amount, best.bids))
    else:
        cost, bid = table.values[best.user, best.task], best.bids[best.task]
        said = f"{_amount(bid)} instead of {_amount(cost)}" if math.isfinite(bid) else "nothing"
        lie = f"bidding {said} for {table.tasks[best.task]!r}"
    return (
        f"no, best gain found {_amount(found.gain)}: client {who!r} gets "
        f"{_amount(best.utility)} instead of {_amount(best.truthful)} by {lie} ({searched})"
    )
