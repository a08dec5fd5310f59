"""Shows auctions: tables on a terminal or in a pipe."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

from mmfl.cli.views.console import is_live, open_console
from mmfl.errors import plural
from mmfl.market import SLACK
from mmfl.report import Column, Grid, amount, amounts, counts, make_text, thin

if TYPE_CHECKING:
    from mmfl.market import Recruitment
    from mmfl.market.truthfulness import Audit, Contest

__all__ = [
    "audit_data",
    "outcome_data",
    "progress",
    "show_audit",
    "show_contest",
    "show_outcome",
]

T = TypeVar("T")

_BUDGETS = 12  # rows of a table of budgets, at most


def _count(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")


@contextmanager
def progress(what: str, steps: int | None = None) -> Iterator[Callable[[Iterable[T]], Iterable[T]]]:
    """Show the progress of something that may take long, if standard error is a terminal.

    Yields a function to wrap the steps with; without a number of steps, only a spinner is shown. It
    disappears at the end.
    """
    console = Console(stderr=True, highlight=False, markup=False)
    if not is_live(console):
        yield lambda items: items
    elif steps is None:
        with console.status(what):
            yield lambda items: items
    else:
        from rich.progress import Progress

        with Progress(console=console, transient=True) as bar:
            yield lambda items: bar.track(items, total=steps, description=what)


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
    """Show a row per task; `share`: what each task may spend, if that is fixed."""
    console = open_console()
    console.print(make_text(title), soft_wrap=True)
    console.print(_outcome_table(outcome, budget, share))
    why = {
        "exhausted": "a task has run out of willing clients",
        "budget": "budget used up",
    }
    ended = f"; stopped: {why[outcome.stop]}" if outcome.stop else ""
    fewest, more = _count(outcome.min_take_up), _count(outcome.difference)
    console.print(f"min take-up {fewest}, difference {more}{ended}", soft_wrap=True)


def _outcome_table(outcome: Recruitment, budget: float | None, share: float | None) -> Grid:
    """The tasks, and a last row for all of them."""
    tasks = range(len(outcome.bids.tasks))
    won = [len(rows) for rows in outcome.winners]
    prices = amounts(outcome.price)
    spent, left = _money(outcome, budget, share)
    parts = ["-" if part is None else f"{part.participation:.2f}" for part in outcome.fractional]
    columns = {
        "task": [*outcome.bids.tasks, "all"],
        "willing": [*(f"{willing:,}" for willing in outcome.bids.willing), ""],
        "winners": [f"{number:,}" for number in (*won, sum(won))],
        "in part": [*parts, ""],
        "price": [
            *("its bid" if outcome.price[s] is None and won[s] else prices[s] for s in tasks),
            "",
        ],
        "take-up": [*counts(outcome.take_up.tolist()), ""],
        "spent": spent,
    }
    if budget is not None:
        columns["left"] = left
    return Grid.of(list(columns), zip(*columns.values(), strict=True))


def _money(
    outcome: Recruitment, budget: float | None, share: float | None
) -> tuple[list[str], list[str]]:
    """What is spent and what is left: by task, and in total."""
    spent: list[float] = [*outcome.spend.tolist(), outcome.spent]
    limits = [*[share] * len(outcome.bids.tasks), budget]
    left = [
        None if limit is None else max(0.0, limit - used)
        for limit, used in zip(limits, spent, strict=True)
    ]
    nothing = SLACK * (outcome.spent if budget is None else budget)
    texts = amounts([*spent, *left], nothing=nothing)
    return texts[: len(spent)], texts[len(spent) :]


def show_contest(contest: Contest) -> None:
    """Show mechanisms side by side, means over seeds: by task, or by budget if there are several.

    A table shows at most about a dozen budgets; the data has all of them.
    """
    console = open_console()
    titles = [name.replace("_", "\n").replace(" ", "\n") for name in contest.mechanisms]
    if len(contest.budgets) == 1:
        head = f"budget {amount(contest.budgets[0])}"
        console.print(Grid.of([head, *titles], _by_task(contest)))
    else:
        shown = thin(contest.budgets, _BUDGETS)
        for what, quantity in (("min take-up", "min_take_up"), ("difference", "difference")):
            console.print(f"{what}, by budget")
            numbers = _by_budget(contest, shown, quantity)
            columns = [amounts(shown), *numbers]
            console.print(Grid(list(map(Column.of, ["budget", *titles], columns))))
            console.print()
    for note in _notes(contest):
        console.print(note, soft_wrap=True)


def _by_task(contest: Contest) -> list[list[str]]:
    """One budget: a row for each quantity, and for each task."""
    (budget,) = contest.budgets
    of = {name: contest.of(name, budget) for name in contest.mechanisms}
    means = [[contest.mean(name, budget, q) for name in of] for q in ("min_take_up", "difference")]
    for s in range(len(contest.tasks)):
        means.append([fmean(r.take_up[s] for r in results) for results in of.values()])
    texts = iter(counts([mean for row in means for mean in row]))
    rows = [[next(texts) for _ in of] for _ in means]
    spent = amounts([contest.mean(name, budget, "spent") for name in of], nothing=SLACK * budget)
    over = ["" if all(r.within for r in results) else "!" for results in of.values()]
    marked = [text + mark for text, mark in zip(spent, over, strict=True)]
    names = ["min take-up", "difference", *contest.tasks]
    named = [[name, *row] for name, row in zip(names, rows, strict=True)]
    return [*named[:2], ["spent", *marked], *named[2:]]


def _by_budget(contest: Contest, budgets: Sequence[float], quantity: str) -> list[list[str]]:
    """Several budgets: one quantity, a column for each mechanism."""
    means = [[contest.mean(name, b, quantity) for b in budgets] for name in contest.mechanisms]
    texts = iter(counts([mean for column in means for mean in column], decimals=1))
    columns = []
    for name in contest.mechanisms:
        over = [any(not r.within for r in contest.of(name, budget)) for budget in budgets]
        pad = " " * any(over)
        columns.append([next(texts) + ("!" if o else pad) for o in over])
    return columns


def _notes(contest: Contest) -> list[str]:
    notes = []
    if len(contest.seeds) > 1:
        notes.append(f"Means over {len(contest.seeds)} seeds.")
    if any(not r.within for r in contest.results):
        who = "value_threshold has no budget" if contest.unbudgeted else ""
        notes.append(f"!: spends more than the budget{who and f' ({who})'}.")
    if len(contest.budgets) > _BUDGETS:
        notes.append(
            f"{len(thin(contest.budgets, _BUDGETS))} of {len(contest.budgets)} budgets are "
            "shown; --out FILE writes all of them."
        )
    return notes


def audit_data(audit: Audit) -> dict[str, Any]:
    """Plain data for JSON."""
    best = audit.best
    return {
        "budget": audit.budget,
        "spent": audit.outcome.spent,
        "budget_feasible": None if audit.budget is None else audit.overspent is None,
        "overspent": audit.overspent,
        "individually_rational": audit.irrational is None,
        "irrational": audit.irrational,
        "min_take_up": audit.outcome.min_take_up,
        "max_min_optimum": audit.optimum,
        "truthful_by_theorem": audit.proved,
        "best_gain": audit.gain,
        "best_lie": None
        if best is None or best.gain <= 0
        else {
            "client": audit.outcome.bids.clients[best.user],
            "task": None if best.task is None else audit.outcome.bids.tasks[best.task],
            "bids": [bid if math.isfinite(bid) else None for bid in best.bids],
            "utility_if_truthful": best.truthful,
            "utility": best.utility,
        },
        "users_searched": audit.users,
        "auctions_tried": audit.tried,
    }


def show_audit(audit: Audit) -> None:
    """Show a line per property."""
    console = open_console()
    outcome = audit.outcome
    if audit.budget is None:
        console.print(f"within budget: there is no budget; {amount(outcome.spent)} is spent")
    else:
        spent = f"yes, {amount(outcome.spent)} of {amount(audit.budget)} is spent"
        within = spent if audit.overspent is None else f"no, {audit.overspent}"
        console.print(make_text(f"within budget: {within}"), soft_wrap=True)
    fine = "yes, no client is paid less than it bid"
    rational = fine if audit.irrational is None else f"no, {audit.irrational}"
    console.print(make_text(f"individually rational: {rational}"), soft_wrap=True)
    if audit.optimum is not None:
        console.print(
            f"min take-up: {_count(outcome.min_take_up)}; paying every client exactly its bid "
            f"would buy {plural(audit.optimum, 'client')} for every task"
        )
    console.print(make_text(f"truthful: {_truthful(audit)}"), soft_wrap=True)


def _truthful(audit: Audit) -> str:
    searched = f"{plural(audit.users, 'client')} searched, {plural(audit.tried, 'auction')} tried"
    if audit.best is None or audit.gain <= 0:
        if audit.proved:
            return f"yes, by a theorem, and no profitable lie was found ({searched})"
        return f"no profitable lie was found, which is not a proof ({searched})"
    best, table = audit.best, audit.outcome.bids
    money = partial(amount, nothing=SLACK * max(audit.budget or 0.0, audit.outcome.spent))
    who = table.clients[best.user]
    if best.task is None:
        lie = "multiplying all its bids by one factor: " + ", ".join(map(amount, best.bids))
    else:
        cost, bid = table.values[best.user, best.task], best.bids[best.task]
        false = f"{amount(bid)} instead of {amount(cost)}" if math.isfinite(bid) else "nothing"
        lie = f"bidding {false} for {table.tasks[best.task]!r}"
    return (
        f"no, best gain found {money(audit.gain)}: client {who!r} gets "
        f"{money(best.utility)} instead of {money(best.truthful)} by {lie} ({searched})"
    )
