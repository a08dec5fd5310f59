"""MFA-RR: a new random partition of the clients every S rounds, which then rotates.

N. Bhuyan, S. Moharir, G. Joshi: "Multi-Model Federated Learning with Provable Guarantees",
VALUETOOLS 2022 (arXiv 2207.04330), Algorithm "MFA-RR". MFA-Rand of the same paper is `uniform`.
"""

from __future__ import annotations

from typing import Any

from mmfl.allocate.base import Assignments, View
from mmfl.allocate.rotation import assign_in_turn
from mmfl.config import component
from mmfl.rng import Stream, stream

__all__ = ["MfaRoundRobin"]


@component
class MfaRoundRobin:
    """In every frame of S rounds, each client trains each task once, in an order drawn by chance.

    At the start of a frame, all K clients are cut at random into S subsets, equal up to one client.
    In round j = 0 ... S-1 of the frame, subset i trains task (i + j) mod S. Weights of tasks are
    ignored.

    The paper has all clients active and able to train every task. Here, active clients use their
    subset's task, and a client that may not train it trains the next one that it may.
    `round_robin` differs in that its partition is never drawn again.
    """

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """The state is the number of the frame and the seed of its partition."""
        S, K = len(view.tasks), max(view.population, 1)
        frame, step = divmod(view.round - 1, S)
        if state is None or state["frame"] != frame:
            state = {"frame": frame, "seed": int(rng.integers(2**62))}
        places = stream(state["seed"], "frame").permutation(K)[view.positions]
        return assign_in_turn(view, (places * S // K + step) % S), state
