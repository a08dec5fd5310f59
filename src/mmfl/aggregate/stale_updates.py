"""Stale updates stand in for those of clients that do not train.

H. Zhang, Z. Gong, Z. Li, M. Siew, C. Joe-Wong, R. El-Azouzi: "Towards Optimal Heterogeneous Client
Sampling in Multi-Model Federated Learning" (arXiv 2504.05138), the aggregation of MMFL-StaleVR:

    w_s <- w_s + sum over all i of d_is beta_is h_is
               + sum over the i that trained of (d_is / p_is) (G_is - beta_is h_is)

with a client's update G, its last one h, and beta = <G, h> / |h|^2, which makes G - beta h as short
as possible. With beta = 1 it is FedVARP (Jhunjhunwala et al., UAI 2022), with beta = 0 `unbiased`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, Strict

from mmfl.aggregate.base import ActiveClients
from mmfl.aggregate.collected import apply_step
from mmfl.aggregate.unbiased import weigh_update
from mmfl.config import component
from mmfl.exchange import ClientUpdate, Flat, Params

__all__ = ["StaleUpdates"]

Doubles = npt.NDArray[np.float64]


@component
class StaleUpdates:
    """w <- w + sum of d_i beta_i h_i + sum of (d_i / p_i) (G_i - beta_i h_i).

    The expectation is the step with all active clients, as with `unbiased`; the variance is smaller
    if updates resemble those that a client sent before. The first sum is over the round's active
    clients that may train the task. The server keeps the last update of each client at each task:
    4 bytes for each weight, also in checkpoints.

    Decided here: beta must be known before G, so it is that of the client's last turn, within
    [0, 1]. Before its second turn, it is the mean of those known for the task, or 0.

    Running statistics of batch norm are averaged by data size, as in `mean`.

    Attributes:
        beta: The same beta for all clients, in [0, 1]; by default it is measured.
    """

    beta: Annotated[float, Strict(), Field(ge=0, le=1)] | None = None

    mergeable: ClassVar[Literal[False]] = False
    wants: ClassVar[tuple[str, ...]] = ("active",)

    def aggregate(
        self,
        params: Params,
        updates: Iterable[ClientUpdate],
        difficulty: float,
        state: Any,
        *,
        active: ActiveClients,
    ) -> tuple[Params, Any]:
        """The task's new weights.

        State: `ids` (r) of the clients that have trained the task, ascending, with their last
        updates (`updates`, a list of vectors), `beta` (r; NaN = not measured yet) and `news` (r),
        the norm of G - beta h when the last update came, for the allocator `stale_vr`.
        """
        known = state or {"ids": np.empty(0, np.int64), "updates": [], "beta": _NONE, "news": _NONE}
        beta = self._find_beta(known["beta"])
        place = {client: row for row, client in enumerate(known["ids"].tolist())}
        total = int(active.examples.sum())
        step, mean, examples = np.zeros(params.layout.size), np.zeros(params.layout.size), 0
        fresh: dict[int, tuple[Flat, float, float]] = {}
        for update in updates:
            assert isinstance(update.delta, Params), "only checked updates are aggregated"
            client, G = update.address.client, update.delta.flat.astype(np.float64)
            if params.layout.statistics:
                mean += update.examples * G
            examples += update.examples
            own, row, news = np.nan, place.get(client), G
            weight = weigh_update(update, total)
            step += weight * G
            if row is not None:
                h = known["updates"][row].astype(np.float64)
                own = _measure_beta(G, h)
                news = G - own * h
                step -= weight * beta[row] * h
            kept = update.delta.flat.copy()
            kept.flags.writeable = False
            fresh[client] = (kept, own, math.sqrt(_dot(news, news)))
        if not fresh:
            return Params(params.layout, params.flat.copy()), state
        for client, held in zip(active.ids.tolist(), active.examples.tolist(), strict=True):
            row = place.get(client)
            if row is not None and beta[row]:
                step += (held / total * beta[row]) * known["updates"][row].astype(np.float64)
        return apply_step(params, step, mean / examples), _keep(known, fresh)

    def _find_beta(self, measured: Doubles) -> Doubles:
        """(r) beta of each client that has trained the task."""
        if self.beta is not None:
            return np.full(len(measured), self.beta)
        unknown = np.isnan(measured)
        usual = 0.0 if unknown.all() else measured[~unknown].mean()
        return np.where(unknown, usual, measured)


_NONE = np.empty(0)


def _measure_beta(G: Doubles, h: Doubles) -> float:
    """<G, h> / |h|^2, within [0, 1]."""
    square = _dot(h, h)
    return min(1.0, max(0.0, _dot(G, h) / square)) if square > 0 else 0.0


def _dot(a: Doubles, b: Doubles) -> float:
    """The product, added up by NumPy: the bits of BLAS's depend on the number of threads."""
    return float((a * b).sum())


def _keep(known: dict[str, Any], fresh: dict[int, tuple[Flat, float, float]]) -> dict[str, Any]:
    """The state with these clients' last update, beta and news; vectors are shared, not copied."""
    rows = dict(
        zip(
            known["ids"].tolist(),
            zip(known["updates"], known["beta"].tolist(), known["news"].tolist(), strict=True),
            strict=True,
        )
    )
    rows |= fresh
    ids = sorted(rows)
    return {
        "ids": np.array(ids, np.int64),
        "updates": [rows[client][0] for client in ids],
        "beta": np.array([rows[client][1] for client in ids]),
        "news": np.array([rows[client][2] for client in ids]),
    }
