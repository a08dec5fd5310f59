"""The list of runs and comparisons: filtered, ordered, a page at a time."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from mmfl.dashboard.library import Snapshot, make_id
from mmfl.dashboard.sparkline import draw_sparkline
from mmfl.errors import plural, printable
from mmfl.report import number
from mmfl.runs import STATES, Line, count_states, format_age
from mmfl.system import calls
from mmfl.system.memory import size

__all__ = ["ORDERS", "Query", "describe_cells", "describe_line", "list_page", "mark_known"]

_LENGTH = 60
"""About how many lines a page has; a comparison is not split."""

ORDERS = {
    "changed": "newest first",
    "worst": "best worst task first",
    "mean": "best mean first",
    "name": "by name",
}


@dataclass(frozen=True)
class Query:
    """What a person wants to see.

    Attributes:
        text: Part of a name.
        state: One of `STATES`; "" = all.
        order: One of `ORDERS`.
        every: Whether the runs of a comparison have lines of their own.
        page: From 1.
    """

    text: str = ""
    state: str = ""
    order: str = "changed"
    every: bool = False
    page: int = 1

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Query:
        """Read the part of an address behind the question mark; what makes no sense is left out."""
        page = given.get("page", "")
        return cls(
            text=given.get("q", "").strip()[:200],
            state=given.get("state", "") if given.get("state") in STATES else "",
            order=given.get("order", "") if given.get("order") in ORDERS else "changed",
            every=given.get("every") == "1",
            page=max(int(page), 1) if page.isascii() and page.isdigit() and len(page) < 7 else 1,
        )

    def link(self, page: int) -> str:
        """The address of another page of the same list."""
        found = {"q": self.text, "state": self.state, "order": self.order, "page": str(page)}
        if self.every:
            found["every"] = "1"
        plain = {"order": "changed", "page": "1"}
        return "?" + urlencode({k: v for k, v in found.items() if v and plain.get(k) != v})


def list_page(snapshot: Snapshot, query: Query) -> dict[str, Any]:
    """What the page of the list shows."""
    blocks = [block for block in _find_blocks(snapshot, query) if block]
    blocks.sort(key=lambda block: _rank(block, query.order))
    pages = _cut(blocks)
    place = min(query.page, len(pages))
    now = calls.now()
    shown = [line for block in pages[place - 1] for line in block]
    states = [run.state for run in snapshot.runs.values()]
    return {
        "rows": [describe_line(snapshot, line, now) for line in shown],
        "query": query,
        "states": [(state, states.count(state)) for state in STATES if state in states],
        "page": place,
        "pages": len(pages),
        "before": query.link(place - 1) if place > 1 else "",
        "after": query.link(place + 1) if place < len(pages) else "",
        "count": plural(len(snapshot.runs), "run"),
        "matches": sum(len(block) for block in blocks),
        "damaged": [
            {"name": _relative(snapshot, run.folder), "why": run.damage}
            for run in snapshot.runs.values()
            if run.damage
        ],
        "others": [printable(path.name) for path in snapshot.others],
        "unread": [printable(path.name) for path in snapshot.unread],
    }


def mark_known(snapshot: Snapshot) -> str:
    """A text that changes when a run is new or gone."""
    return hashlib.sha256(" ".join(sorted(snapshot.runs)).encode()).hexdigest()[:12]


def _relative(snapshot: Snapshot, folder: Any) -> str:
    return printable(str(folder.relative_to(snapshot.root)))


def _find_blocks(snapshot: Snapshot, query: Query) -> Iterable[list[Line]]:
    """A run, or a comparison with its variants; only what was asked for."""
    blocks: list[list[Line]] = []
    for line in snapshot.lines(every=query.every):
        if line.kind == "variant":
            blocks[-1].append(line)
        else:
            blocks.append([line])
    for first, *variants in blocks:
        whole = _matches(first, query.text)
        kept = [line for line in variants if whole or _matches(line, query.text)]
        kept = [line for line in kept if _has_state(line, query.state)]
        if kept or (not variants and whole and _has_state(first, query.state)):
            yield [first, *kept]


def _matches(line: Line, text: str) -> bool:
    return text.casefold() in line.name.casefold()


def _has_state(line: Line, state: str) -> bool:
    return not state or any(run.state == state for run in line.runs)


def _rank(block: Sequence[Line], order: str) -> tuple[float, str]:
    name = block[0].name.casefold()
    if order == "name":
        return (0.0, name)
    if order == "changed":
        return (-block[0].changed, name)
    values = [getattr(line, order) for line in block]
    known = [value for value in values if math.isfinite(value)]
    return (-max(known) if known else math.inf, name)


def _cut(blocks: Sequence[list[Line]]) -> list[list[list[Line]]]:
    """The blocks, in pages."""
    pages: list[list[list[Line]]] = [[]]
    length = 0
    for block in blocks:
        if length and length + len(block) > _LENGTH:
            pages.append([])
            length = 0
        pages[-1].append(block)
        length += len(block)
    return pages


def describe_line(snapshot: Snapshot, line: Line, now: float) -> dict[str, Any]:
    """A line's cells."""
    key = make_id(line.folder, snapshot.root)
    name = printable(line.name if line.name != "." else line.folder.resolve().name)
    if line.folder == snapshot.root:
        name = printable(line.folder.resolve().name)
    return {
        "id": key,
        "kind": line.kind,
        "name": name,
        "href": {"run": f"/runs/{key}", "comparison": f"/comparisons/{key}"}.get(
            line.kind, f"/compare?id={key}"
        ),
        "seeds": plural(len(line.runs), "seed") if line.kind == "variant" else "",
        "damage": line.runs[0].damage if len(line.runs) == 1 else "",
        "live": describe_cells(line),
        "age": format_age(now - line.started),
        "size": size(line.bytes),
    }


def describe_cells(line: Line) -> dict[str, Any]:
    """The cells that change while a run goes on."""
    measured = line.kind != "comparison"
    states = {run.state for run in line.runs}
    planned = line.planned
    return {
        "state": count_states(line.runs),
        "look": next(iter(states)) if len(states) == 1 else "mixed",
        "rounds": f"{line.rounds:,}",
        "planned": f"{planned:,}" if planned else "?",
        "share": round(100 * line.rounds / planned, 1) if planned else 0,
        "worst": number(line.worst, 3) if measured else "",
        "mean": number(line.mean, 3) if measured else "",
        "curve": draw_sparkline(line.history) if measured else "",
    }
