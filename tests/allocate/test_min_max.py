"""The programme behind equal bounds, against all assignments and against its plain loop."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.allocate.min_max import min_max_counts, obstacle
from mmfl.allocate.patterns import Patterns


def patterns_of(eligible):
    eligible = np.asarray(eligible, dtype=bool)
    return Patterns.of(eligible, np.arange(eligible.shape[1]))


def reached(bounds, counts):
    """The bounds at these numbers of clients, from the largest."""
    return sorted((row[n] for row, n in zip(bounds.tolist(), counts, strict=True)), reverse=True)


def possible_counts(eligible):
    """Numbers of clients per task, over all ways to give each client a task or none."""
    S = eligible.shape[1]
    choices = [[*np.flatnonzero(row).tolist(), S] for row in eligible]
    for choice in product(*choices):
        yield tuple(np.bincount(choice, minlength=S + 1)[:S].tolist())


def handed_out(bounds, possible):
    """Clients go to the task with the largest bound, as many as lower it, while that is possible.

    The plain loop of the module's docstring.
    """
    S, width = bounds.shape
    n, stuck = [0] * S, set()
    while len(stuck) < S:
        s = max(set(range(S)) - stuck, key=lambda s: bounds[s, n[s]])
        lower = [k for k in range(n[s], width) if bounds[s, k] < bounds[s, n[s]]]
        more = [*n[:s], *lower[:1], *n[s + 1 :]]
        if lower and tuple(more) in possible:
            n = more
        else:
            stuck.add(s)
    return n


@st.composite
def programmes(draw, values=None):
    """Bounds that never rise, and who may train what."""
    S, m = draw(st.integers(1, 3)), draw(st.integers(0, 5))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = draw(st.sampled_from([0.3, 0.6, 1.0]))
    eligible = numbers.random((m, S)) < share
    drawn = numbers.random((S, m + 1)) if values is None else numbers.choice(values, (S, m + 1))
    bounds = -np.sort(-drawn, axis=1)
    if values is None:  # steps: some clients lower nothing
        flat = numbers.random((S, m)) < 0.3
        for n in range(m):
            bounds[flat[:, n], n + 1] = bounds[flat[:, n], n]
    return bounds, eligible


@given(programmes())
def test_no_assignment_has_smaller_bounds(programme):
    """Nor, where the largest are the same, a smaller second largest, and so on."""
    bounds, eligible = programme
    counts = min_max_counts(bounds, patterns_of(eligible)).sum(axis=0)
    best = min(reached(bounds, n) for n in possible_counts(eligible))
    assert reached(bounds, counts) == best


@given(programmes(values=[0.1, 0.2, 0.3, 0.4]))
def test_among_equal_bounds_the_largest_is_as_small_as_can_be(programme):
    bounds, eligible = programme
    counts = min_max_counts(bounds, patterns_of(eligible)).sum(axis=0)
    best = min(max(reached(bounds, n)) for n in possible_counts(eligible))
    assert max(reached(bounds, counts)) == best


@given(programmes())
def test_handing_out_comes_to_the_same(programme):
    bounds, eligible = programme
    plain = handed_out(bounds, set(possible_counts(eligible)))
    counts = min_max_counts(bounds, patterns_of(eligible)).sum(axis=0)
    assert reached(bounds, plain) == reached(bounds, counts)
    assert (counts >= plain).all()


@given(programmes())
def test_everybody_gets_a_task_that_it_may_train(programme):
    bounds, eligible = programme
    patterns = patterns_of(eligible)
    table = min_max_counts(bounds, patterns)
    assert (table >= 0).all()
    assert not table[~patterns.sets].any()
    expected = np.where(patterns.sets.any(axis=1), patterns.sizes, 0)
    assert table.sum(axis=1).tolist() == expected.tolist()


@given(programmes(), st.integers(0, 2**32))
def test_the_verifier_tells_the_best_from_the_rest(programme, seed):
    bounds, eligible = programme
    patterns, every = patterns_of(eligible), sorted(set(possible_counts(eligible)))
    best = min(max(reached(bounds, n)) for n in every)
    counts = np.array(every[seed % len(every)])
    found = obstacle(bounds, counts, patterns)
    assert (found is not None) == (max(reached(bounds, counts)) == best)


def test_an_obstacle_can_be_checked_by_hand():
    bounds = np.array([[9.0, 8, 7, 6, 5], [9.0, 6, 5, 4, 3], [2.0, 1, 0, 0, 0]])
    eligible = [[1, 1, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1]]
    patterns = patterns_of(eligible)
    counts = min_max_counts(bounds, patterns).sum(axis=0)
    assert counts.tolist() == [2, 1, 1]  # bounds 7, 6, 1
    # To come below 7, tasks 0 and 1 need 3 + 1 clients, and three may train one of them.
    assert obstacle(bounds, counts, patterns) == (0, 1)
    assert obstacle(bounds, np.array([1, 2, 1]), patterns) is None


def test_a_task_that_nobody_may_train_keeps_nobody_from_the_others():
    bounds = np.array([[9.0, 1, 0, 0], [3.0, 2, 1, 0], [3.0, 2.5, 2.4, 2.3]])
    counts = min_max_counts(bounds, patterns_of([[0, 1, 1]] * 3)).sum(axis=0)
    assert counts.tolist() == [0, 1, 2]


def test_clients_that_lower_no_bound_go_where_the_fewest_are():
    bounds = np.array([[0.9] + [0.5] * 9, [0.3] * 10, [0.3] * 10])
    counts = min_max_counts(bounds, patterns_of(np.ones((9, 3)))).sum(axis=0)
    assert counts.tolist() == [3, 3, 3]


@pytest.mark.parametrize("share", [0.4, 1.0])
def test_ten_thousand_clients(share):
    numbers = np.random.default_rng(1)
    m, f, v = 10_000, np.array([0.9, 0.5, 0.899, 0.6, 0.897]), np.array([9.0, 1, 7, 2, 5])
    patterns = patterns_of(numbers.random((m, 5)) < share)
    bounds = (f[:, None] + v[:, None] / np.arange(1, m + 2)).copy()
    counts = min_max_counts(bounds, patterns).sum(axis=0)
    assert obstacle(bounds, counts, patterns) is not None
    assert counts.sum() == patterns.sizes[patterns.sets.any(axis=1)].sum()


def test_more_tasks_than_sets_can_be_counted_for(monkeypatch):
    """A flow tells what is possible, and says the same as Hall's theorem."""
    numbers = np.random.default_rng(4)
    patterns = patterns_of(numbers.random((40, 5)) < 0.4)
    bounds = -np.sort(-numbers.random((5, 41)), axis=1)
    counted = min_max_counts(bounds, patterns)
    monkeypatch.setattr("mmfl.allocate.min_max._COUNTED", 4)
    assert (min_max_counts(bounds, patterns) == counted).all()
