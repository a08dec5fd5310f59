from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from scipy.sparse.csgraph import maximum_flow

from mmfl.allocate import FedFair, Uniform, allocation_probabilities
from mmfl.rng import stream

F = np.array([0.9, 0.0, 0.3, 0.6])
PATTERNS = {
    (0, 1, 2, 3): 5,
    (0, 2): 3,
    (1, 2, 3): 4,
    (1,): 2,
    (0, 3): 1,
    (): 2,
}
ROUNDS = 1000
RULES = [FedFair, Uniform]
SAMPLINGS = ["independent", "stratified"]


def chances(rule, f, columns):
    if isinstance(rule, Uniform):
        return np.full(len(columns), 1 / len(columns))
    return allocation_probabilities(f[columns], rule.alpha)


def table_of_chances(rule, f, eligible):
    p = np.zeros(eligible.shape)
    for row, may in enumerate(eligible):
        if may.any():
            p[row, may] = chances(rule, f, np.flatnonzero(may))
    return p


def allocate(rule, view, *address):
    return rule.allocate(view, None, rng=stream(11, *address))[0]


def column_of(rule, view, *address):
    got = allocate(rule, view, *address)
    task = np.full(len(view.clients), -1)
    task[np.searchsorted(view.clients, got.clients)] = got.tasks
    return task


def fits(observed, p):
    """Whether frequencies agree with probabilities: the impossible never, the rest chi-square."""
    possible = p > 0
    if observed[~possible].any():
        return False
    if possible.sum() == 1:
        return True
    expected = p[possible] * observed.sum()
    return stats.chisquare(observed[possible], expected).pvalue > 1e-3


@st.composite
def tables(draw, clients=12, tasks=5):
    n, S = draw(st.integers(0, clients)), draw(st.integers(1, tasks))
    bits = draw(st.integers(0, 2 ** (n * S) - 1))
    return np.array([bits >> i & 1 for i in range(n * S)], dtype=bool).reshape(n, S)


def difficulties(S):
    return st.lists(st.just(0.0) | st.floats(0.01, 1), min_size=S, max_size=S).map(np.array)


@pytest.fixture(scope="module")
def mixed(make_view):
    eligible = np.zeros((sum(PATTERNS.values()), len(F)), dtype=bool)
    for row, columns in enumerate(
        np.repeat(np.array([*PATTERNS], dtype=object), [*PATTERNS.values()])
    ):
        eligible[row, list(columns)] = True
    shuffled = np.random.default_rng(0).permutation(len(eligible))
    return make_view(eligible[shuffled], F, clients=np.arange(len(eligible)) * 5 + 2)


@pytest.fixture(
    scope="module", params=product(RULES, SAMPLINGS), ids=lambda p: f"{p[0].__name__}-{p[1]}"
)
def drawn(request, mixed):
    """The rule, and who trained what in many rounds: (rounds, n), -1 = nothing."""
    kind, sampling = request.param
    rule = kind(sampling=sampling)
    return rule, np.stack([column_of(rule, mixed, "chi", t) for t in range(ROUNDS)])


def test_frequencies_follow_p_for_each_eligibility_pattern(mixed, drawn):
    rule, task = drawn
    for columns, clients in PATTERNS.items():
        may = np.isin(np.arange(len(F)), columns)
        of_pattern = task[:, (mixed.eligible == may).all(axis=1)]
        assert of_pattern.shape[1] == clients
        if not columns:
            assert (of_pattern == -1).all()
            continue
        observed = np.bincount(of_pattern.ravel(), minlength=len(F))
        p = np.zeros(len(F))
        p[list(columns)] = chances(rule, F, list(columns))
        assert fits(observed, p), columns


def test_frequencies_follow_p_for_each_client(mixed, drawn):
    rule, task = drawn
    p = table_of_chances(rule, F, mixed.eligible)
    for row in np.flatnonzero(mixed.eligible.any(axis=1)):
        assert fits(np.bincount(task[:, row], minlength=len(F)), p[row]), row


