"""Equal bounds: the theorem's bound, its constants from what rounds did, and who goes where."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.allocate import EqualBounds, Uniform
from mmfl.allocate.min_max import min_max_counts
from mmfl.allocate.patterns import Patterns
from mmfl.allocate.rules.equal_bounds import PRIOR, bounds_after
from mmfl.errors import InputError
from mmfl.rng import stream
from mmfl.theory import Constants, one_step_bound

fractions = st.floats(0, 1)


@given(
    L=st.floats(0.5, 5),
    mu=st.floats(0.1, 0.5),
    G=fractions,
    sigma=fractions,
    gap=fractions,
    tau=st.integers(1, 5),
    rho_lo=st.floats(0.1, 1),
    t=st.integers(0, 50),
    distance=st.floats(0, 10),
    f_star=fractions,
)
def test_the_bound_is_the_theorems(L, mu, G, sigma, gap, tau, rho_lo, t, distance, f_star):
    """(L / 2) E|w - w*|^2 + f*, with c, a and v as the module's docstring has them."""
    rho_hi = rho_lo + 0.3
    known = Constants(L=L, mu=mu, G=G, sigma=sigma, gap=gap, tau=tau, rho_lo=rho_lo, rho_hi=rho_hi)
    eta = known.rate(t)
    c = eta * mu * (1 + 3 * rho_lo / 8)
    v = L / 2 * eta**2 * sigma**2
    a = c * f_star + L / 2 * eta**2 * (32 * tau**2 * G**2 + 6 * rho_lo * L * gap)
    a += L * eta * gap * (rho_hi - rho_lo)
    ours = bounds_after(L / 2 * distance + f_star, (c, a, v), 9)
    for n in range(1, 10):
        theirs = one_step_bound(distance, t, known, square_weight=1 / n)
        assert ours[n] == pytest.approx(L / 2 * theirs + f_star)


constants = st.tuples(fractions, fractions, fractions)


@given(fractions, constants, st.integers(1, 9))
def test_looking_ahead_is_the_bound_of_the_bound(f, theta, horizon):
    far = bounds_after(f, theta, 6, horizon)
    for n in range(1, 7):
        step = f
        for _ in range(horizon):
            step = bounds_after(step, theta, 6)[n]
        assert far[n] == pytest.approx(step)


@given(fractions, constants, st.integers(0, 9), st.integers(1, 9))
def test_bounds_never_rise_with_clients_and_nobody_is_never_better_than_now(f, theta, m, horizon):
    bounds = bounds_after(f, theta, m, horizon)
    assert len(bounds) == m + 1
    assert (np.diff(bounds) <= 0).all()
    assert bounds[0] >= f


TRUTH = {"ant": (0.05, 0.005, 0.03), "bee": (0.20, 0.0, 0.10), "cat": (0.10, 0.01, 0.08)}


def truly(f, task, n):
    """What a round does in a world that is as the model says."""
    c, a, v = TRUTH[task]
    return (1 - c) * f + a + v / n if n else f


def best(view):
    """The numbers of clients of someone who knows the constants, and the largest bound."""
    f = zip(view.difficulty, TRUTH.values(), strict=True)
    bounds = np.array([bounds_after(now, theta, len(view.clients)) for now, theta in f])
    return min_max_counts(bounds, Patterns.of(view.eligible, np.arange(3))).sum(axis=0), bounds


