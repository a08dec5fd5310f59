"""FairFedJS: queues, bids, and who is served."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmfl.allocate import JobQueues
from mmfl.rng import stream


def plain(rule, view, queue, draws):
    """The paper's loop: jobs by their index, each takes free clients up to its demand."""
    names, S = view.tasks, len(view.tasks)
    bids = {n: 0.0 if f != f else f for n, f in zip(names, view.difficulty, strict=True)}
    queue = {n: queue.get(n, 0.0) for n in names}
    order = sorted(names, key=lambda n: (-(queue[n] + rule.sigma * bids[n]), n))
    free = [i for i in np.argsort(draws, kind="stable") if view.eligible[i].any()]
    demand, task = max(1, round(rule.demand * len(free) / S)), {}
    for limit in (demand, len(free)):
        for name in order:
            s = names.index(name)
            for i in [i for i in free if view.eligible[i, s]][:limit]:
                task[i] = s
                free.remove(i)
    for s, name in enumerate(names):
        served = sum(1 for given_task in task.values() if given_task == s)
        queue[name] = max(0.0, queue[name] + 1 - served / demand)
    return {view.clients[i]: s for i, s in task.items()}, queue


@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 5), st.floats(0.5, 4))
def test_it_is_the_plain_loop(make_view, seed, n, S, demand):
    numbers, rule, state, queue = np.random.default_rng(seed), JobQueues(demand=demand), None, {}
    for t in range(1, 6):
        f = numbers.random(S) if t > 1 else None
        view = make_view(numbers.random((n, S)) < 0.7, f, round=t)
        got, state = rule.allocate(view, state, rng=stream(seed, t))
        want, queue = plain(rule, view, queue, stream(seed, t).at(view.clients))
        assert dict(zip(got.clients.tolist(), got.tasks.tolist(), strict=True)) == want
        np.testing.assert_allclose([state[n] for n in queue], list(queue.values()), atol=1e-9)


def test_no_task_waits_for_long(make_view):
    rule, state, last = JobQueues(sigma=3.0), None, np.zeros(4)
    for t in range(1, 40):
        view = make_view(np.ones((8, 4)), [0.9, 0.8, 0.1, 0.05], round=t)
        got, state = rule.allocate(view, state, rng=stream(0, t))
        last[np.unique(got.tasks)] = t
        assert t - last.min() <= 6
    assert state["task00"] < state["task03"]


def test_bids_decide_who_is_served_first(make_view):
    view = make_view(np.ones((8, 4)), [0.1, 0.9, 0.2, 0.8])
    got, _ = JobQueues().allocate(view, None, rng=stream(0))
    assert sorted(set(got.tasks.tolist())) == [1, 3]
    assert got.counts(4).tolist() == [0, 4, 0, 4]
    assert set(got.probabilities) == {0.5}
