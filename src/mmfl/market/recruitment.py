"""What an auction decides: who trains what, and what each is paid."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mmfl.errors import InputError
from mmfl.market.bids import Bids, Floats, Ints
from mmfl.market.frames import make_frame
from mmfl.market.options import check_choice

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "Fraction",
    "Mechanism",
    "Recruitment",
    "Stop",
    "has_budget",
    "recruit_cheapest",
    "replace_budget",
]

Stop = Literal["exhausted", "budget"]


class Fraction(NamedTuple):
    """A client that a task recruits in part: x in (0, 1], paid x times its bid."""

    user: int
    participation: float
    payment: float


@dataclass(frozen=True, eq=False)
class Recruitment:
    """The outcome of an auction; rows are clients, columns are tasks.

    Attributes:
        bids: The bids.
        participation: (N, S) x in [0, 1]: 1 = trains the task, 0 < x < 1 = trains it in part.
        payment: (N, S) what each client is paid for each task.
        winners: Per task, the rows of the clients that joined fully, in joining order.
        price: Per task, what each of its winners is paid; None if they differ, or if nobody won.
        fractional: Per task, the client that joined last and in part (or for all of its bid, if
            the money was enough for x = 1), paid x times its bid; None if there is none.
        stop: Why no more clients joined: some task has no further willing client ("exhausted"), or
            the money ran out ("budget"). None if there is no common reason for all tasks.
    """

    bids: Bids
    participation: Floats
    payment: Floats
    winners: tuple[Ints, ...]
    price: tuple[float | None, ...]
    fractional: tuple[Fraction | None, ...]
    stop: Stop | None = None

    @cached_property
    def take_up(self) -> Floats:
        """(S) users_s: how many clients each task recruited, fractions included."""
        found: Floats = self.participation.sum(axis=0)
        return found

    @cached_property
    def spend(self) -> Floats:
        """(S) what is paid for each task; infinite if it is too large for a float."""
        with np.errstate(over="ignore"):
            found: Floats = self.payment.sum(axis=0)
        return found

    @property
    def min_take_up(self) -> float:
        """min_users: the take-up of the task that recruited the fewest clients."""
        return float(self.take_up.min())

    @property
    def difference(self) -> float:
        """The largest take-up minus the smallest."""
        return float(self.take_up.max() - self.take_up.min())

    @property
    def spent(self) -> float:
        """The sum of all payments; infinite if it is too large for a float."""
        with np.errstate(over="ignore"):
            return float(self.spend.sum())

    def to_frame(
        self, what: Literal["participation", "payment", "bids"] = "participation"
    ) -> DataFrame:
        """A table as a DataFrame: clients are the index, tasks the columns, NaN = unwilling.

        Args:
            what: Which table: how much of each task a client trains, what it is paid, or its bids.
        """
        if what == "bids":
            return self.bids.to_frame()
        check_choice(what, ("participation", "payment", "bids"), "what")
        values = np.where(np.isinf(self.bids.values), np.nan, getattr(self, what))
        return make_frame(values, self.bids.clients, self.bids.tasks)

    def utility(self, costs: npt.ArrayLike | Bids) -> Floats:
        """(N) each client's gain if these are its true costs: sum of pay - x * cost over tasks."""
        true = self.bids.read_alike(costs).values
        if true.shape != self.bids.shape:
            N, S = self.bids.shape
            raise InputError(f"costs must be {N} clients x {S} tasks like the bids")
        joins = self.participation > 0
        effort = np.where(joins, self.participation * np.where(joins, true, 0.0), 0.0)
        found: Floats = (self.payment - effort).sum(axis=1)
        return found


class Mechanism(Protocol):
    """An auction with its options, as a value: what an experiment names by its `kind`."""

    def recruit(self, bids: npt.ArrayLike | Bids) -> Recruitment:
        """Who trains what for how much, given all bids."""
        ...


def has_budget(mechanism: Mechanism) -> bool:
    """Whether a mechanism has a budget that can be replaced."""
    return dataclasses.is_dataclass(mechanism) and hasattr(mechanism, "budget")


def replace_budget(mechanism: Mechanism, budget: float) -> Mechanism:
    """The same mechanism with another budget; itself if it has none."""
    if not has_budget(mechanism):
        return mechanism
    changed: Mechanism = dataclasses.replace(mechanism, budget=budget)  # type: ignore[type-var]
    return changed


def recruit_cheapest(
    bids: Bids,
    counts: npt.ArrayLike,
    price: Sequence[float | None] | None,
    *,
    fractional: Sequence[Fraction | None] | None = None,
    stop: Stop | None = None,
) -> Recruitment:
    """Recruit the `counts[s]` cheapest clients of each task.

    Args:
        bids: The bids.
        counts: (S) k_s, at most the number of willing clients.
        price: (S) what each winner of a task is paid; None: each is paid its bid.
        fractional: (S) one more client, in part.
        stop: Why no more clients joined.
    """
    S = bids.shape[1]
    k: list[int] = np.asarray(counts, dtype=np.int64).tolist()
    winners = [bids.order[s, : k[s]] for s in range(S)]
    paid: list[float | None] = [None] * S
    x, payment = np.zeros(bids.shape, order="F"), np.zeros(bids.shape, order="F")
    for s, rows in enumerate(winners):
        x[rows, s] = 1.0
        common = None if price is None or k[s] == 0 else price[s]
        if common is None:
            np.copyto(payment[:, s], bids.values[:, s], where=x[:, s] > 0)
        else:  # rounding may have put it below the highest winning bid
            price_s = max(float(common), float(bids.ascending[s, k[s] - 1]))
            np.multiply(x[:, s], price_s, out=payment[:, s])
            paid[s] = price_s
    for s, part in enumerate(fractional or ()):
        if part is not None:
            x[part.user, s], payment[part.user, s] = part.participation, part.payment
    return Recruitment(
        bids=bids,
        participation=x,
        payment=payment,
        winners=tuple(winners),
        price=tuple(paid),
        fractional=tuple(fractional or [None] * S),
        stop=stop,
    )
