"""MMFL-LVR's probabilities against the problem that they solve; UCB against its plain loop."""

import dataclasses
from math import inf, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from mmfl.allocate import Lvr, StaleVr, Ucb, first_fault
from mmfl.allocate.rows import draw_rows
from mmfl.allocate.rules.lvr import water_fill
from mmfl.rng import stream


@dataclasses.dataclass(frozen=True)
class Told:
    """Remembers what a test says."""

    counts: np.ndarray
    loss: np.ndarray
    norm: np.ndarray

    def rows(self, ids, tasks):
        return self.counts, self.loss, self.norm

    def turns(self, tasks):
        return self.counts.sum(axis=0)


def plain_fill(needs, m):
    """The paper's formula: the largest l for which no client's probability exceeds 1."""
    n = len(needs)
    order = sorted(range(n), key=lambda i: needs[i])
    for length in range(n, 0, -1):
        low = order[:length]
        total = sum(needs[i] for i in low)
        rate = (m - n + length) / total if total else inf
        if rate > 0 and rate * needs[low[-1]] <= 1 + 1e-12:
            return [rate * needs[i] if i in low else 1.0 for i in range(n)]
    return [1.0] * n


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=12), st.floats(0.01, 1))
def test_water_filling_is_the_papers_formula(needs, share):
    m = share * len(needs)
    got = water_fill(np.array(needs), m)
    np.testing.assert_allclose(got, plain_fill(needs, m), rtol=1e-9)
    assert got.sum() == pytest.approx(m)


@pytest.mark.parametrize("seed", range(4))
def test_water_filling_minimises_the_variance(seed):
    needs = np.random.default_rng(seed).lognormal(sigma=1.5, size=5)
    got = water_fill(needs, 2.5)
    best = minimize(
        lambda q: (needs**2 / q).sum(),
        np.full(5, 0.5),
        bounds=[(1e-6, 1)] * 5,
        constraints={"type": "eq", "fun": lambda q: q.sum() - 2.5},
        tol=1e-12,
    )
    assert (needs**2 / got).sum() == pytest.approx(best.fun, rel=1e-5)


def test_clients_without_need_rest_only_if_not_all_train():
    assert water_fill(np.array([0.0, 1.0, 3.0]), 1.0).tolist() == [0.0, 0.25, 0.75]
    assert water_fill(np.array([0.0, 0.0, 3.0]), 2.0).tolist() == [0.0, 0.0, 1.0]
    assert water_fill(np.empty(0), 0.0).tolist() == []


def test_lvr_draws_in_proportion_to_share_times_loss(make_view):
    n = 3000
    sizes = np.tile([10, 30], (n, 1))
    loss = np.tile([0.9, 0.1], (n, 1))
    loss[:, 1][:1500] = np.nan  # the mean of the task
    told = Told(np.ones((n, 2)), loss, loss)
    view = make_view(np.ones((n, 2)), sizes=sizes, remembered=told)
    got, _ = Lvr().allocate(view, None, rng=stream(1))
    assert len(got) == n
    assert set(np.round(got.probabilities[got.tasks == 0], 12)) == {0.9}  # shares are alike
    assert got.counts(2)[0] / n == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("rule", [Lvr(), Lvr(share=0.4), StaleVr(), Ucb()], ids=repr)
def test_a_client_that_claims_an_absurd_loss_harms_nobody_elses_draw(make_view, rule):
    loss, state = np.full((9, 2), 0.5), None
    loss[3, 0], loss[4, 1], loss[5, 0] = 1.7e308, -1.7e308, 1.7e308
    for t in range(1, 4):
        told = Told(np.full((9, 2), t - 1), loss, np.abs(loss))
        view = make_view(np.ones((9, 2)), round=t, remembered=told)
        got, state = rule.allocate(view, state, rng=stream(1, t))
        assert first_fault(got, view) is None
        assert (got.probabilities > 0).all()
        assert len(got) == 9 or rule == Lvr(share=0.4)