def test_independent_draws_are_independent_between_clients_and_rounds(mixed):
    rule = Uniform()
    task = np.stack([column_of(rule, mixed, "pairs", t) for t in range(ROUNDS)])
    one, other = np.flatnonzero(mixed.eligible.all(axis=1))[:2]
    for a, b in [(task[:, one], task[:, other]), (task[1:, one], task[:-1, one])]:
        together = np.zeros((len(F), len(F)))
        np.add.at(together, (a, b), 1)
        assert stats.chi2_contingency(together).pvalue > 1e-3


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("kind", RULES)
def test_probability_of_the_choice_is_reported(mixed, kind, sampling):
    rule = kind(sampling=sampling)
    p = table_of_chances(rule, F, mixed.eligible)
    for client, task, probability in allocate(rule, mixed, "report"):
        row = np.searchsorted(mixed.clients, client)
        assert probability == pytest.approx(p[row, task], rel=1e-12)


@pytest.mark.parametrize("floor", [0, 2])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@settings(max_examples=25)
@given(eligible=tables())
def test_first_round_is_exactly_uniform(make_view, sampling, floor, eligible):
    view = make_view(eligible)
    got = allocate(FedFair(alpha=5.0, sampling=sampling, floor=floor), view, "nan")
    assert list(got) == list(allocate(Uniform(sampling=sampling, floor=floor), view, "nan"))


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_unknown_difficulty_means_uniform_for_those_who_may_train_the_task(make_view, sampling):
    eligible = np.array([[True, True, True], [False, True, True]]).repeat(20, axis=0)
    got = allocate(
        FedFair(alpha=3.0, sampling=sampling), make_view(eligible, [np.nan, 1, 2]), "nan"
    )
    assert got.probabilities[:20].tolist() == [1 / 3] * 20
    known = np.array([0, 1 / 5, 4 / 5])[got.tasks[20:]]
    np.testing.assert_allclose(got.probabilities[20:], known, rtol=1e-12)


@pytest.mark.parametrize("floor", [0, 2])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@given(data=st.data())
def test_alpha_one_gives_exactly_the_assignments_of_uniform(make_view, sampling, floor, data):
    eligible = data.draw(tables())
    view = make_view(eligible, data.draw(difficulties(eligible.shape[1])))
    one = allocate(FedFair(alpha=1.0, sampling=sampling, floor=floor), view, "same")
    other = allocate(Uniform(sampling=sampling, floor=floor), view, "same")
    assert list(one) == list(other)


def test_alpha_inf_sends_each_client_to_its_worst_off_task(mixed):
    got = column_of(FedFair(alpha=inf), mixed, "inf")
    worst = np.where(mixed.eligible, F, -1).argmax(axis=1)
    may = mixed.eligible.any(axis=1)
    assert (got[may] == worst[may]).all()


@given(tables(), st.data())
def test_stratified_counts_are_within_one_of_their_expectation(make_view, eligible, data):
    f = data.draw(difficulties(eligible.shape[1]))
    rule = FedFair(alpha=data.draw(st.sampled_from([1.0, 1.7, 3.0, inf])), sampling="stratified")
    got = column_of(rule, make_view(eligible, f), "strata")
    p = table_of_chances(rule, f, eligible)
    chosen = got[:, None] == np.arange(eligible.shape[1])
    groups = [np.ones(len(eligible), dtype=bool)]
    groups += [(eligible == pattern).all(axis=1) for pattern in np.unique(eligible, axis=0)]
    for rows in groups:
        off = np.abs(chosen[rows].sum(axis=0) - p[rows].sum(axis=0))
        assert (off < 1 + 1e-6).all()
    assert ((got >= 0) == eligible.any(axis=1)).all()


def test_stratified_counts_hit_a_whole_expectation_exactly(make_view):
    view = make_view(np.ones((12, 3)), [0.2, 0.4, 0.6])
    for t in range(50):
        got = allocate(FedFair(alpha=2.0, sampling="stratified"), view, "whole", t)
        assert got.counts(3).tolist() == [2, 4, 6]


