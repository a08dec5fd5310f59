"""The auction of a run: who asked for how much, who won, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.errors import plural
from mmfl.report.document import make_ticks, show
from mmfl.runs import RunStore, StoredRecruitment, read_bids, read_records, read_recruitment

__all__ = ["describe_auction", "draw_supply"]

_ROWS = 200
"""How many clients are listed at most."""

_BARS = 160
"""How many bids are drawn at most."""

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 480, 220, 46, 26, 10

_STOPS = {
    "budget": "The budget ended it.",
    "exhausted": "It ended because no willing client was left.",
}


def describe_auction(folder: Path) -> dict[str, Any] | None:
    """What the page shows; None if the run had no auction."""
    with closing(RunStore.open(folder)) as store:
        auction = read_recruitment(store)
        if auction is None:
            return None
        bids = read_bids(store)
        awards = list(read_records(store, "awards"))
        names = {row.client: row.name for row in read_records(store, "clients")}
    won: dict[str, dict[int, Any]] = {name: {} for name in auction.tasks}
    for award in awards:
        won[award.task][award.client] = award
    table = np.stack([bids[name] for name in auction.tasks], axis=1) if bids else np.zeros((0, 1))
    willing = np.asarray(np.isfinite(table).any(axis=1))
    winners = {award.client for award in awards}
    return {
        "mechanism": auction.mechanism,
        "tiles": _list_tiles(auction, willing, winners),
        "stop": _STOPS.get(auction.stop or "", ""),
        "tasks": _list_tasks(auction, won),
        "pictures": [
            {"title": name, "svg": draw_supply(s, bids[name], sorted(won[name]), task.price, name)}
            for s, (name, task) in enumerate(auction.tasks.items())
            if name in bids
        ],
        "clients": _list_clients(table, won, names),
        "more": max(int(willing.sum()) - _ROWS, 0),
        "names": list(auction.tasks),
    }


def _list_tiles(
    auction: StoredRecruitment, willing: npt.NDArray[np.bool_], winners: set[int]
) -> list[dict[str, str]]:
    budget = auction.budget
    spent = show(auction.spent, "money")
    return [
        {
            "title": "Promised",
            "value": spent,
            "note": f"of a budget of {show(budget, 'money')}" if budget is not None else "",
        },
        {
            "title": "Recruited",
            "value": f"{len(winners):,}",
            "note": f"of {plural(int(willing.sum()), 'willing client')}",
        },
        {
            "title": "Fewest for a task",
            "value": show(auction.min_take_up, "count"),
            "note": "clients, fractions included",
        },
    ]


def _list_tasks(auction: StoredRecruitment, won: dict[str, dict[int, Any]]) -> list[dict[str, Any]]:
    most = max((task.take_up for task in auction.tasks.values()), default=0.0) or 1.0
    return [
        {
            "name": name,
            "willing": f"{task.willing:,}",
            "winners": f"{task.winners:,}",
            "take_up": show(task.take_up, "count"),
            "width": round(100 * task.take_up / most, 1),
            "price": show(task.price, "money"),
            "highest": show(max((a.payment for a in won[name].values()), default=None), "money"),
            "spend": show(task.spend, "money"),
            "paid": show(task.paid, "money"),
        }
        for name, task in auction.tasks.items()
    ]


def _list_clients(
    table: npt.NDArray[np.float64], won: dict[str, dict[int, Any]], names: dict[int, str]
) -> list[dict[str, Any]]:
    """Each willing client: what it asked for, and what it is paid."""
    rows = []
    for client in np.flatnonzero(np.isfinite(table).any(axis=1))[:_ROWS].tolist():
        cells = []
        for s, awards in enumerate(won.values()):
            award = awards.get(client)
            bid = float(table[client, s])
            part = "" if award is None or award.participation >= 1 else f"{award.participation:.2f}"
            cells.append(
                {
                    "bid": show(bid, "money"),
                    "pay": "" if award is None else show(award.payment, "money"),
                    "part": part,
                }
            )
        rows.append({"client": names.get(client, str(client)), "cells": cells})
    return rows


def draw_supply(
    task: int,
    bids: npt.NDArray[np.float64],
    winners: Sequence[int],
    price: float | None,
    name: str,
) -> str:
    """The bids for a task in their order, those that won in colour, and the price as a line."""
    order = np.argsort(bids, kind="stable")
    order = order[np.isfinite(bids[order])]
    title = f"Bids for {name}: {len(order)} clients, of which {len(winners)} were recruited"
    head = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
    if not len(order):
        return f'{head}<text x="{_WIDTH / 2:g}" y="110" text-anchor="middle">no bids</text></svg>'
    most = max(float(bids[order[-1]]), price or 0.0) or 1.0
    bottom, high = _HEIGHT - _BOTTOM, _HEIGHT - _BOTTOM - _TOP
    parts = []
    for tick in make_ticks(0.0, most, 4):
        y = bottom - tick / most * high
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    step = -(-len(order) // _BARS)
    shown = order[::step]
    wide = (_WIDTH - _LEFT) / len(shown)
    lucky = set(winners)
    for place, client in enumerate(shown.tolist()):
        tall = max(float(bids[client]) / most * high, 1.0)
        look = f"area-{task % 10}" if client in lucky else "lost"
        said = f"client {client} asked for {show(float(bids[client]), 'money')}"
        box = f'x="{_LEFT + place * wide:.1f}" y="{bottom - tall:.1f}" width="{wide * 0.8:.1f}"'
        parts.append(f'<rect class="{look}" {box} height="{tall:.1f}"><title>{said}</title></rect>')
    if price is not None:
        y = bottom - price / most * high
        parts.append(f'<line class="price" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        said = f"price {show(price, 'money')}"
        parts.append(f'<text x="{_WIDTH}" y="{max(y - 5, 10):.1f}" text-anchor="end">{said}</text>')
    parts.append(f'<text x="{_LEFT}" y="{bottom + 18}">lowest bid</text>')
    parts.append(f'<text x="{_WIDTH}" y="{bottom + 18}" text-anchor="end">highest bid</text>')
    return f"{head}{''.join(parts)}</svg>"
