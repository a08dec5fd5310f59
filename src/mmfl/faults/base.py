"""What a fault is: how a client misbehaves, and the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from mmfl.exchange import Address, ClientUpdate, Evaluation, Params
from mmfl.rng import Stream

__all__ = ["Fault", "Misbehaviour", "Outcome", "ReportingMisbehaviour", "delta_of"]

Outcome = Literal["lost", "refused", "accepted"]


@dataclass(frozen=True, slots=True)
class Fault:
    """An injected fault.

    Attributes:
        address: Of the turn, or of the evaluation.
        kind: "dropout", "late", or the kind of a misbehaviour.
        outcome: "lost": nothing arrived, or too late. "refused" by the checks; of what a client
            sent twice, this is the second. "accepted": the checks cannot know; it is up to the
            aggregator.
    """

    address: Address
    kind: str
    outcome: Outcome


class Misbehaviour(Protocol):
    """What a client sends instead of its update."""

    def send(
        self, update: ClientUpdate, *, tasks: Sequence[str], rng: Stream
    ) -> Sequence[ClientUpdate]:
        """What arrives at the server: the answer, and whatever comes after it.

        Args:
            update: What an honest client would send; it has passed all checks.
            tasks: The names of the experiment's tasks.
            rng: Of this misbehaviour in this turn.
        """
        ...


@runtime_checkable
class ReportingMisbehaviour(Protocol):
    """A misbehaviour that also falsifies how a client evaluates a model on its own data."""

    def report(self, found: Evaluation) -> Evaluation:
        """What the client reports instead."""
        ...


def delta_of(update: ClientUpdate) -> Params:
    """The change of the weights that an honest update holds."""
    assert isinstance(update.delta, Params), "honest updates are checked before they are corrupted"
    return update.delta