def test_stratified_counts_hit_a_whole_expectation_across_patterns(make_view):
    eligible = [[True, True, False], [False, True, True], [True, False, True]]
    for t in range(200):
        got = allocate(Uniform(sampling="stratified"), make_view(eligible), "across", t)
        assert got.counts(3).tolist() == [1, 1, 1]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_more_than_64_tasks(make_view, sampling):
    eligible = np.random.default_rng(3).random((40, 70)) < 0.5
    got = allocate(Uniform(sampling=sampling), make_view(eligible), "wide")
    assert len(got) == 40
    assert eligible[got.clients, got.tasks].all()


class SameDraw:
    """A stream that gives every client the same number."""

    def __init__(self, value):
        self.value = value

    def at(self, ids):
        return np.full(len(ids), self.value)


@pytest.mark.parametrize("draw", [0.0, 1 - 2.0**-53])
@pytest.mark.parametrize("S", [3, 10, 49])
def test_bad_luck_never_draws_an_impossible_task(make_view, draw, S):
    f = np.ones(S + 2)
    f[[0, -1]] = 0.0
    got = FedFair().allocate(make_view(np.ones((3, S + 2)), f), None, rng=SameDraw(draw))[0]
    assert set(got.tasks) == {1 if draw == 0 else S}


def most_slots(eligible, level):
    """Maximum flow: how many of `level` slots per task can be filled, one client a slot."""
    n, S = eligible.shape
    graph = np.zeros((n + S + 2, n + S + 2), dtype=np.int32)
    graph[0, 1 : n + 1] = 1
    graph[1 : n + 1, n + 1 : -1] = eligible
    graph[n + 1 : -1, -1] = level
    return maximum_flow(sparse.csr_array(graph), 0, n + S + 1).flow_value


rules_with_floor = st.builds(
    lambda kind, sampling, floor, alpha: (
        FedFair(alpha=alpha, sampling=sampling, floor=floor)
        if kind is FedFair
        else Uniform(sampling=sampling, floor=floor)
    ),
    st.sampled_from(RULES),
    st.sampled_from(SAMPLINGS),
    st.integers(1, 5),
    st.sampled_from([1.0, 3.0, inf]),
)


@settings(max_examples=120)
@given(tables(), rules_with_floor, st.data())
def test_floor_fills_as_many_slots_of_each_level_as_a_maximum_flow(make_view, eligible, rule, data):
    S = eligible.shape[1]
    view = make_view(eligible, data.draw(st.none() | difficulties(S)))
    got = column_of(rule, view, "floor")
    given_task = got >= 0
    assert (given_task == eligible.any(axis=1)).all()
    assert eligible[np.flatnonzero(given_task), got[given_task]].all()
    counts = np.bincount(got[given_task], minlength=S)
    for level in range(1, rule.floor + 1):
        assert np.minimum(counts, level).sum() == most_slots(eligible, level)


@given(tables(clients=6, tasks=3), rules_with_floor, st.data())
def test_floor_lifts_the_smallest_counts_as_far_as_any_assignment(make_view, eligible, rule, data):
    S = eligible.shape[1]
    view = make_view(eligible, data.draw(st.none() | difficulties(S)))
    counts = allocate(rule, view, "floor").counts(S)
    choices = [np.flatnonzero(may) for may in eligible if may.any()]
    best = max(
        sorted(np.minimum(np.bincount(np.array(each, dtype=int), minlength=S), rule.floor))
        for each in product(*choices)
    )
    assert sorted(np.minimum(counts, rule.floor)) == best


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_floor_is_reached_though_everybody_prefers_one_task(make_view, sampling):
    view = make_view(np.ones((20, 4)), [0.1, 0.1, 0.9, 0.0])
    got = allocate(FedFair(alpha=inf, sampling=sampling, floor=3), view, "floor")
    assert got.counts(4).tolist() == [3, 3, 11, 3]


def test_floor_passes_clients_on_along_a_chain(make_view):
    eligible = [
        [False, False, True],
        [False, False, True],
        [False, True, True],
        [True, True, False],
    ]
    view = make_view(eligible, [0.1, 0.5, 0.9])
    assert column_of(FedFair(alpha=inf), view, "floor").tolist() == [2, 2, 2, 1]
    assert column_of(FedFair(alpha=inf, floor=1), view, "floor").tolist() == [2, 2, 1, 0]


