"""Credit: fractions of clients are carried over, for any sets of tasks that clients may train."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.allocate import FedFair, Uniform
from mmfl.allocate.credit import serve_credits
from mmfl.rng import stream


@st.composite
def tables(draw):
    """Expected counts (G, S) whose rows sum to whole numbers, and credits that sum to 0."""
    G, S = draw(st.integers(0, 4)), draw(st.integers(1, 5))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    p = numbers.random((G, S)) * (numbers.random((G, S)) < 0.7)
    p[np.arange(G), numbers.integers(S, size=G)] = 1.0
    p /= p.sum(axis=1, keepdims=True)
    sizes = numbers.integers(1, 9, size=G)
    credit = numbers.normal(size=S)
    return p * sizes[:, None], sizes, credit - credit.mean()


def plain(expected, sizes, credit):
    """The same, one client after the other."""
    credit, counts = credit.copy(), np.zeros(expected.shape, int)
    fractional = [[abs(e - round(e)) > 1e-9 for e in row] for row in expected]
    for row, served in zip(expected, counts, strict=True):
        for s, e in enumerate(row):
            served[s] = int(e + 1e-9)
            credit[s] += e - served[s]
    for g in sorted(range(len(expected)), key=lambda g: sum(fractional[g])):
        choices = [s for s in range(expected.shape[1]) if fractional[g][s]]
        for _ in range(sizes[g] - counts[g].sum()):
            best = max(choices, key=lambda s: (credit[s], -s))
            choices.remove(best)
            counts[g, best] += 1
            credit[best] -= 1
    return counts, credit


@given(tables())
def test_it_is_the_plain_loop(table):
    got, want = serve_credits(*table), plain(*table)
    np.testing.assert_array_equal(got[0], want[0])
    np.testing.assert_allclose(got[1], want[1], atol=1e-9)


@given(tables())
def test_counts_are_expectations_rounded_up_or_down(table):
    expected, sizes, credit = table
    counts, after = serve_credits(expected, sizes, credit)
    assert (np.abs(counts - expected) < 1 + 1e-9).all()
    assert counts.sum(axis=1).tolist() == sizes.tolist()
    assert after.sum() == pytest.approx(credit.sum(), abs=1e-9)


@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 6))
def test_no_task_is_ever_a_client_behind_its_share(seed, m, S):
    p = np.random.default_rng(seed).dirichlet(np.ones(S))
    credit, total = np.zeros(S), np.zeros(S)
    for t in range(1, 60):
        counts, credit = serve_credits(m * p[None], np.array([m]), credit)
        total += counts[0]
        assert (total - t * m * p > -1 - 1e-6).all()
        assert np.abs(credit + total - t * m * p).max() < 1e-6


@pytest.mark.parametrize("rule", [Uniform(sampling="credit"), FedFair(sampling="credit")], ids=repr)
def test_a_task_gets_its_share_over_the_rounds(make_view, rule):
    numbers, state = np.random.default_rng(5), None
    expected, got = np.zeros(4), np.zeros(4)
    for t in range(1, 80):
        eligible = numbers.random((7, 4)) < 0.6
        view = make_view(eligible, [0.9, 0.5, 0.4, 0.1], round=t)
        given, state = rule.allocate(view, state, rng=stream(3, t))
        for may in eligible[eligible.any(axis=1)]:
            f = view.difficulty**2 if isinstance(rule, FedFair) else np.ones(4)
            expected += may * f / (may * f).sum()
        got += given.counts(4)
        assert np.abs(got - expected).max() < 3
    owed = np.array([state["credit"][name] for name in view.tasks])
    np.testing.assert_allclose(got + owed, expected, atol=1e-6)


def test_credits_go_by_the_names_of_tasks(make_view):
    one = make_view(np.ones((5, 3)), [0.9, 0.5, 0.1], tasks=("a", "b", "c"))
    other = make_view(np.ones((5, 3)), [0.1, 0.9, 0.5], tasks=("c", "a", "b"))
    a, b = None, None
    for t in range(6):
        (x, a), (y, b) = (
            FedFair(sampling="credit").allocate(view, state, rng=stream(1, t))
            for view, state in ((one, a), (other, b))
        )
        assert a == b
        assert [one.tasks[s] for s in x.tasks] == [other.tasks[s] for s in y.tasks]
