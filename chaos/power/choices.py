"""Choose when the power is cut and what is left on disk: seeded, and weighted by risk."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from chaos.power.disk import Change, File, History, Tree, Version, content
from chaos.power.recording import Kind

__all__ = ["MODELS", "STYLES", "Choice", "Promise", "State", "build", "promise", "weights"]

MODELS = ("weak", "ordered")

STYLES = {
    "nothing": "what was synced, and no more",
    "everything": "all of it, as after a kill",
    "names": "all names; no data, with or without the new lengths",
    "data": "all data; no names",
    "one lost": "all but one name, or one file's data",
    "one kept": "nothing but one name, or one file's data",
    "torn": "all names; of every file some sectors",
    "random": "each name, length and sector with a chance",
}

SECTORS = (512, 4096)
_HURTS = (Kind.SYNC, Kind.SYNC_DATA, Kind.RENAME, Kind.UNLINK, Kind.MKDIR, Kind.TRUNCATE, Kind.MARK)

Take = Callable[[File, list[Version]], tuple[int, Callable[[int], int]]]
"""Takes a file and its candidates; returns the versions of its length and of its sectors."""


@dataclass(frozen=True)
class Choice:
    """Which state to build.

    Attributes:
        cut: The number of the event before which the power is cut.
        style: One of `STYLES`.
        model: One of `MODELS`.
        sector: The number of bytes that are written at once.
        seed: The seed of everything else.
    """

    cut: int
    style: str
    model: str
    sector: int
    seed: str


@dataclass(frozen=True)
class Promise:
    """What the run had announced before the power cut.

    Attributes:
        round: The round of the last checkpoint.
        finished: Whether the run had returned.
    """

    round: int
    finished: bool


@dataclass(frozen=True)
class State:
    """A folder after a power cut.

    Attributes:
        choice: How it was chosen.
        tree: What is in the folder.
    """

    choice: Choice
    tree: Tree


def weights(history: History) -> list[float]:
    """How often to cut before each event, and after the last: most often close to risky calls."""
    count = len(history.events)
    found = [1.0] * (count + 1)
    for time, event in enumerate(history.events):
        if event.kind in _HURTS:
            for close in range(max(0, time - 1), min(count, time + 2) + 1):
                found[close] = 4.0
    return found


def promise(history: History, cut: int, before: int) -> Promise:
    """What was announced before a cut; `before` is the round that was announced at the start."""
    marks = [e.path for e in history.events[:cut] if e.kind is Kind.MARK]
    rounds = [int(mark.split()[1]) for mark in marks if mark.startswith("saved ")]
    return Promise(max([before, *rounds]), "finished" in marks)


def build(history: History, choice: Choice) -> State:
    """Build the state that a choice describes."""
    draws = random.Random(choice.seed)
    cut, ordered = choice.cut, choice.model == "ordered"
    pending = history.pending(cut, ordered=ordered)
    files = [
        file
        for file in history.files
        if not file.folder and not file.mapped and len(file.candidates(cut)) > 1
    ]
    wanted, take = _style(choice.style, pending, files, draws)
    kept = history.durable(cut, ordered=ordered)
    commit = _commit(choice.style, pending, cut, draws)
    if ordered:
        kept |= {change for change in pending if change.time < commit}
    elif choice.style == "one kept":
        kept |= history.with_causes(wanted, cut)
    else:
        kept |= history.without_orphans(wanted | kept, cut)
    fill = _filler(draws, ordered=ordered)

    def body(file: File) -> bytes:
        versions = file.candidates(cut)
        if file.mapped:
            return _mapped(len(versions[-1].body), choice.seed)
        length, moment = take(file, versions)
        if ordered:
            length = _in_journal(versions, length, commit)
        return content(versions, length, moment, sector=choice.sector, ordered=ordered, rest=fill)

    return State(choice, history.tree(kept, body))


def _style(
    style: str, pending: list[Change], files: list[File], draws: random.Random
) -> tuple[set[Change], Take]:
    """The changes of names to apply, and which versions of the data."""
    every = set(pending)
    item = draws.choice([*pending, *files, None])
    match style:
        case "nothing":
            return set(), _none
        case "everything":
            return every, _all
        case "names":
            return every, _none if draws.random() < 0.5 else _lengths
        case "data":
            return set(), _all
        case "one lost":
            change = {item} if isinstance(item, Change) else set[Change]()
            return every - change, lambda f, v: (_none if f is item else _all)(f, v)
        case "one kept":
            change = {item} if isinstance(item, Change) else set[Change]()
            return change, lambda f, v: (_all if f is item else _none)(f, v)
        case "torn":
            return every, _chance(draws, draws.choice((0.2, 0.5, 0.8)), lengths=False)
    odds = draws.choice((0.1, 0.3, 0.5, 0.7, 0.9))
    return {c for c in pending if draws.random() < odds}, _chance(draws, odds, lengths=True)


def _none(file: File, versions: list[Version]) -> tuple[int, Callable[[int], int]]:
    return 0, lambda sector: 0


def _all(file: File, versions: list[Version]) -> tuple[int, Callable[[int], int]]:
    last = len(versions) - 1
    return last, lambda sector: last


def _lengths(file: File, versions: list[Version]) -> tuple[int, Callable[[int], int]]:
    return len(versions) - 1, lambda sector: 0


def _chance(draws: random.Random, odds: float, *, lengths: bool) -> Take:
    def take(file: File, versions: list[Version]) -> tuple[int, Callable[[int], int]]:
        last = len(versions) - 1

        def some(sector: int = 0) -> int:
            return last if draws.random() < odds else draws.randint(0, last)

        return (some() if lengths else last), some

    return take


def _commit(style: str, pending: list[Change], cut: int, draws: random.Random) -> int:
    """The time of a journal's last commit: everything before it is on disk."""
    times = [change.time for change in pending]
    match style:
        case "nothing" | "data":
            return min(times, default=cut)
        case "one kept":
            return times[0] + 1 if times else cut
        case "one lost":
            return times[-1] if times else cut
        case "random":
            return draws.randint(min(times, default=cut), cut)
    return cut


def _in_journal(versions: list[Version], length: int, commit: int) -> int:
    """A truncation is in the journal, too: it is on disk if anything after it is."""
    cuts = [number for number, version in enumerate(versions) if number and version.cut]
    low = max((n for n in cuts if versions[n].time < commit), default=0)
    high = min((n for n in cuts if versions[n].time >= commit), default=len(versions)) - 1
    return min(max(length, low), high)


def _filler(draws: random.Random, *, ordered: bool) -> Callable[[int], bytes]:
    """What unwritten bytes hold: zeros, or (without a journal) anything."""
    if ordered or draws.random() < 0.7:
        return bytes
    return draws.randbytes


def _mapped(size: int, seed: str) -> bytes:
    draws = random.Random(f"{seed} mapped")
    return draws.choice((bytes, draws.randbytes))(size)
