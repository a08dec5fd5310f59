"""Label skew and target skew: by hand, by their definition, and at their ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.data import label_skew, skew_by_chance, target_skew


def by_definition(labels, owners):
    labels, owners = np.asarray(labels), np.asarray(owners)
    whole = np.bincount(labels, minlength=9) / len(labels)
    total = 0.0
    for client in set(owners.tolist()):
        own = labels[owners == client]
        total += len(own) * np.abs(np.bincount(own, minlength=9) / len(own) - whole).sum() / 2
    return total / len(labels)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), min_size=1, max_size=40))
def test_label_skew_is_the_mean_total_variation_distance(pairs):
    labels, owners = (np.array(column) for column in zip(*pairs, strict=True))
    skew = label_skew(labels, owners)
    assert skew == pytest.approx(by_definition(labels, owners), abs=1e-12)
    assert -1e-12 <= skew < 1


def test_the_same_mix_has_no_skew_and_own_classes_have_most():
    labels = np.tile(np.arange(10), 10)
    assert label_skew(labels, np.repeat(np.arange(10), 10)) == pytest.approx(0)
    assert label_skew(np.sort(labels), np.repeat(np.arange(10), 10)) == pytest.approx(0.9)


def test_one_label_in_four_has_to_change():
    assert label_skew(np.array([0, 0, 0, 1, 1, 1, 1, 0]), np.repeat([3, 7], 4)) == 0.25


def test_sequences_have_a_label_at_each_place():
    labels = np.array([[0, 0], [1, 1]])
    assert label_skew(labels, np.array([0, 1])) == 0.5
    assert label_skew(np.array([[0, 1], [1, 0]]), np.array([0, 1])) == 0


def test_target_skew_is_the_share_of_variance_between_clients():
    owners = np.repeat(np.arange(2), 2)
    assert target_skew(np.array([1, 1, 5, 5], np.float32), owners) == 1
    assert target_skew(np.array([1, 5, 1, 5], np.float32), owners) == 0
    assert target_skew(np.array([0, 2, 4, 6], np.float32), owners) == pytest.approx(0.8)
    both = np.array([[1, 1], [1, 5], [5, 1], [5, 5]], np.float32)
    assert target_skew(both, owners) == 0.5
    assert target_skew(np.ones((4, 2), np.float32), owners) == 0


def test_chance_is_what_shuffled_labels_give():
    labels, owners = np.repeat(np.arange(4), 500), np.repeat(np.arange(4), 500)
    assert label_skew(labels, owners) == 0.75
    assert 0 < skew_by_chance(labels, owners) < 0.1
    assert skew_by_chance(labels, owners) == skew_by_chance(labels, owners)
    assert 0 < skew_by_chance(labels.astype(np.float32), owners) < 0.1
