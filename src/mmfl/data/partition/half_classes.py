"""Every client has examples of only a share of the classes: the paper's non-iid setting."""

from __future__ import annotations

import numpy as np

from mmfl.config import Flag, Share, component
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
from mmfl.data.partition.repair import Places, share_all, share_some
from mmfl.rng import Stream

__all__ = ["HalfClasses"]


@component
class HalfClasses:
    """Every client has examples of only a share of the classes: the paper's non-iid setting.

    A client's classes are drawn at random and depend only on (seed, task, client), with or without
    overlap, so that two clients' classes are independent. Without overlap, a client gets classes
    that it did not draw only where the data runs out; a warning says how many clients did.

    Attributes:
        share: Share of the classes that a client has (one half in the paper), at least one class.
        points: Examples per client, a number or a range, in equal parts from its classes (without
            overlap: as equal as the data allows); by default all data, each class shared out
            evenly among the clients that drew it.
        overlap: Whether an example may belong to several clients.
    """

    share: Share = 0.5
    points: Points | None = None
    overlap: Flag = False

    def split(self, examples: Examples, clients: int, *, rng: Stream) -> Shards:
        """Draw each client's classes; then cut up each class, or let each client draw from it."""
        labels = examples.classes("half_classes")
        rows_of = rows_by_class(labels, rng)
        classes = len(rows_of)
        some = max(1, round(self.share * classes))

        def classes_of(client: int) -> Ints:
            return rng.child("classes", client).choice(classes, some, replace=False)

        if self.overlap:
            least = sum(sorted(map(len, rows_of))[:some])
            which = f"that a client with {some} of the {classes} classes can draw from"
            points = need_points(self.points, least, which)

            def draw(client: int, size: int) -> Ints:
                pool = np.concatenate([rows_of[c] for c in np.sort(classes_of(client)).tolist()])
                return choose_rows(pool, size, rng.child("shard", client))

            return Drawn(points, rng, draw)
        sizes = cut_sizes(self.points, len(labels), clients, rng)
        most = some if self.points is None else min(some, int(sizes.max()))
        drawn = np.empty((clients, most), np.int32)
        for client in range(clients):
            drawn[client] = classes_of(client)[:most]
        supply = np.array([len(rows) for rows in rows_of])
        if self.points is None:
            own, counts = share_all(supply, drawn)
        else:
            own, counts = share_some(supply, drawn, sizes)
        other = (np.sort(own) != np.sort(drawn)).any(axis=1)
        fewer = np.count_nonzero(counts, axis=1) < np.minimum(sizes, most)
        return _cut(rows_of, own, counts, int(np.count_nonzero(other | fewer)))


def _cut(rows_of: list[Ints], own: Places, counts: Ints, changed: int) -> Cut:
    """Rows by client and then by class, from the (K, W) classes that clients hold and how many."""
    clients, most = own.shape
    by_class = np.argsort(own, axis=None, kind="stable")  # and then by client
    owner = np.repeat(by_class // most, counts.ravel()[by_class])
    held = np.bincount(own[counts > 0], counts[counts > 0], len(rows_of)).astype(np.int64)
    rows = np.concatenate([rows[:n] for rows, n in zip(rows_of, held.tolist(), strict=True)])
    order = np.argsort(owner, kind="stable")
    said = []
    if changed:
        said.append(
            f"{changed} of {clients} clients got classes that they did not draw, or fewer, "
            "because the data runs out without overlap"
        )
    if not held.all():
        none = np.count_nonzero(held == 0)
        said.append(f"no client holds examples of {none} of the {len(held)} classes")
    note = f"half_classes: {', and '.join(said)}" if said else ""
    return Cut(rows[order], owner[order], clients, note)
