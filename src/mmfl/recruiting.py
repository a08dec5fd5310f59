"""Recruitment in an experiment: the auction before round one, and what follows from it.

A client may train a task if it won it and holds data for it. A fractional winner (0 < x < 1) is
available for the task in a round with probability x, or always with x of the local work.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from mmfl.config import Family, component
from mmfl.errors import InputError, MmflWarning, NobodyError, did_you_mean
from mmfl.files import read
from mmfl.market import MECHANISMS, Bids, Mechanism, Recruitment, simulated_bids
from mmfl.market.sources import DISTRIBUTIONS, Csv, Distribution
from mmfl.market.sources.simulated import Correlation, bytes_needed, ids_of
from mmfl.memory import Need, refuse
from mmfl.rng import stream

if TYPE_CHECKING:
    from mmfl.data.federation import Federation
    from mmfl.experiment import Experiment

__all__ = ["BIDS", "Recruited", "Recruiting", "recruit", "settled", "warn_of"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BIDS = Family(
    name="source of bids",
    table={**DISTRIBUTIONS.table, "csv": Csv},
    needs=(),
    optional=True,
)


@component
class Recruiting:
    """``[recruitment]``: who agrees to train what, and for how much.

    Attributes:
        mechanism: The auction, e.g. ``{ kind = "max_min_fair", budget = 29.0 }``.
        bids: What clients ask: a CSV file, or a model for all tasks that have none of their own.
        tasks: From task name to its own model of bids.
        correlation: Between the simulated bids of a client for any two tasks.
        fraction: What a fractional winner does: it is available for the task in a round with
            "probability" x, or always, with x of the local "work".
        dropouts: Whether a winner whose turns come to nothing is "paid" all the same (it was
            ready), or "unpaid": then it gets the share of its payment that the updates accepted
            from it are of the turns it was given. Who is never given a turn is paid, unless it
            holds no data of the task.
        empty: If nobody is recruited for a task who could train it: "stop" before the first round,
            or "leave_out", with a warning: the task keeps its first model, and the auction is held
            for the others.
    """

    mechanism: Annotated[Mechanism, MECHANISMS]
    bids: Annotated[Any, BIDS] = None
    tasks: dict[str, Annotated[Distribution, DISTRIBUTIONS]] = field(
        default_factory=dict, hash=False
    )
    correlation: Correlation = 0.0
    fraction: Literal["probability", "work"] = "probability"
    dropouts: Literal["paid", "unpaid"] = "paid"
    empty: Literal["stop", "leave_out"] = "stop"

    def __post_init__(self) -> None:
        if isinstance(self.bids, Csv) and (self.tasks or self.correlation):
            key = "tasks" if self.tasks else "correlation"
            raise ValueError(f"takes bids from a file or simulates them, so {key} cannot be set")

    def check_tasks(self, names: Sequence[str]) -> None:
        """Refuse models for tasks that do not exist, and tasks without a model."""
        for name in self.tasks:
            if name not in names:
                raise ValueError(f"recruitment.tasks: no task is {name!r}; {_near(name, names)}")
        missing = [name for name in names if name not in self.tasks]
        if self.bids is None and missing:
            raise ValueError(f"recruitment needs bids, or a model of them for task {missing[0]!r}")

    def files(self) -> dict[str, str]:
        """The SHA-256 of the file that bids come from, if they do."""
        if not isinstance(self.bids, Csv):
            return {}
        try:
            content = read(self.bids.path)
        except OSError as error:
            said = f"cannot read {self.bids.path!r}: {error.strerror}"
            raise InputError(f"recruitment.bids: {said}") from None
        return {"recruitment.bids": hashlib.sha256(content).hexdigest()}

    def asked(self, tasks: Sequence[str], clients: Sequence[int], seed: int) -> Bids:
        """The bids of these clients for these tasks."""
        what = f"clients.count = {len(clients):,} with an auction of {len(tasks)} tasks"
        refuse([Need(what, bytes_needed(len(clients), len(tasks)))])
        if isinstance(self.bids, Csv):
            try:
                return _matched(self.bids.read(), tasks, clients, self.bids.path)
            except InputError as error:
                raise InputError(f"recruitment.bids: {error}") from None
        models = {task: self.tasks.get(task, self.bids) for task in tasks}
        return simulated_bids(models, clients, correlation=self.correlation, seed=seed)


def _near(name: str, names: Sequence[str]) -> str:
    return did_you_mean(name, names)


def _matched(given: Bids, tasks: Sequence[str], clients: Sequence[int], path: str) -> Bids:
    """The rows and columns of a file in the order of an experiment; who is not in it is unwilling.

    Columns and tasks must be the same; so must rows and clients, if the file does not name them.
    """
    for name in given.tasks:
        if name not in tasks:
            raise InputError(f"{path}: column {name!r} is no task; {_near(name, tasks)}")
    for name in tasks:
        if name not in given.tasks:
            raise InputError(f"{path}: has no column for task {name!r}")
    columns = [given.tasks.index(name) for name in tasks]
    if isinstance(given.clients, range) and len(given.clients):
        if len(given.clients) != len(clients):
            raise InputError(
                f"{path}: has {len(given.clients)} rows for {len(clients)} clients; a first column "
                "'client' says whose they are"
            )
        return Bids(given.values[:, columns], clients, tuple(tasks))
    known = ids_of(clients)
    if not all(isinstance(client, int) for client in given.clients):
        odd = next(name for name in given.clients if not re.fullmatch(r"0|[1-9]\d*", str(name)))
        raise InputError(f"{path}: client {odd!r} is none of the experiment's (whole numbers)")
    ids = np.array(given.clients, dtype=np.int64)
    place = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    strange = np.flatnonzero(known[place] != ids)
    if len(strange):
        raise InputError(
            f"{path}: client {ids[strange[0]]} is none of the experiment's "
            f"({known[0]} to {known[-1]})"
        )
    values = np.full((len(known), len(tasks)), np.inf)
    values[place] = given.values[:, columns]
    return Bids(values, clients, tuple(tasks))


@dataclass(frozen=True, eq=False)
class Recruited:
    """An auction's outcome for an experiment; rows are places in the federation's list of clients.

    Attributes:
        outcome: The auction's.
        settings: How it was held.
        seed: The experiment's.
        able: (N, S) who won a task and holds data for it.
        left_out: Tasks that nobody may train.
    """

    outcome: Recruitment
    settings: Recruiting
    seed: int
    able: Bools
    left_out: tuple[str, ...]

    def available(self, t: int, places: Ints, ids: Ints) -> Bools:
        """(n, S) who may train what in round t."""
        may = self.able[places]
        if self.settings.fraction == "work":
            return may
        x = self.outcome.participation[places]
        part = may & (x < 1)
        for s in np.flatnonzero(part.any(axis=0)).tolist():
            luck = stream(self.seed, "fraction", t, self.outcome.bids.tasks[s]).at(ids)
            may[:, s] &= ~part[:, s] | (luck < x[:, s])
        return may

    def work(self, places: Ints, columns: Ints) -> Floats:
        """The share of its local work that each client does in a turn at a task."""
        if self.settings.fraction == "probability":
            return np.ones(len(places))
        return self.outcome.participation[places, columns]


def recruit(experiment: Experiment, federation: Federation) -> Recruited | None:
    """Hold the auction of an experiment; None if it has none.

    A task that nobody may train is left out, if the experiment says so, and the auction is held
    again for the others; of several such tasks, first the one that is dearest to begin with.
    """
    settings = experiment.recruitment
    if settings is None:
        return None
    bids = settings.asked(federation.tasks, federation.clients, experiment.seed)
    holds = federation.sizes(ids_of(federation.clients)) > 0
    entry = np.where(holds, bids.values, np.inf).min(axis=0, initial=np.inf)
    kept = list(range(len(bids.tasks)))
    while kept:
        outcome = _held(settings.mechanism, _columns(bids, kept))
        able = (outcome.participation > 0) & holds[:, kept]
        empty = [place for place in range(len(kept)) if not able[:, place].any()]
        if not empty:
            return _all_columns(settings, experiment.seed, bids, kept, outcome, able)
        if settings.empty == "stop":
            raise InputError(_why_empty(settings, outcome, empty[0]))
        del kept[max(empty, key=lambda place: (entry[kept[place]], place))]
    raise NobodyError("the auction recruits nobody who could train any of the tasks")


def _columns(bids: Bids, kept: list[int]) -> Bids:
    """The bids for some of the tasks."""
    if len(kept) == len(bids.tasks):
        return bids
    return Bids(bids.values[:, kept], bids.clients, tuple(bids.tasks[s] for s in kept))


def _all_columns(
    settings: Recruiting,
    seed: int,
    bids: Bids,
    kept: list[int],
    outcome: Recruitment,
    able: Bools,
) -> Recruited:
    """The outcome with empty columns for the tasks that are left out."""
    if len(kept) == len(bids.tasks):
        return Recruited(outcome, settings, seed, able, ())
    place = {s: column for column, s in enumerate(kept)}
    everything = range(len(bids.tasks))
    nobody = np.empty(0, dtype=np.int64)
    participation, payment, may = (np.zeros(bids.shape) for _ in range(3))
    participation[:, kept], payment[:, kept] = outcome.participation, outcome.payment
    may[:, kept] = able
    whole = Recruitment(
        bids=bids,
        participation=participation,
        payment=payment,
        winners=tuple(outcome.winners[place[s]] if s in place else nobody for s in everything),
        price=tuple(outcome.price[place[s]] if s in place else None for s in everything),
        fractional=tuple(outcome.fractional[place[s]] if s in place else None for s in everything),
        stop=outcome.stop,
    )
    left = tuple(bids.tasks[s] for s in everything if s not in place)
    return Recruited(whole, settings, seed, may > 0, left)


def _why_empty(settings: Recruiting, outcome: Recruitment, s: int) -> str:
    """A sentence about the task in column s, which nobody may train."""
    advice = 'recruitment.empty = "leave_out" leaves such tasks out'
    if not outcome.bids.willing[s]:
        why = "nobody is willing to train it"
    elif outcome.take_up[s] > 0:
        why = "none of the clients recruited for it holds data of it"
    else:
        why = "nobody was recruited for it"
        lever = next((x for x in ("budget", "threshold") if hasattr(settings.mechanism, x)), None)
        advice = f"raise the {lever}, or {advice}" if lever else advice
    task = outcome.bids.tasks[s]
    return f"the auction found no client that could train task {task!r}: {why}; {advice}"


def warn_of(recruited: Recruited | None) -> None:
    """Warn of tasks that are left out."""
    if recruited is not None and recruited.left_out:
        names = ", ".join(recruited.left_out)
        said = f"the auction recruited nobody who could train {names}: left out, not trained"
        warnings.warn(said, MmflWarning, stacklevel=3)


def _held(mechanism: Mechanism, bids: Bids) -> Recruitment:
    """The outcome, if it is one: a mechanism may be a user's own."""
    try:
        outcome = mechanism.recruit(bids)
    except InputError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise InputError(f"the mechanism {mechanism!r} failed: {said}") from error
    sound = isinstance(outcome, Recruitment)
    if not sound or {outcome.participation.shape, outcome.payment.shape} != {bids.shape}:
        raise InputError(
            f"the mechanism {mechanism!r} must return a Recruitment of {bids.shape[0]} clients and "
            f"{bids.shape[1]} tasks"
        )
    return outcome


def settled(recruited: Recruited, asked: Ints, delivered: Ints) -> Floats:
    """(N, S) what is paid in the end: all, or by delivery and nothing to who holds no data.

    Args:
        recruited: Who won what.
        asked: (N, S) turns that each client was given at each task.
        delivered: (N, S) updates of it that were accepted.
    """
    payment = recruited.outcome.payment
    if recruited.settings.dropouts == "paid":
        return payment.copy()
    part = np.where(asked > 0, delivered / np.maximum(asked, 1), 1.0)
    return payment * np.where(recruited.able, part, 0.0)
