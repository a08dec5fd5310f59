"""MMFL-StaleVR: LVR's probabilities for updates of which only the new part is sampled.

H. Zhang, Z. Gong, Z. Li, M. Siew, C. Joe-Wong, R. El-Azouzi: "Towards Optimal Heterogeneous Client
Sampling in Multi-Model Federated Learning" (arXiv 2504.05138). Its aggregation (the aggregator
`stale_updates`) uses the stale update h_is of every client, and samples only G_is - beta_is h_is.
So LVR's water-filling (`rules/lvr.py`) is applied to U_is = d_is |G_is - beta_is h_is|.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mmfl.allocate.base import Assignments, Floats, View
from mmfl.allocate.rules.lvr import Share, allocate_by_need, fill_unknown
from mmfl.config import component
from mmfl.rng import Stream

__all__ = ["StaleVr"]


@component
class StaleVr:
    """Clients draw tasks in proportion to U_is: share of the examples times news in the update.

    Use it with `aggregator = "stale_updates"`. With another aggregator there is no news to know,
    and it is `lvr` by norm. Weights of tasks are ignored.

    Decided here: in the paper's StaleVR, every client computes G_is in each round to report its
    news, which costs as much as training; its StaleVRE approximates that from the active clients
    alone. Here the news of a client is that of its last turn at the task, |G - beta h| when G
    came; after its first turn it is |G|. What is not known counts as the mean of what is.

    Attributes:
        share: The share of the active clients that train, in expectation, as in `Lvr`.
    """

    share: Share = 1.0

    aggregator: ClassVar[str] = "stale_updates"

    def allocate(self, view: View, state: Any, *, rng: Stream) -> tuple[Assignments, Any]:
        """One draw for each client; all are independent."""
        need = fill_unknown(_find_news(view), view)
        return allocate_by_need(view, need, self.share, rng=rng), state


def _find_news(view: View) -> Floats:
    """(n, S) |G - beta h| of the last turn, as the aggregator knows it, or |G|; NaN = unknown."""
    news: Floats = view.norm.copy()
    for s, name in enumerate(view.tasks):
        table = view.aggregation.get(name)
        if not (isinstance(table, dict) and {"ids", "news"} <= table.keys()):
            continue
        ids = table["ids"]
        place = np.searchsorted(ids, view.clients)
        rows = np.flatnonzero(place < len(ids))
        rows = rows[ids[place[rows]] == view.clients[rows]]
        news[rows, s] = table["news"][place[rows]]
    return news