def played(rule, make_view, rounds):
    """Rounds with few and with many clients: by how much the largest bound is off, and the state.

    Tasks begin with different difficulties, since alike ones would all be treated alike.
    """
    f, state, off = dict(zip(TRUTH, (0.9, 0.8, 0.7), strict=True)), None, []
    for t in range(rounds):
        m = (3, 30, 8)[t // 6 % 3]
        view = make_view(np.ones((m, 3)), list(f.values()), tasks=tuple(TRUTH))
        got, state = rule.allocate(view, state, rng=stream(5, "world", t))
        n, (ideal, bounds) = got.counts(3), best(view)
        off.append(bounds[range(3), n].max() - bounds[range(3), ideal].max())
        f = {task: truly(f[task], task, k) for task, k in zip(TRUTH, n.tolist(), strict=True)}
    return np.array(off), rule.constants(state)


@pytest.mark.slow
def test_in_a_world_of_its_model_it_finds_the_constants_and_then_the_best_numbers(make_view):
    rule = EqualBounds(memory=inf)
    off, found = played(rule, make_view, 300)
    for task, theta in TRUTH.items():
        assert found[task] == pytest.approx(theta, abs=0.01)
    assert off[:30].max() > 1e-3
    assert off[-60:].max() < 1e-9
    assert off.min() > -1e-9


def test_what_it_remembers_fades(make_view):
    """Rates rise half way: what it knows follows if it forgets, and less if it does not."""

    def found(memory):
        f, state = 0.9, None
        for t in range(120):
            view = make_view(np.ones((1 + t % 4, 1)), [f], tasks=("ant",))
            _, state = EqualBounds(memory=memory).allocate(view, state, rng=stream(t))
            c, v = (0.02, 0.01) if t < 60 else (0.3, 0.3)
            f = (1 - c) * f + v / (1 + t % 4)
        return EqualBounds().constants(state)["ant"]

    followed, stayed = np.array(found(20.0)), np.array(found(inf))
    assert (followed - stayed)[[0, 2]].min() > 0.03


def test_noise_leaves_the_prior_its_weight(make_view):
    """Ten observations, exact or noisy: the first are believed more."""

    def found(noise):
        f, state = 0.9, None
        noises = np.random.default_rng(3).normal(0, noise, 11)
        for t in range(11):
            view = make_view(np.ones((1 + t % 4, 1)), [max(f + noises[t], 0.0)], tasks=("ant",))
            _, state = EqualBounds().allocate(view, state, rng=stream(t))
            f = 0.7 * f + 0.1 / (1 + t % 4)
        return EqualBounds().constants(state)["ant"][0]

    assert PRIOR[0] < found(0.3) < found(0.0) < 0.3


def test_while_nothing_is_known_it_is_uniform_with_even_numbers(make_view):
    view = make_view(np.ones((10, 4)))
    got, state = EqualBounds().allocate(view, None, rng=stream(1))
    assert list(got) == list(Uniform("stratified").allocate(view, None, rng=stream(1))[0])
    assert sorted(got.counts(4).tolist()) == [2, 2, 3, 3]
    assert state == {}
    assert EqualBounds().constants(None) == {}


@given(
    st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=12),
    st.lists(st.floats(0.01, 1), min_size=3, max_size=3),
    st.integers(0, 3),
)
def test_a_task_that_nobody_may_train_and_nobody_can_score_changes_nothing(
    make_view, eligible, f, place
):
    names = ("ant", "bee", "cat")
    state = other = None
    for t in range(4):
        now = [each * 0.9**t for each in f]
        plain = make_view(eligible, now, tasks=names)
        left_out = make_view(
            np.insert(eligible, place, False, axis=1),
            np.insert(now, place, np.nan),
            tasks=(*names[:place], "axe", *names[place:]),
        )
        got, state = EqualBounds().allocate(plain, state, rng=stream(t))
        same, other = EqualBounds().allocate(left_out, other, rng=stream(t))
        assert [names[s] for s in got.tasks] == [left_out.tasks[s] for s in same.tasks]
        assert got.clients.tolist() == same.clients.tolist()
        assert got.probabilities.tolist() == same.probabilities.tolist()
        assert state == other


def test_a_task_without_a_score_that_can_be_trained_makes_it_uniform(make_view):
    view = make_view(np.ones((9, 3)), [0.9, np.nan, 0.1])
    got, state = EqualBounds().allocate(view, None, rng=stream(1))
    assert list(got) == list(Uniform("stratified").allocate(view, None, rng=stream(1))[0])
    assert sorted(state) == ["task00", "task02"]


def test_nobody_who_could_train_anything(make_view):
    for eligible in (np.zeros((0, 2)), np.zeros((3, 2))):
        for difficulty in (None, [0.5, np.nan], [0.5, 0.1]):
            view = make_view(eligible, difficulty)
            assert len(EqualBounds().allocate(view, None, rng=stream(1))[0]) == 0


def test_with_the_same_difficulties_numbers_are_even(make_view):
    view = make_view(np.ones((9, 3)), [0.4, 0.4, 0.4])
    got, state = EqualBounds().allocate(view, None, rng=stream(1))
    assert got.counts(3).tolist() == [3, 3, 3]
    assert (
        list(EqualBounds().constants(state).values())
        == [pytest.approx((PRIOR[0], 0.4 * PRIOR[1], 0.4 * PRIOR[2]))] * 3
    )


