"""How differently labels are spread over clients: one number between 0 and 1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mmfl.rng import stream

__all__ = ["label_skew", "skew_by_chance", "target_skew"]

Ints = npt.NDArray[np.int64]


def label_skew(labels: Ints, owners: Ints) -> float:
    """The share of labels that would have to change for all clients to have the same mix.

    That is the total variation distance between the labels of a client and those of all clients
    together, 1/2 sum_c |p_kc - p_c|, as a mean over clients that counts each by its examples.

    Args:
        labels: (N) class numbers; or (N x places), of sequences.
        owners: (N) who holds each example.
    """
    labels, owners = _flatten(labels, owners)
    clients, who, held = np.unique(owners, return_inverse=True, return_counts=True)
    classes, which, seen = np.unique(labels, return_inverse=True, return_counts=True)
    if not len(clients):
        return 0.0
    pairs, counts = np.unique(who * len(classes) + which, return_counts=True)
    expected = held[pairs // len(classes)] * (seen[pairs % len(classes)] / len(labels))
    # A class that a client does not have adds what was expected; over all classes that is `held`.
    return float((np.abs(counts - expected) - expected).sum() + len(labels)) / (2 * len(labels))


def target_skew(targets: npt.NDArray[np.float32], owners: Ints) -> float:
    """The share of the variance of real targets that lies between clients (eta squared).

    Args:
        targets: (N) or (N x width); of several targets it is the mean over those that vary.
        owners: (N) who holds each example.
    """
    values = targets.reshape(len(targets), -1).astype(np.float64)
    values = values - values.mean(axis=0)
    clients, who, held = np.unique(owners, return_inverse=True, return_counts=True)
    sums = np.zeros((len(clients), values.shape[1]))
    np.add.at(sums, who, values)
    whole = np.square(values).sum(axis=0)
    varies = whole > 0
    if not varies.any():
        return 0.0
    between = (np.square(sums) / held[:, None]).sum(axis=0)
    return float((between[varies] / whole[varies]).mean())


def skew_by_chance(values: npt.NDArray[np.generic], owners: Ints) -> float:
    """The same number after the labels, or targets, were shuffled once with a fixed seed."""
    mixed = values[stream(0, "skew", len(values)).permutation(len(values))]
    return label_skew(mixed, owners) if values.dtype.kind == "i" else target_skew(mixed, owners)  # type: ignore[arg-type]


def _flatten(labels: Ints, owners: Ints) -> tuple[Ints, Ints]:
    places = labels.reshape(len(labels), -1)
    return places.reshape(-1), np.repeat(owners, places.shape[1])
