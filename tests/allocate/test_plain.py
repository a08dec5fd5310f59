"""The rules as plain loops, client after client: the fast ones give the very same bits."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.allocate import FedFair, RoundRobin, Sequential, Uniform, allocation_probabilities
from mmfl.allocate.sampling import round_counts
from mmfl.rng import stream


def chances(rule, view, columns):
    f = view.difficulty[columns]
    if isinstance(rule, Uniform):
        return allocation_probabilities(np.ones(len(columns)), 1.0)
    if np.isnan(f).any():
        return allocation_probabilities(np.ones(len(columns)), 1.0, view.weights[columns])
    return allocation_probabilities(f, rule.alpha, view.weights[columns])


def may_train(view, row):
    """Columns of the tasks that a client may train, by their names."""
    columns = sorted(range(len(view.tasks)), key=view.tasks.__getitem__)
    return [s for s in columns if view.eligible[row, s]]


def independent(rule, view, rng):
    """Each client: the first of its tasks at which the running sum of p passes its draw."""
    for row, client in enumerate(view.clients.tolist()):
        columns = may_train(view, row)
        if columns:
            p = chances(rule, view, columns)
            draw = rng.at([client])[0]
            possible = [i for i in range(len(p)) if p[i] > 0]
            passed = [i for i in possible if np.cumsum(p)[i] > draw]
            i = (passed or possible[-1:])[0]
            yield client, columns[i], p[i]


def rank(view, columns):
    """What patterns are ordered by, so that their rounding is the same everywhere."""
    by_name = sorted(range(len(view.tasks)), key=view.tasks.__getitem__)
    packed = np.packbits([s in columns for s in by_name]).tobytes()
    return packed if len(packed) > 8 else int.from_bytes(packed, "little")


def stratified(rule, view, rng):
    """Each pattern's clients in the order of their draws, cut up by the rounded counts."""
    groups = {}
    for row in range(len(view.clients)):
        if columns := may_train(view, row):
            groups.setdefault(tuple(columns), []).append(row)
    patterns = sorted(groups, key=lambda columns: rank(view, columns))
    by_name = sorted(range(len(view.tasks)), key=view.tasks.__getitem__)
    expected = np.zeros((len(patterns), len(by_name)))
    for g, columns in enumerate(patterns):
        p = chances(rule, view, list(columns))
        for s, share in zip(columns, p, strict=True):
            expected[g, by_name.index(s)] = len(groups[columns]) * share
    counts = round_counts(expected, rng=rng.child("round"))
    found = []
    for g, columns in enumerate(patterns):
        p = chances(rule, view, list(columns))
        draws = rng.at(view.clients)
        shuffled = sorted(groups[columns], key=lambda row: draws[row])
        ends = accumulate((counts[g, by_name.index(s)] for s in columns), initial=0)
        for (start, end), s, share in zip(pairwise(ends), columns, p, strict=True):
            found += [(int(view.clients[row]), s, share) for row in shuffled[start:end]]
    return sorted(found)


def round_robin(rule, view, rng):
    """From its turn's task on, the first that a client may train."""
    S = len(view.tasks)
    for row, client in enumerate(view.clients.tolist()):
        turn = int(view.positions[row]) * S // view.population + view.round - 1
        ahead = [s % S for s in range(turn, turn + S) if view.eligible[row, s % S]]
        if ahead:
            yield client, ahead[0], 1.0


def sequential(rule, view, rng):
    """Everybody who may trains the same task."""
    task = (view.round - 1) * len(view.tasks) // view.rounds % len(view.tasks)
    yield from (
        (client, task, 1.0)
        for row, client in enumerate(view.clients.tolist())
        if view.eligible[row, task]
    )


RULES = [
    (FedFair(), independent),
    (FedFair(alpha=1.3), independent),
    (FedFair(alpha=inf), independent),
    (Uniform(), independent),
    (FedFair(sampling="stratified"), stratified),
    (Uniform(sampling="stratified"), stratified),
    (RoundRobin(), round_robin),
    (Sequential(), sequential),
]


@st.composite
def views(draw):
    """Few tasks or many, few patterns or many, of whatever layout in memory."""
    n, S = draw(st.integers(0, 40)), draw(st.sampled_from([1, 2, 3, 5, 9, 16, 17, 66]))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    eligible = numbers.random((n, S)) < draw(st.sampled_from([0.0, 0.1, 0.5, 0.95, 1.0]))
    if n and draw(st.booleans()):
        eligible = eligible[numbers.integers(0, min(n, 3), n)]
    some = numbers.random(S)
    zero, unknown = np.where(some < 0.4, 0.0, some), np.where(some < 0.2, np.nan, some)
    population = n + draw(st.integers(1, 10))
    positions = np.sort(numbers.permutation(population)[:n])
    return {
        "eligible": np.asfortranarray(eligible) if draw(st.booleans()) else eligible,
        "difficulty": draw(st.sampled_from([some, zero, unknown, np.zeros(S), np.full(S, 0.7)])),
        "weights": draw(st.sampled_from([np.ones(S), np.exp(numbers.normal(size=S))])),
        "clients": positions * 3 + 1,
        "positions": positions,
        "population": population,
        "round": draw(st.integers(1, 12)),
        "tasks": tuple(numbers.permutation([f"name{s}" for s in range(S)]).tolist()),
    }


@pytest.mark.parametrize(("rule", "plain"), RULES, ids=lambda each: getattr(each, "__name__", None))
@given(fields=views(), seed=st.integers(0, 2**32))
def test_a_rule_is_its_plain_loop(make_view, rule, plain, fields, seed):
    view = make_view(**fields)
    got = rule.allocate(view, None, rng=stream(seed, "plain"))[0]
    assert list(got) == list(plain(rule, view, stream(seed, "plain")))


class Coarse:
    """A stream in which many clients have the same draw."""

    def __init__(self, values):
        self.values = values

    def at(self, ids):
        return np.floor(stream(0, "coarse").at(ids) * self.values) / self.values

    def child(self, *path):
        return stream(0, *path)


@pytest.mark.parametrize("values", [1, 3, 20])
@given(fields=views())
def test_clients_with_the_same_luck_are_cut_up_in_their_order(make_view, values, fields):
    rule, view = Uniform(sampling="stratified"), make_view(**fields)
    got = rule.allocate(view, None, rng=Coarse(values))[0]
    assert list(got) == list(stratified(rule, view, Coarse(values)))


@pytest.mark.parametrize(("rule", "plain"), RULES[:1] + RULES[4:5], ids=["independent", "cut"])
def test_more_clients_than_are_gone_through_at_a_time(make_view, rule, plain):
    numbers = np.random.default_rng(5)
    eligible = numbers.random((9000, 3)) < 0.7
    view = make_view(eligible, numbers.random(3))
    got = rule.allocate(view, None, rng=stream(3, "many"))[0]
    assert list(got) == list(plain(rule, view, stream(3, "many")))
