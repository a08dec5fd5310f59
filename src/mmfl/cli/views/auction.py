"""What a person sees of auctions: tables on a terminal or in a pipe."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console

from mmfl.market import SLACK
from mmfl.report import amount, amounts, counts, thinned

if TYPE_CHECKING:
    from mmfl.market import Recruitment
    from mmfl.market.truthfulness import Audit, Contest

__all__ = [
    "audit_data",
    "outcome_data",
    "progress",
    "show_audit",
    "show_columns",
    "show_contest",
    "show_outcome",
    "terminal",
]

T = TypeVar("T")


_BUDGETS = 12  # rows of a table of budgets, at most


def terminal() -> Console:
    """Standard output; where it is no terminal, wide enough for every table."""
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)


def show_columns(
    console: Console, titles: Sequence[str], rows: Sequence[Sequence[str]], *, names: bool = True
) -> None:
    """A table: a column of names (cut if there is no room) or numbers, and columns of numbers.

    Numbers are never cut; columns that do not fit beside each other come below.
    """
    cells = [[*column] for column in zip(*rows, strict=True)]
    heads = [title.split("\n") for title in titles]
    widths = [max(map(cell_len, (*h, *c))) for h, c in zip(heads, cells, strict=True)]
    room = console.width - 1
    widths[0] = min(widths[0], max(room - sum(w + 2 for w in widths[1:]), 12))
    place = 1
    while place < len(widths):
        end = place + 1
        while end < len(widths) and widths[0] + sum(w + 2 for w in widths[place : end + 1]) <= room:
            end += 1
        shown = [0, *range(place, end)]
        tall = max(len(heads[at]) for at in shown)
        top = [[*[""] * (tall - len(head)), *head] for head in heads]
        lines = [[top[at][level] for at in shown] for level in range(tall)]
        lines += [[row[at] for at in shown] for row in rows]
        for number, line in enumerate(lines):
            first = line[0] if cell_len(line[0]) <= widths[0] else _cut(line[0], widths[0])
            pad = " " * (widths[0] - cell_len(first))
            numbers = "".join(
                text.rjust(widths[at] + 2) for text, at in zip(line[1:], shown[1:], strict=True)
            )
            text = (first + pad if names else pad + first) + numbers
            console.print(text.rstrip(), style="bold" if number < tall else None, soft_wrap=True)
        place = end
        if place < len(widths):
            console.print()


def _cut(text: str, width: int) -> str:
    """Without its middle, since names often differ at their ends."""
    end = text[-(width // 3) :]
    return f"{set_cell_size(text, width - 1 - cell_len(end))}…{end}"


def _count(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")


@contextmanager
def progress(what: str, steps: int | None = None) -> Iterator[Callable[[Iterable[T]], Iterable[T]]]:
    """Show on standard error, if that is a terminal, how far something is that may take long.

    Yields a function to wrap the steps with; without a number of steps only a sign of life is
    shown. Nothing of it is left when it is over.
    """
    console = Console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:
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
    """A row per task; `share`: what each task may spend, if that is fixed."""
    console = terminal()
    console.print(title, soft_wrap=True)
    tasks = range(len(outcome.bids.tasks))
    spend = [*outcome.spend.tolist(), outcome.spent]
    nothing = SLACK * (outcome.spent if budget is None else budget)
    rest: list[float | None] = [None if share is None else share - spend[s] for s in tasks]
    rest.append(None if budget is None else budget - outcome.spent)
    kept = [None if r is None else max(0.0, r) for r in rest]
    money = amounts([*spend, *kept], nothing=nothing)
    spent, left = money[: len(spend)], money[len(spend) :]
    prices = amounts(outcome.price)
    take_up = counts(outcome.take_up.tolist())
    titles = ["task", "willing", "winners", "in part", "price", "take-up", "spent"]
    table = []
    for s in tasks:
        part = outcome.fractional[s]
        won = len(outcome.winners[s])
        table.append(
            [
                outcome.bids.tasks[s],
                f"{outcome.bids.willing[s]:,}",
                f"{won:,}",
                "-" if part is None else f"{part.participation:.2f}",
                "its bid" if outcome.price[s] is None and won else prices[s],
                take_up[s],
                spent[s],
                left[s],
            ]
        )
    won = sum(len(rows) for rows in outcome.winners)
    table.append(["all", "", f"{won:,}", "", "", "", spent[-1], left[-1]])
    if budget is None:
        show_columns(console, titles, [row[:-1] for row in table])
    else:
        show_columns(console, [*titles, "left"], table)
    why = {
        "exhausted": "a task has no further willing client",
        "budget": "the money does not suffice for more",
    }
    ended = f"; it ended because {why[outcome.stop]}" if outcome.stop else ""
    fewest, more = _count(outcome.min_take_up), _count(outcome.difference)
    console.print(f"min take-up {fewest}, difference {more}{ended}", soft_wrap=True)


def show_contest(found: Contest) -> None:
    """Mechanisms side by side, means over seeds: by task, or by budget if there are several.

    There are no more than about a dozen budgets in a table; who wants all takes the data.
    """
    console = terminal()
    titles = [name.replace("_", "\n").replace(" ", "\n") for name in found.mechanisms]
    if len(found.budgets) == 1:
        show_columns(console, [f"budget {amount(found.budgets[0])}", *titles], _by_task(found))
    else:
        shown = thinned(found.budgets, _BUDGETS)
        for what, quantity in (("min take-up", "min_take_up"), ("difference", "difference")):
            console.print(f"{what}, by budget")
            show_columns(
                console, ["budget", *titles], _by_budget(found, shown, quantity), names=False
            )
            console.print()
    for note in _notes(found):
        console.print(note, soft_wrap=True)


def _by_task(found: Contest) -> list[list[str]]:
    """One budget: a row for each quantity, and for each task."""
    (budget,) = found.budgets
    of = {name: found.of(name, budget) for name in found.mechanisms}
    means = [[found.mean(name, budget, q) for name in of] for q in ("min_take_up", "difference")]
    for s in range(len(found.tasks)):
        means.append([fmean(r.take_up[s] for r in results) for results in of.values()])
    texts = iter(counts([mean for row in means for mean in row]))
    rows = [[next(texts) for _ in of] for _ in means]
    spent = amounts([found.mean(name, budget, "spent") for name in of], nothing=SLACK * budget)
    over = ["" if all(r.within for r in results) else "!" for results in of.values()]
    marked = [text + mark for text, mark in zip(spent, over, strict=True)]
    names = ["min take-up", "difference", *found.tasks]
    named = [[name, *row] for name, row in zip(names, rows, strict=True)]
    return [*named[:2], ["spent", *marked], *named[2:]]


def _by_budget(found: Contest, budgets: Sequence[float], quantity: str) -> list[list[str]]:
    """Several budgets: a row for each, one quantity."""
    means = [[found.mean(name, b, quantity) for b in budgets] for name in found.mechanisms]
    texts = iter(counts([mean for column in means for mean in column], decimals=1))
    columns = []
    for name in found.mechanisms:
        over = [any(not r.within for r in found.of(name, budget)) for budget in budgets]
        pad = " " * any(over)
        columns.append([next(texts) + ("!" if o else pad) for o in over])
    rows = zip(amounts(budgets), *columns, strict=True)
    return [list(row) for row in rows]


def _notes(found: Contest) -> list[str]:
    notes = []
    if len(found.seeds) > 1:
        notes.append(f"Means over {len(found.seeds)} seeds.")
    if any(not r.within for r in found.results):
        who = "value_threshold has no budget" if found.unbudgeted else ""
        notes.append(f"!: spends more than the budget{who and f' ({who})'}.")
    if len(found.budgets) > _BUDGETS:
        notes.append(
            f"{len(thinned(found.budgets, _BUDGETS))} of {len(found.budgets)} budgets are shown; "
            "--out FILE writes all of them."
        )
    return notes


def audit_data(found: Audit) -> dict[str, Any]:
    """Plain data for JSON."""
    best = found.best
    return {
        "budget": found.budget,
        "spent": found.outcome.spent,
        "budget_feasible": None if found.budget is None else found.overspent is None,
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
    console = terminal()
    outcome = found.outcome
    if found.budget is None:
        console.print(f"within budget: it has none; {amount(outcome.spent)} is spent")
    else:
        spent = f"yes, {amount(outcome.spent)} of {amount(found.budget)} is spent"
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
    clients = "1 client" if found.users == 1 else f"{found.users:,} clients"
    searched = f"{clients} searched, {found.tried:,} auctions tried"
    if found.best is None or found.gain <= 0:
        if found.proved:
            return f"yes, by a theorem, and no lie was found that pays ({searched})"
        return f"no lie was found that pays, which proves nothing ({searched})"
    best, table = found.best, found.outcome.bids
    money = partial(amount, nothing=SLACK * max(found.budget or 0.0, found.outcome.spent))
    who = table.clients[best.user]
    if best.task is None:
        lie = "multiplying all its bids by one factor: " + ", ".join(map(amount, best.bids))
    else:
        cost, bid = table.values[best.user, best.task], best.bids[best.task]
        said = f"{amount(bid)} instead of {amount(cost)}" if math.isfinite(bid) else "nothing"
        lie = f"bidding {said} for {table.tasks[best.task]!r}"
    return (
        f"no, best gain found {money(found.gain)}: client {who!r} gets "
        f"{money(best.utility)} instead of {money(best.truthful)} by {lie} ({searched})"
    )
