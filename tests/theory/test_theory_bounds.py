"""The bounds: the closed form is never below the theorem's recursion, and input is checked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.errors import InputError
from mmfl.theory import (
    Constants,
    auction_bound,
    corollary_bound,
    one_step_bound,
    printed,
    recursion_bound,
    t_step_bound,
)

sizes = st.floats(1e-3, 1e3)


@st.composite
def constants(draw):
    mu, rho = draw(sizes), draw(st.floats(0.05, 2.0))
    L = mu * draw(st.floats(1.0, 1e3))
    return Constants(
        L=L,
        mu=mu,
        G=draw(sizes),
        sigma=draw(st.just(0.0) | sizes),
        gap=draw(st.just(0.0) | sizes),
        tau=draw(st.integers(1, 20)),
        gamma=4 * L / mu * draw(st.floats(1.0, 10.0)),
        rho_lo=rho,
        rho_hi=rho * draw(st.floats(1.0, 3.0)),
    )


@given(constants(), st.just(0.0) | sizes, st.none() | st.integers(1, 3))
def test_the_closed_form_is_never_below_the_recursion(c, distance, often):
    T = 200
    steps = recursion_bound(T, c, distance, steps=often)
    closed = np.array([t_step_bound(t, c, distance) for t in range(T + 1)])
    assert (steps <= closed * (1 + 1e-9)).all()
    assert steps[0] == pytest.approx(c.L / 2 * distance)
    if often == 1:
        assert steps[1] == pytest.approx(c.L / 2 * one_step_bound(distance, 0, c))
    if often is None:
        assert steps == pytest.approx(recursion_bound(T, c, distance, steps=int(c.tau)))


@given(
    constants(),
    st.floats(0, 1e3),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from([0, 10, 10**6]),
)
def test_with_auctions_the_bound_never_falls_as_people_stop_joining(c, distance, a, b, T):
    untrained, trained = c.L / 2 * distance, t_step_bound(T, c, distance)
    few, many = (auction_bound(T, c, distance, nobody=x) for x in (max(a, b), min(a, b)))
    assert many <= few
    assert auction_bound(T, c, distance, nobody=0.0) == trained
    nobody = auction_bound(T, c, distance, nobody=1.0)
    assert nobody == pytest.approx(max(untrained, trained))
    # It is a bound: the error is what it was if nobody joins, and at most `trained` if not.
    for x in (a, b):
        truth = x * untrained + (1 - x) * trained
        assert auction_bound(T, c, distance, nobody=x) >= truth * (1 - 1e-12)


@given(constants(), st.floats(0, 1e3))
def test_both_forms_of_the_corollary_can_be_asked_for(c, distance):
    assert corollary_bound(9, c, distance) == t_step_bound(9, c, distance)
    assert corollary_bound(9, c, distance, form="printed") == printed.t_step_bound(9, c, distance)


@given(constants())
def test_less_noise_from_larger_selections_means_a_lower_bound(c):
    whole, part = (one_step_bound(1.0, 5, c, square_weight=x) for x in (1.0, 0.1))
    assert part <= whole
    assert whole - part == pytest.approx(c.rate(5) ** 2 * c.sigma**2 * 0.9, abs=1e-9 * whole)


def test_gamma_is_by_default_the_least_that_the_proof_allows():
    c = Constants(L=10.0, mu=2.0, G=1.0)
    assert c.offset == 20.0
    assert c.rate(0) == pytest.approx(1 / (4 * c.L))


GOOD = {"L": 1.0, "mu": 1.0, "G": 1.0}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mu": 2.0}, "0 < mu <= L"),
        ({"mu": 0.0}, "0 < mu <= L"),
        ({"G": -1.0}, "G must be finite and >= 0, got -1.0"),
        ({"sigma": float("nan")}, "sigma must be finite"),
        ({"gap": float("inf")}, "gap must be finite"),
        ({"rho_lo": 0.0}, "0 < rho_lo <= rho_hi"),
        ({"rho_lo": 2.0}, "0 < rho_lo <= rho_hi"),
        ({"gamma": 0.0}, "gamma must be finite and > 0"),
    ],
)
def test_wrong_constants_are_refused(wrong, said):
    with pytest.raises(InputError, match=said):
        Constants(**(GOOD | wrong))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda c: t_step_bound(-1, c, 1.0), "T must be"),
        (lambda c: t_step_bound(1, c, -1.0), "distance must be"),
        (lambda c: recursion_bound(1, c, float("nan")), "distance must be"),
        (lambda c: recursion_bound(1, c, 1.0, steps=0), "steps must be at least 1"),
        (lambda c: auction_bound(1, c, 1.0, nobody=1.5), "nobody must be a probability"),
        (lambda c: corollary_bound(1, c, 1.0, form="true"), "form must be corrected or printed"),
        (lambda c: printed.auction_bound(1, c, 1.0, [1.5]), "probabilities"),
    ],
)
def test_wrong_arguments_are_refused(wrong, said):
    with pytest.raises(InputError, match=said):
        wrong(Constants(**GOOD))
