"""The field's simple rules, each against its formula."""

from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.allocate import ExponentialWeights, MfaRoundRobin, Tilted
from mmfl.rng import stream


def play(rule, make_view, rounds, eligible, difficulty=None, **fields):
    """Each round's tasks by client."""
    state, seen = None, []
    for t in range(1, rounds + 1):
        f = None if difficulty is None else difficulty[t - 1]
        view = make_view(eligible, f, round=t, **fields)
        got, state = rule.allocate(view, state, rng=stream(9, "allocate", t))
        seen.append(dict(zip(got.clients.tolist(), got.tasks.tolist(), strict=True)))
    return seen


@given(st.integers(1, 20), st.integers(1, 5))
def test_mfa_round_robin_trains_every_task_once_in_a_frame(make_view, K, S):
    seen = play(MfaRoundRobin(), make_view, 2 * S, np.ones((K, S)))
    for frame in (seen[:S], seen[S:]):
        for client in range(K):
            assert sorted(turn[client] for turn in frame) == list(range(S))
        sizes = np.bincount(list(frame[0].values()), minlength=S)
        assert sizes.max() - sizes.min() <= 1


def test_mfa_round_robin_draws_a_new_partition_for_each_frame(make_view):
    seen = play(MfaRoundRobin(), make_view, 6, np.ones((30, 3)))
    first = [turn[0] for turn in seen]
    assert seen[0] != seen[3]
    assert all((seen[1][c] - seen[0][c]) % 3 == 1 for c in range(30))
    assert any(seen[0][c] != first[0] for c in range(1, 10))


def test_mfa_round_robin_partition_is_of_the_whole_population(make_view):
    everyone = play(MfaRoundRobin(), make_view, 4, np.ones((12, 4)))
    places = np.array([1, 5, 6])
    some = play(MfaRoundRobin(), make_view, 4, np.ones((3, 4)), positions=places, population=12)
    for all_turns, turns in zip(everyone, some, strict=True):
        assert list(turns.values()) == [all_turns[place] for place in places.tolist()]


def test_mfa_round_robin_goes_on_to_a_task_that_the_client_may_train(make_view):
    eligible = [[True, False, False]] * 4 + [[False, False, False]]
    for turn in play(MfaRoundRobin(), make_view, 5, eligible):
        assert turn == {0: 0, 1: 0, 2: 0, 3: 0}


def probabilities(rule, make_view, difficulty, state=None, **fields):
    """p of a client that may train all tasks: those of 4,000 clients' draws."""
    S = len(difficulty)
    view = make_view(np.ones((4000, S)), difficulty, **fields)
    got, state = rule.allocate(view, state, rng=stream(2))
    p = np.zeros(S)
    p[got.tasks] = got.probabilities
    assert np.abs(got.counts(S) / 4000 - p).max() < 0.03
    return p, state


@pytest.mark.parametrize("tilt", [0.0, 1.0, 5.0, 40.0])
def test_tilted_is_its_formula(make_view, tilt):
    f, w = np.array([0.9, 0.2, 0.5]), np.array([1.0, 2.0, 0.5])
    p, _ = probabilities(Tilted(tilt=tilt), make_view, f, weights=w)
    odds = [w[s] * exp(tilt * f[s]) for s in range(3)]
    want = np.array(odds) / sum(odds)
    drawn = p > 0
    np.testing.assert_allclose(p[drawn], want[drawn], rtol=1e-12)
    assert (want[~drawn] < 1e-3).all()


def test_exponential_weights_are_those_of_group_dro(make_view):
    rule, q, state = ExponentialWeights(rate=0.5), np.full(3, 1 / 3), None
    for f in ([np.nan] * 3, [0.9, 0.5, 0.7], [0.6, 0.8, 0.7], [0.5, 0.8, 0.2]):
        if not np.isnan(f).any():
            q = q * np.exp(0.5 * np.array(f))
            q /= q.sum()
        p, state = probabilities(rule, make_view, np.array(f), state)
        np.testing.assert_allclose(p, q, rtol=1e-12)


def test_exponential_weights_start_from_the_weights_of_tasks(make_view):
    w = np.array([1.0, 3.0])
    p, _ = probabilities(ExponentialWeights(), make_view, np.array([0.4, 0.4]), weights=w)
    np.testing.assert_allclose(p, [0.25, 0.75])


def test_exponential_weights_come_back_from_extremes(make_view):
    rule, state = ExponentialWeights(rate=100.0), None
    for f in [[1.0, 0.0]] * 9 + [[0.0, 1.0]] * 30:
        p, state = probabilities(rule, make_view, np.array(f), state)
    assert p.tolist() == [0.0, 1.0]
