"""Recruitment in an experiment: the auction before round one, and what follows from it.

A client may train a task if it won it and holds data for it. A fractional winner (0 < x < 1) is
available for the task in a round with probability x, or always with x of the local work.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from mmfl.config import Family, component
from mmfl.errors import InputError, MmflWarning, did_you_mean
from mmfl.market import MECHANISMS, Bids, Mechanism, Recruitment, simulated_bids
from mmfl.market.sources import DISTRIBUTIONS, Csv, Distribution
from mmfl.market.sources.simulated import Correlation
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
            from it are of the turns it was given. Who is never given a turn is paid.
        empty: If nobody is recruited for a task who could train it: "stop" before the first round,
            or "leave_out", with a warning: the task keeps its first model.
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
            content = Path(self.bids.path).read_bytes()
        except OSError as error:
            raise InputError(f"cannot read {self.bids.path!r}: {error.strerror}") from None
        return {"recruitment.bids": hashlib.sha256(content).hexdigest()}

    def asked(self, tasks: Sequence[str], clients: Sequence[int], seed: int) -> Bids:
        """The bids of these clients for these tasks."""
        if isinstance(self.bids, Csv):
            return _matched(self.bids.read(), tasks, clients, self.bids.path)
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
    if isinstance(given.clients, range):
        if len(given.clients) != len(clients):
            raise InputError(
                f"{path}: has {len(given.clients)} rows for {len(clients)} clients; a first column "
                "'client' says whose they are"
            )
        return Bids(given.values[:, columns], clients, tuple(tasks))
    known = np.asarray(clients, dtype=np.int64)
    if not all(isinstance(client, int) for client in given.clients):
        odd = next(client for client in given.clients if not isinstance(client, int))
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
    """Hold the auction of an experiment; None if it has none."""
    settings = experiment.recruitment
    if settings is None:
        return None
    bids = settings.asked(federation.tasks, federation.clients, experiment.seed)
    outcome = _held(settings.mechanism, bids)
    won = outcome.participation > 0
    able = won & (federation.sizes(np.asarray(federation.clients, dtype=np.int64)) > 0)
    empty = [s for s in range(len(bids.tasks)) if not able[:, s].any()]
    names = tuple(bids.tasks[s] for s in empty)
    if empty:
        s = empty[0]
        why = "holds data of it" if won[:, s].any() else "was recruited for it"
        said = f"no client that could train task {names[0]!r}: nobody {why}"
        if not won[:, s].any() and not bids.willing[s]:
            said = f"no client for task {names[0]!r}: nobody is willing to train it"
        if settings.empty == "stop" or len(empty) == len(bids.tasks):
            raise InputError(
                f"the auction found {said}; raise the budget, or leave such tasks out with "
                'recruitment.empty = "leave_out"'
            )
    return Recruited(outcome, settings, experiment.seed, able, names)


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
    """(N, S) what is paid in the end.

    Args:
        recruited: Who won what.
        asked: (N, S) turns that each client was given at each task.
        delivered: (N, S) updates of it that were accepted.
    """
    payment = recruited.outcome.payment
    if recruited.settings.dropouts == "paid":
        return payment.copy()
    return payment * np.where(asked > 0, delivered / np.maximum(asked, 1), 1.0)