def test_the_worst_has_most_and_one_far_ahead_has_nobody(make_view):
    view = make_view(np.ones((10, 3)), [0.50, 0.52, 0.1])
    n = EqualBounds().allocate(view, None, rng=stream(1))[0].counts(3)
    assert n[1] > n[0] > n[2] == 0
    far = EqualBounds(horizon=50).allocate(view, None, rng=stream(1))[0].counts(3)
    assert (far > 0).all()


def test_a_bad_start_does_not_leave_a_task_alone(make_view):
    state = None
    for t in range(9):  # the more it is trained, the worse it gets
        view = make_view(np.ones((6, 2)), [0.5 + 0.05 * t, 0.4], tasks=("ant", "bee"))
        got, state = EqualBounds().allocate(view, state, rng=stream(1))
    assert bounds_after(0.9, EqualBounds().constants(state)["ant"], 6).min() > 0.9
    assert got.counts(2).tolist() == [6, 0]


def test_a_round_without_clients_teaches_nothing(make_view):
    view = make_view([[1, 0], [1, 0]], [0.5, 0.9], tasks=("ant", "bee"))
    _, state = EqualBounds().allocate(view, None, rng=stream(1))
    later = make_view([[1, 0], [1, 0]], [0.4, 0.1], tasks=("ant", "bee"))
    _, after = EqualBounds().allocate(later, state, rng=stream(2))
    assert after["bee"]["sums"] == state["bee"]["sums"]
    assert after["ant"]["sums"] != state["ant"]["sums"]


def test_it_may_be_told_to_stay_with_the_prior(make_view):
    rule, state = EqualBounds(learn=False), None
    for f in (0.8, 0.2, 0.1):
        view = make_view(np.ones((3, 1)), [f], tasks=("ant",))
        _, state = rule.allocate(view, state, rng=stream(1))
    prior = (PRIOR[0], 0.8 * PRIOR[1], 0.8 * PRIOR[2])
    assert rule.constants(state)["ant"] == pytest.approx(prior)


def test_tasks_are_known_by_their_names(make_view):
    """In whatever order they stand, the same clients get the same tasks; new ones may join."""
    numbers = np.random.default_rng(2)
    eligible, f = numbers.random((20, 4)) < 0.7, np.array([0.5, 0.6, 0.55, 0.3])
    names, order = np.array(["ant", "bee", "cat", "dog"]), [2, 0, 3, 1]
    state = other = None
    for t in range(3):
        here = make_view(eligible, f - 0.05 * t, tasks=tuple(names))
        there = make_view(eligible[:, order], f[order] - 0.05 * t, tasks=tuple(names[order]))
        got, state = EqualBounds().allocate(here, state, rng=stream(t))
        same, other = EqualBounds().allocate(there, other, rng=stream(t))
        assert names[got.tasks].tolist() == names[order][same.tasks].tolist()
    assert state == other
    del state["dog"]
    _, joined = EqualBounds().allocate(here, state, rng=stream(9))
    assert EqualBounds().constants(joined)["dog"][0] == pytest.approx(PRIOR[0])


def test_the_probability_is_how_often_it_happens(make_view):
    eligible = np.array([[1, 1, 1]] * 4 + [[0, 1, 1]] * 3 + [[1, 0, 0]] * 2)
    view = make_view(eligible, [0.5, 0.52, 0.49])
    seen, told, draws = np.zeros(eligible.shape), np.zeros(eligible.shape), 300
    for draw in range(draws):
        got, _ = EqualBounds().allocate(view, None, rng=stream(draw, "often"))
        seen[np.arange(9), got.tasks] += 1
        told[np.arange(9), got.tasks] = got.probabilities
    assert told.sum(axis=1) == pytest.approx(np.ones(9))
    assert len(np.unique(told)) > 3
    assert abs(seen / draws - told).max() < 4 * np.sqrt(0.25 / draws)


@pytest.mark.parametrize("bad", [-0.1, inf])
def test_a_difficulty_that_is_none_is_refused(make_view, bad):
    with pytest.raises(InputError, match=r"difficulty must be finite and >= 0"):
        EqualBounds().allocate(make_view(np.ones((2, 2)), [0.5, bad]), None, rng=stream(1))
