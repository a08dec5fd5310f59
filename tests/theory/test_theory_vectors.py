"""`mmfl.theory` against the test vectors."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from mmfl import theory
from mmfl.market.bids_io import IncreasingLinear, UniformBids

PAGE = Path(__file__).parent.parent / "vectors" / "theory.json"
ENTRIES = json.loads(PAGE.read_text())["entries"]


def entries(fn: str) -> list[dict]:
    found = [entry for entry in ENTRIES if entry["fn"] == fn]
    assert found
    return found


def close(value):
    return pytest.approx(value, rel=1e-11, abs=1e-300)


def test_every_function_of_the_vectors_is_here():
    here = {"allocation_probs", "inverse_size_term", "selection", "join_uniform_vs_linear"}
    assert {entry["fn"] for entry in ENTRIES} == here | {"no_user_probability_exp_min"}


@pytest.mark.parametrize("entry", entries("allocation_probs"))
def test_allocation_probabilities(entry):
    losses, alpha = entry["args"]["losses"], float(entry["args"]["alpha"])
    if "error" in entry:
        with pytest.raises(ValueError):
            theory.allocation_probabilities(losses, alpha)
        return
    assert theory.allocation_probabilities(losses, alpha) == close(entry["value"])


@pytest.mark.parametrize("entry", entries("inverse_size_term"))
def test_inverse_size_term(entry):
    q, K = entry["args"]["q"], entry["args"]["K"]
    assert theory.inverse_size_term(q, K) == close(entry["value"])
    assert theory.inverse_size_term(q, K, given_nonempty=True) == close(entry["given_nonempty"])


@pytest.mark.parametrize("entry", entries("selection"))
@pytest.mark.parametrize("method", ["enumeration", "integral"])
def test_selection(entry, method):
    p, q, gaps = (entry["args"][name] for name in ("p", "q", "gaps"))
    assert theory.expected_weights(p, q, method=method) == close(entry["expected_weights"])
    assert theory.square_weight_term(p, q, method=method) == close(entry["square_weight_term"])
    assert theory.selection_skew(p, gaps, q) == close(entry["skew"])
    given = theory.selection_skew(p, gaps, q, given_nonempty=True)
    assert given == close(entry["skew_given_nonempty"])
    assert theory.skew_bounds(p, q) == close(tuple(entry["bounds"]))


@pytest.mark.parametrize("entry", entries("join_uniform_vs_linear"))
def test_join(entry):
    bid, N, B, S = (entry["args"][name] for name in ("bid", "N", "B", "S"))
    own, other = UniformBids().cdf, IncreasingLinear().cdf
    assert theory.join_budget_fair(bid, N, S, B, own) == close(entry["budget_fair"])
    assert theory.join_max_min(bid, N, B, own, [other]) == close(entry["maxmin_full"])


@pytest.mark.parametrize("entry", entries("no_user_probability_exp_min"))
def test_no_user_probability(entry):
    B, rate, S = (entry["args"][name] for name in ("B", "rate_of_the_minimum", "S"))
    pairs = (("max_min_fair", "maxmin"), ("budget_fair", "budget_fair"))
    for mechanism, key in pairs:
        assert theory.no_user_probability_exp(B, rate, S, mechanism) == close(entry[key])
        lowest = [lambda x: -np.expm1(-rate * x)] * S
        found = theory.no_user_probability(B, lowest, mechanism)
        assert math.isclose(found, entry[key], abs_tol=1e-7)
