"""The clients that may train something: who is active, who scores, how much work each does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mmfl.allocate import Assignments, View
from mmfl.errors import NoClientsError
from mmfl.experiment import Availability, Federation, turn_needs
from mmfl.faults import Offenders, Quarantine
from mmfl.loop.recruiting import RecruitedClients, recruit
from mmfl.rng import stream
from mmfl.system.memory import refuse

if TYPE_CHECKING:
    from mmfl.experiment import Experiment

__all__ = ["Population"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
NOBODY: Offenders = {}


@dataclass(frozen=True, eq=False)
class Population:
    """The clients that may train something.

    Attributes:
        federation: All clients.
        seed: The experiment's.
        rates: Of each part of the cycle: the share of clients that are active in a round, or each
            client's own, by place.
        span: How many rounds a part of the cycle lasts.
        places: Their places in the federation's list; None = all of it (which costs no memory).
        count: Their number.
        recruited: Who may train what, if there was an auction.
        quarantine: Who is left out for a while, if anybody.
        score_clients: How many clients score a task in a round; None = all that may train it.
    """

    federation: Federation
    seed: int
    rates: tuple[float | Floats, ...]
    span: int
    places: Ints | None
    count: int
    recruited: RecruitedClients | None = None
    quarantine: Quarantine | None = None
    score_clients: int | None = None

    @classmethod
    def of(cls, federation: Federation, experiment: Experiment) -> Population:
        """Hold the auction, if there is one, and ask the federation who can train anything."""
        recruited = recruit(experiment.recruitment, federation, experiment.seed)
        places = federation.able()
        if recruited is not None:
            places = np.flatnonzero(recruited.able.any(axis=1))
        count = len(federation.clients) if places is None else len(places)
        if count == 0:
            raise NoClientsError("no client holds data for any task, so nothing can be trained")
        active = experiment.clients.active
        cycle = active.rates if isinstance(active, Availability) else (active,)
        shares = [rate for rate in cycle if isinstance(rate, float)]
        if len(shares) == len(cycle):
            share = max(shares)
            most = round(share * count)
            if not most:
                who = "that hold data" if recruited is None else "that are recruited"
                raise NoClientsError(
                    f"clients.active = {share:g} of {count} clients {who} leaves no client active; "
                    "raise it"
                )
            refuse(turn_needs(share, most, len(federation.tasks)))
        return cls(
            federation,
            experiment.seed,
            tuple(rate if isinstance(rate, float) else np.array(rate) for rate in cycle),
            active.rounds if isinstance(active, Availability) else 1,
            places,
            count,
            recruited,
            experiment.quarantine,
            experiment.score_clients,
        )

    def follow(self, federation: Federation) -> Population:
        """The population after clients have come or gone; an auction is not held again."""
        recruited, places = self.recruited, federation.able()
        if recruited is not None:
            recruited = recruited.follow(federation)
            places = np.flatnonzero(recruited.able.any(axis=1))
        count = len(federation.clients) if places is None else len(places)
        return replace(self, federation=federation, places=places, count=count, recruited=recruited)

    def _rate(self, t: int) -> float | Floats:
        """The share of clients that are active in round t, or each client's own rate."""
        return self.rates[(t - 1) // self.span % len(self.rates)]

    def turnout(self, t: int) -> int:
        """How many clients are active in a round."""
        rate = self._rate(t)
        return round(rate * self.count) if isinstance(rate, float) else len(self.active(t))

    def active(self, t: int, offenders: Offenders = NOBODY) -> Ints:
        """Places of the round's active clients, ascending (Algorithm 1, line 3).

        Those in quarantine are left out before the draw.
        """
        rng, rate = stream(self.seed, "active", t), self._rate(t)
        away = self._find_quarantined(t, offenders, self.places)
        if isinstance(rate, float):
            count = self.count - len(away)
            m = round(rate * count)
            chosen = np.arange(m)
            if m < count:
                chosen = np.sort(rng.choice(count, m, replace=False, shuffle=False))
            chosen = _skip(away, chosen)
            return chosen if self.places is None else self.places[chosen]
        places = np.arange(self.count) if self.places is None else self.places
        places = np.delete(places, away)
        return places[rng.at(self.ids(places)) < rate[places]]

    def _find_quarantined(self, t: int, offenders: Offenders, places: Ints | None) -> Ints:
        """Which of these places (None = all), by number, are of clients in quarantine."""
        if self.quarantine is None or not offenders:
            return np.empty(0, np.int64)
        ids = self.quarantine.find_excluded(t, offenders)
        clients = self.federation.clients
        if isinstance(clients, range):
            found: Ints = (ids - clients.start) // clients.step
        else:
            found = np.searchsorted(self._listed, ids)
        if places is None:
            return found
        numbers: Ints = np.minimum(np.searchsorted(places, found), len(places) - 1)
        return numbers[np.equal(places[numbers], found)]

    def ids(self, places: Ints) -> Ints:
        """The ids at these places of the federation's list."""
        clients = self.federation.clients
        if isinstance(clients, range):
            return clients.start + places * clients.step
        return self._listed[places]

    @cached_property
    def _listed(self) -> Ints:
        return np.asarray(self.federation.clients, dtype=np.int64)

    @cached_property
    def _holders(self) -> dict[str, Ints | None]:
        """From task to the places of those that may train it; None = everybody in the list."""
        if self.recruited is None:
            return {task: self.federation.able(task) for task in self.federation.tasks}
        columns = self.recruited.able.T
        return dict(zip(self.federation.tasks, map(np.flatnonzero, columns), strict=True))

    def can_train(self, task: str) -> bool:
        """Whether anybody may train a task and is ever active."""
        places = self._holders[task]
        if places is not None and not len(places):
            return False
        chosen = slice(None) if places is None else places
        return any(np.any(r if isinstance(r, float) else r[chosen]) for r in self.rates)

    def evaluators(self, t: int, task: str, offenders: Offenders = NOBODY) -> Ints:
        """Ids of the clients that score a task in a round, drawn among those that may train it."""
        places = self._holders[task]
        away = self._find_quarantined(t, offenders, places)
        count = (len(self.federation.clients) if places is None else len(places)) - len(away)
        wanted = self.score_clients
        if wanted is None or wanted >= count:
            chosen = np.arange(count)
        else:
            rng = stream(self.seed, "judges", t, task)
            chosen = np.sort(rng.choice(count, wanted, replace=False))
        chosen = _skip(away, chosen)
        return self.ids(chosen if places is None else places[chosen])

    def eligible(self, t: int, places: Ints, clients: Ints, sizes: Ints) -> npt.NDArray[np.bool_]:
        """(n, S) who may train what in a round: holds data and, after an auction, is recruited."""
        if self.recruited is None:
            return sizes > 0
        return self.recruited.available(t, places, clients)

    def work_shares(self, view: View, assignments: Assignments) -> npt.NDArray[np.float64]:
        """The share of the local work that each assignment is for."""
        if self.recruited is None:
            return np.ones(len(assignments))
        rows = np.searchsorted(view.clients, assignments.clients)
        return self.recruited.work_shares(view.positions[rows], assignments.tasks)


def _skip(away: Ints, chosen: Ints) -> Ints:
    """Numbers that were chosen among those that are not away, as numbers among all."""
    return chosen + np.searchsorted(away - np.arange(len(away)), chosen, side="right")
