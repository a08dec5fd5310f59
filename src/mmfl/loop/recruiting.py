"""Recruitment in an experiment: the auction before round one, and what follows from it.

A client may train a task if it won it and holds data for it. A fractional winner (0 < x < 1) is
available for the task in a round with probability x, or always with x of the local work.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mmfl.errors import InputError, MmflWarning, NoClientsError
from mmfl.experiment import RecruitmentSettings
from mmfl.market import Bids, Mechanism, Recruitment
from mmfl.market.bids_io import ids_of
from mmfl.rng import stream
from mmfl.system.definitions import describe_place
from mmfl.system.user_code import Guard, describe_part

if TYPE_CHECKING:
    from mmfl.experiment import Federation

__all__ = ["RecruitedClients", "compute_payments", "recruit", "warn_left_out"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RecruitedClients:
    """An auction's outcome for an experiment; rows are places in the federation's list of clients.

    Attributes:
        outcome: The auction's.
        settings: How it was held.
        seed: The experiment's.
        able: (N, S) who won a task and holds data for it.
        left_out: Tasks that nobody may train.
    """

    outcome: Recruitment
    settings: RecruitmentSettings
    seed: int
    able: Bools
    left_out: tuple[str, ...]

    def follow(self, federation: Federation) -> RecruitedClients:
        """The same outcome after clients have come or gone: who won, and is there."""
        holds = federation.sizes(ids_of(federation.clients)) > 0
        return replace(self, able=(self.outcome.participation > 0) & holds)

    def available(self, t: int, places: Ints, ids: Ints) -> Bools:
        """(n, S) who may train what in round t."""
        may = self.able[places]
        if self.settings.fraction == "work":
            return may
        x = self.outcome.participation[places]
        part = may & (x < 1)
        for s in np.flatnonzero(part.any(axis=0)).tolist():
            draws = stream(self.seed, "fraction", t, self.outcome.bids.tasks[s]).at(ids)
            may[:, s] &= ~part[:, s] | (draws < x[:, s])
        return may

    def work_shares(self, places: Ints, columns: Ints) -> Floats:
        """The share of its local work that each client does in a turn at a task."""
        if self.settings.fraction == "probability":
            return np.ones(len(places))
        return self.outcome.participation[places, columns]


def recruit(
    settings: RecruitmentSettings | None, federation: Federation, seed: int
) -> RecruitedClients | None:
    """Hold the auction of an experiment with this seed; None if it has none.

    A task that nobody may train is left out, if the experiment says so, and the auction is held
    again for the others; of several such tasks, the most expensive one first.
    """
    if settings is None:
        return None
    names = getattr(federation, "names", ())
    bids = settings.collect_bids(federation.tasks, federation.clients, seed, names)
    told = getattr(federation, "bids", None)  # by clients themselves; NaN where they do not say
    if told is not None:
        bids = Bids(np.where(np.isnan(told), bids.values, told), bids.clients, bids.tasks)
    holds = federation.sizes(ids_of(federation.clients)) > 0
    entry = np.where(holds, bids.values, np.inf).min(axis=0, initial=np.inf)
    kept = list(range(len(bids.tasks)))
    while kept:
        outcome = _hold_auction(settings.mechanism, _columns(bids, kept))
        able = (outcome.participation > 0) & holds[:, kept]
        empty = [place for place in range(len(kept)) if not able[:, place].any()]
        if not empty:
            return _all_columns(settings, seed, bids, kept, outcome, able)
        if settings.empty == "stop":
            raise InputError(_why_empty(settings, outcome, empty[0]))
        del kept[max(empty, key=lambda place: (entry[kept[place]], place))]
    raise NoClientsError("the auction recruited no client that can train any of the tasks")


def _columns(bids: Bids, kept: list[int]) -> Bids:
    """The bids for some of the tasks."""
    if len(kept) == len(bids.tasks):
        return bids
    return Bids(bids.values[:, kept], bids.clients, tuple(bids.tasks[s] for s in kept))


def _all_columns(
    settings: RecruitmentSettings,
    seed: int,
    bids: Bids,
    kept: list[int],
    outcome: Recruitment,
    able: Bools,
) -> RecruitedClients:
    """The outcome with empty columns for the tasks that are left out."""
    if len(kept) == len(bids.tasks):
        return RecruitedClients(outcome, settings, seed, able, ())
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
    return RecruitedClients(whole, settings, seed, may > 0, left)


def _why_empty(settings: RecruitmentSettings, outcome: Recruitment, s: int) -> str:
    """A sentence about the task in column s, which nobody may train."""
    advice = 'recruitment.empty = "leave_out" leaves such tasks out'
    if not outcome.bids.willing[s]:
        why = "nobody is willing to train it"
    elif outcome.take_up[s] > 0:
        why = "none of the clients recruited for it holds data for it"
    else:
        why = "nobody was recruited for it"
        lever = next((x for x in ("budget", "threshold") if hasattr(settings.mechanism, x)), None)
        advice = f"raise the {lever}, or {advice}" if lever else advice
    task = outcome.bids.tasks[s]
    return f"the auction recruited no client that can train task {task!r}: {why}; {advice}"


def warn_left_out(recruited: RecruitedClients | None) -> None:
    """Warn of tasks that are left out."""
    if recruited is not None and recruited.left_out:
        names = ", ".join(recruited.left_out)
        said = f"the auction recruited no client that can train {names}; left out of training"
        warnings.warn(said, MmflWarning, stacklevel=3)


def _hold_auction(mechanism: Mechanism, bids: Bids) -> Recruitment:
    """The outcome, if it is one: a mechanism may be a user's own."""
    who = f"the mechanism {describe_part(mechanism)}"
    with Guard(f"{who} failed", InputError, part=mechanism, always=True):
        outcome = mechanism.recruit(bids)
    sound = isinstance(outcome, Recruitment)
    if not sound or {outcome.participation.shape, outcome.payment.shape} != {bids.shape}:
        raise InputError(
            f"{who} must return a Recruitment of {bids.shape[0]} clients and {bids.shape[1]} tasks"
            f"{describe_place(mechanism)}"
        )
    return outcome


def compute_payments(recruited: RecruitedClients, asked: Ints, delivered: Ints) -> Floats:
    """(N, S) what is paid in the end: all, or a share by delivery; nothing to clients without data.

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