@given(tables(), st.sampled_from(RULES), st.sampled_from(SAMPLINGS), st.data())
def test_floor_moves_nobody_where_it_is_met(make_view, eligible, kind, sampling, data):
    S = eligible.shape[1]
    view = make_view(eligible, data.draw(difficulties(S)))
    free = allocate(kind(sampling=sampling), view, "met")
    met = int(np.minimum(free.counts(S), eligible.sum(axis=0)).min())
    if met:
        assert list(allocate(kind(sampling=sampling, floor=met), view, "met")) == list(free)


def test_floor_moves_no_more_clients_than_are_missing(make_view):
    view = make_view(np.ones((30, 3)), [1.0, 1.0, 0.0])
    free = column_of(FedFair(alpha=3.0), view, "few")
    moved = column_of(FedFair(alpha=3.0, floor=4), view, "few")
    assert (free == 2).sum() == 0
    assert (free != moved).sum() == 4
    assert (moved[free != moved] == 2).all()


def test_floor_reports_the_probability_of_the_draw(make_view):
    view = make_view(np.ones((6, 2)), [1.0, 3.0])
    free = allocate(FedFair(alpha=2.0), view, "report")
    got = allocate(FedFair(alpha=2.0, floor=3), view, "report")
    assert got.counts(2).tolist() == [3, 3]
    assert got.probabilities.tolist() == free.probabilities.tolist()


def test_floor_beyond_all_clients_is_as_good_as_their_number(make_view):
    view = make_view([[True, True], [True, True], [True, False]], [0.2, 0.6])
    enough = column_of(Uniform(floor=3), view, "huge")
    assert (column_of(Uniform(floor=20_000), view, "huge") == enough).all()


@given(tables(), st.data())
def test_order_of_tasks_in_the_view_moves_nobody(make_view, eligible, data):
    S = eligible.shape[1]
    f = data.draw(difficulties(S))
    names = np.array(data.draw(st.permutations([f"t{s}" for s in range(S)])))
    order = np.array(data.draw(st.permutations(range(S))))
    rule = data.draw(rules_with_floor | st.builds(FedFair) | st.builds(Uniform))
    one = make_view(eligible, f, tasks=tuple(names))
    other = make_view(eligible[:, order], f[order], tasks=tuple(names[order]))
    named = [
        [(client, view.tasks[task], p) for client, task, p in allocate(rule, view, "order")]
        for view in (one, other)
    ]
    assert named[0] == named[1]


@given(tables(), st.sampled_from([FedFair(), Uniform(), FedFair(alpha=inf)]), st.data())
def test_independent_draw_does_not_depend_on_the_other_active_clients(
    make_view, eligible, rule, data
):
    n, S = eligible.shape
    f = data.draw(difficulties(S))
    ids = np.sort(np.array(data.draw(st.permutations(range(40)))[:n], dtype=np.int64))
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=bool)
    everyone = allocate(rule, make_view(eligible, f, clients=ids), "alone")
    some = allocate(rule, make_view(eligible[keep], f, clients=ids[keep]), "alone")
    assert list(some) == [each for each in everyone if each.client in ids[keep]]


def test_draws_do_not_depend_on_the_difficulty_of_tasks_a_client_may_not_train(make_view):
    eligible = np.array([[True, True, False]] * 20)
    one = column_of(FedFair(), make_view(eligible, [0.3, 0.5, 0.0]), "own")
    other = column_of(FedFair(), make_view(eligible, [0.3, 0.5, 1e300]), "own")
    assert (one == other).all()


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_clients_with_only_zero_difficulties_draw_uniformly(make_view, sampling):
    view = make_view([[True, True, False]] * 4 + [[True, True, True]] * 4, [0.0, 0.0, 1.0])
    rule = FedFair(sampling=sampling)
    task = np.stack([column_of(rule, view, "zero", t) for t in range(300)])
    assert fits(np.bincount(task[:, :4].ravel(), minlength=3), np.array([0.5, 0.5, 0.0]))
    assert (task[:, 4:] == 2).all()
