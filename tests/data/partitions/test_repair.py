"""Scarce data is shared out without looking at all clients again and again."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from mmfl.data.partition.repair import share_some

CLASSES = 47


def scarce(clients: int, points: int, width: int, more: int) -> tuple[np.ndarray, ...]:
    """Supply by Zipf's law, classes by arithmetic, sizes."""
    weights = 1 / np.arange(1, CLASSES + 1)
    supply = np.maximum(1, np.int64((clients * points + more) * weights / weights.sum()))
    supply[0] += clients * points + more - supply.sum()
    mixed = np.arange(clients)[:, None] * 7919 + np.arange(CLASSES) ** 2 * 10473
    drawn = np.argsort(mixed % 1009, axis=1, kind="stable")[:, :width].astype(np.int32)
    return supply, drawn, np.full(clients, points)


class Counted(np.ndarray):
    """An array that counts the numbers that are computed from it."""

    work = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        plain = [np.asarray(one) if isinstance(one, Counted) else one for one in inputs]
        if out is not None:
            options["out"] = tuple(np.asarray(one) for one in out)
        Counted.work += max(map(np.size, plain))
        return getattr(ufunc, method)(*plain, **options)


@pytest.mark.parametrize("clients", [200, 400])
def test_the_work_grows_with_the_clients_and_not_with_their_square(clients, monkeypatch):
    monkeypatch.setattr(Counted, "work", 0)
    supply, drawn, sizes = scarce(clients, 16, 16, 0)
    own, counts = share_some(supply, drawn.view(Counted), sizes)
    assert (counts.sum(axis=1) == 16).all()
    assert (np.asarray(own) != drawn).any()
    assert Counted.work < 20 * drawn.size


@pytest.mark.parametrize(
    ("case", "known"),
    [
        ((200, 16, 16, 0), "b69006548365c4f6"),
        ((100, 50, 23, 100), "b79b6d09282cab29"),
        ((300, 8, 8, 900), "1ac4fdcb64152964"),
        ((60, 30, 3, 300), "3027e4d6af13dfe2"),
    ],
)
def test_who_gets_what_is_what_it_was(case, known):
    own, counts = share_some(*scarce(*case))
    found = hashlib.sha256(own.astype("<i4").tobytes() + counts.astype("<i8").tobytes())
    assert found.hexdigest()[:16] == known
