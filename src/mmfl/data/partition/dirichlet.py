"""Clients with their own class proportions, from a Dirichlet distribution.

T.-M. H. Hsu, H. Qi, M. Brown, "Measuring the Effects of Non-Identical Data Distribution for
Federated Visual Classification", 2019, arXiv 1909.06335.

The problem: K clients, classes c with a share p_c of the examples each (the prior). Every client's
proportions are q ~ Dirichlet(alpha p), and its examples' classes are drawn by q. So E q = p and
Var q_c = p_c (1 - p_c) / (alpha + 1): alpha -> inf makes all clients alike, alpha -> 0 leaves each
with one class.

The method: q_c is proportional to G_c ~ Gamma(alpha p_c), which for small alpha underflows to 0
in all classes at once. Gamma(a) is distributed as Gamma(a + 1) U^(1/a) with U uniform, so its
logarithm is log Gamma(a + 1) - E/a with E exponential, and is never lost; proportions are formed
from differences of logarithms, over whatever classes are left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mmfl.config import Flag, Positive, component
from mmfl.data.arrays import Examples
from mmfl.data.partition.base import (
    Cut,
    Drawn,
    Ints,
    Points,
    Shards,
    choose_rows,
    cut_sizes,
    need_points,
    rows_by_class,
)
from mmfl.rng import Stream

__all__ = ["Dirichlet"]

Floats = npt.NDArray[np.float64]


@component
class Dirichlet:
    """Every client has its own class proportions, Dirichlet(alpha x prior of the classes).

    The prior is the classes' share of the examples, as in Hsu et al. 2019 (arXiv 1909.06335). Some
    write Dirichlet(a, a, ..., a) instead; with C classes of equal size that is alpha = C a.

    A client's proportions depend only on (seed, task, client), with or without overlap. Without
    overlap and with `points`, clients take examples in turn, and the last ones get what is left.
    With neither, all data is used, sizes differ, and a client may hold no data for the task, which
    it then never trains.

    Attributes:
        alpha: Concentration, > 0: large = all clients alike, near 0 = one class each.
        points: Examples per client, a number or a range; by default all data, each class divided
            among the clients in proportion to their weights for it.
        overlap: Whether an example may belong to several clients.
    """

    alpha: Positive
    points: Points | None = None
    overlap: Flag = False

    def split(self, examples: Examples, clients: int, *, rng: Stream) -> Shards:
        """Draw each client's proportions, then its examples or its part of every class."""
        rows_of = rows_by_class(examples.classes("dirichlet"), rng)
        supply = np.array([len(rows) for rows in rows_of])
        weights = _Weights(self.alpha, supply / len(examples), rng)
        if self.overlap:

            def draw(client: int, size: int) -> Ints:
                own = rng.child("shard", client)
                counts = _counts(size, weights.of(client), supply, weights.scale, own)
                some = [
                    choose_rows(rows_of[c], counts[c], own) for c in np.flatnonzero(counts).tolist()
                ]
                return np.concatenate(some)

            return Drawn(need_points(self.points, len(examples)), rng, draw)
        sizes = cut_sizes(self.points, len(examples), clients, rng)
        owner = np.full(len(examples), -1)
        if self.points is None:
            _share_all(rows_of, clients, weights, owner)
        else:
            _share_some(rows_of, sizes.tolist(), weights, owner)
        return Cut.of(owner, clients)


@dataclass(frozen=True)
class _Weights:
    """The logarithms of clients' proportions, up to a constant, times `scale`.

    Attributes:
        alpha: Concentration.
        prior: (C) p, all positive.
        rng: The partition's address.
    """

    alpha: float
    prior: Floats
    rng: Stream

    @property
    def scale(self) -> float:
        """Keeps E / (alpha p) finite where alpha is nearly 0."""
        return min(1.0, self.alpha)

    def of(self, client: int) -> Floats:
        """(C) one client's."""
        own = self.rng.child("classes", client)
        size = np.log(own.standard_gamma(self.alpha * self.prior + 1.0))
        steps = own.standard_exponential(len(self.prior))
        return self.scale * size - steps / (self.prior * max(1.0, self.alpha))


def _proportions(logs: Floats, scale: float) -> Floats:
    """exp(logs / scale), divided by its sum."""
    with np.errstate(over="ignore"):  # a difference over a tiny scale may be -inf: a share of 0
        shares = np.exp((logs - logs.max()) / scale)
    found: Floats = shares / shares.sum()
    return found


def _log_proportions(logs: Floats, scale: float) -> Floats:
    """The logarithm of each row's proportions, times `scale`."""
    most = logs.max(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        total = np.exp((logs - most) / scale).sum(axis=1, keepdims=True)
    found: Floats = logs - most - scale * np.log(total)
    return found


def _counts(size: int, logs: Floats, room: Ints, scale: float, rng: Stream) -> Ints:
    """How many of each class: `size` classes drawn by the proportions over those with room left.

    What exceeds a class's room is drawn again over the other classes: the same distribution as one
    example after another.
    """
    counts = np.zeros_like(room)
    while (missing := size - counts.sum()) > 0:
        shares = _proportions(np.where(counts < room, logs, -np.inf), scale)
        counts = np.minimum(counts + rng.multinomial(missing, shares), room)
    return counts


def _share_some(rows_of: list[Ints], sizes: list[int], weights: _Weights, owner: Ints) -> None:
    """To each client in turn its number of rows, by its proportions over what is left."""
    left = np.array([len(rows) for rows in rows_of])
    for client, size in enumerate(sizes):
        own = weights.rng.child("shard", client)
        counts = _counts(size, weights.of(client), left, weights.scale, own)
        for c in np.flatnonzero(counts).tolist():
            owner[rows_of[c][left[c] - counts[c] : left[c]]] = client
        left -= counts


def _share_all(rows_of: list[Ints], clients: int, weights: _Weights, owner: Ints) -> None:
    """Every class in pieces, in proportion to the clients' weights for it."""
    logs = np.stack([weights.of(client) for client in range(clients)])
    logs = _log_proportions(logs, weights.scale)
    for c, rows in enumerate(rows_of):
        ends = np.cumsum(_proportions(logs[:, c], weights.scale))
        # A common random offset rounds every piece up or down without favour.
        draw = weights.rng.child("offset", c).random()
        cuts = np.floor(ends / ends[-1] * len(rows) + draw).astype(np.int64).clip(max=len(rows))
        owner[rows] = np.repeat(np.arange(clients), np.diff(cuts, prepend=0))