def test_lvr_with_a_share_trains_that_many(make_view):
    n = 3000
    loss = np.random.default_rng(0).lognormal(size=(n, 2))
    view = make_view(np.ones((n, 2)), remembered=Told(np.ones((n, 2)), loss, loss))
    got, _ = Lvr(share=0.3).allocate(view, None, rng=stream(1))
    assert len(got) / n == pytest.approx(0.3, abs=0.02)
    U = loss / loss.sum() / n
    assert (U.sum(axis=1)[got.clients]).mean() > U.sum(axis=1).mean() * 1.2


@given(st.integers(0, 2**32))
def test_a_client_draws_the_first_task_whose_running_sum_passes_its_draw(make_view, seed):
    numbers = np.random.default_rng(seed)
    p = numbers.random((8, 3)) * (numbers.random((8, 3)) < 0.6)
    p /= np.maximum(p.sum(axis=1, keepdims=True), 1.0)
    view = make_view(p > 0, tasks=("c", "a", "b"))
    q = p.sum(axis=1)
    got = draw_rows(view, 5.0 * p, q, rng=stream(seed))
    draws, want = stream(seed).at(view.clients), {}
    for i in range(8):
        passed = 0.0
        for s in (1, 2, 0):
            passed += p[i, s]
            if i not in want and draws[i] < passed:
                want[i] = s
    assert dict(zip(got.clients.tolist(), got.tasks.tolist(), strict=True)) == want
    np.testing.assert_allclose(p[got.clients, got.tasks], got.probabilities)


def plain_ucb(views, gamma, seed):
    """Every client's discounted sums, from all its turns; then task after task chooses."""
    turns = {}  # (client, task) to [(round, loss), ...]
    given_last = {}
    for view in views:
        names = sorted(range(len(view.tasks)), key=view.tasks.__getitem__)
        t, S = view.round, len(view.tasks)
        bound = {}
        for i, client in enumerate(view.clients.tolist()):
            last = given_last.get(client)
            if last is not None and view.counts[i, last[1]] > last[2]:
                turns.setdefault((client, last[1]), []).append((last[0], view.loss[i, last[1]]))
            for s in range(S):
                seen = turns.get((client, s), [])
                N = sum(gamma ** (t - 1 - u) for u, _ in seen)
                L = sum(gamma ** (t - 1 - u) * loss for u, loss in seen)
                rounds = sum(gamma**j for j in range(t))
                bound[i, s] = L / N + sqrt(2 * log(rounds) / N) if N else inf
        draws = stream(seed, t).at(view.clients)
        able = [i for i in range(len(view.clients)) if view.eligible[i].any()]
        task = {}
        for place in range(S):
            s = names[(t - 1 + place) % S]
            number = len(able) // S + (place < len(able) % S)
            free = [i for i in able if i not in task and view.eligible[i, s]]
            free.sort(key=lambda i, s=s: (-bound[i, s], draws[i]))
            task |= dict.fromkeys(free[:number], s)
        for i in able:
            if i not in task:
                task[i] = max(np.flatnonzero(view.eligible[i]), key=lambda s, i=i: bound[i, s])
        for i, client in enumerate(view.clients.tolist()):
            s = task.get(i)
            given_last[client] = None if s is None else (t, s, view.counts[i, s])
        yield {view.clients[i]: s for i, s in task.items()}


@pytest.mark.parametrize("gamma", [0.9, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_ucb_is_the_plain_loop(make_view, gamma, seed):
    numbers, rule, state = np.random.default_rng(seed), Ucb(gamma=gamma), None
    K, S, views, got = 9, 3, [], []
    counts, loss = np.zeros((K, S), int), np.full((K, S), np.nan)
    may = numbers.random((K, S)) < 0.8
    for t in range(1, 16):
        some = np.sort(numbers.choice(K, 6, replace=False))
        told = Told(counts[some], loss[some], loss[some])
        views.append(make_view(may[some], round=t, clients=some, remembered=told))
        given_now, state = rule.allocate(views[-1], state, rng=stream(seed, t))
        got.append(dict(zip(given_now.clients.tolist(), given_now.tasks.tolist(), strict=True)))
        counts, loss = counts.copy(), loss.copy()
        for client, s in got[-1].items():
            if numbers.random() < 0.8:  # the others' turns failed
                counts[client, s] += 1
                loss[client, s] = numbers.random() + s
    assert got == list(plain_ucb(views, gamma, seed))
