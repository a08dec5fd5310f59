"""``[quarantine]``: clients whose updates are refused again and again are left out for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from mmfl.aggregate import REFUSALS
from mmfl.config import Count, component
from mmfl.exchange import ClientFailure

__all__ = ["FOR_EVER", "Offenders", "Quarantine"]

Offenders = Mapping[int, tuple[int, int]]
"""From a client's id to its strikes, and the last round from which it is left out (0 = none)."""

FOR_EVER = 2**62


@component
class Quarantine:
    """When a client is left out, and for how long.

    Only updates that the checks refuse count as strikes. Dropouts, stragglers, failures of mmfl's
    own workers, evaluations and duplicates do not count.

    Attributes:
        strikes: How many refused updates in a row, over all tasks, put a client in quarantine.
        rounds: How many rounds a quarantine lasts; by default it never ends.
    """

    strikes: Count
    rounds: Count | None = None

    def after(
        self,
        t: int,
        offenders: Offenders,
        accepted: Iterable[int],
        failures: Iterable[ClientFailure],
    ) -> dict[int, tuple[int, int]]:
        """The offenders after round t.

        Args:
            t: The round.
            offenders: Those before it.
            accepted: Clients of which an update was accepted.
            failures: The round's.
        """
        refused = Counter(f.address.client for f in failures if f.turn and f.reason in REFUSALS)
        fine = set(accepted) - refused.keys()
        found = {}
        for client in sorted(offenders.keys() | refused.keys()):
            strikes, until = offenders.get(client, (0, 0))
            strikes = 0 if client in fine else strikes + refused[client]
            if strikes >= self.strikes:
                strikes, until = 0, FOR_EVER if self.rounds is None else t + self.rounds
            until = until if until >= t else 0
            if strikes or until:
                found[client] = (strikes, until)
        return found

    @staticmethod
    def find_excluded(t: int, offenders: Offenders) -> npt.NDArray[np.int64]:
        """Ids of the clients that are excluded in round t, ascending."""
        return np.array(sorted(c for c, (_, until) in offenders.items() if until >= t), np.int64)
