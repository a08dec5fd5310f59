"""Every way in which an update can be wrong is refused with its reason, and never raises."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mmfl.aggregate import REFUSALS, Checks, check_update
from mmfl.exchange import Address, ClientFailure, ClientUpdate, Layout, Params

LAYOUT = Layout((("weight", (2, 3)), ("bias", (2,))))
ADDRESS = Address("run", 3, "task", 7, 2)
GOOD = {"weight": np.ones((2, 3), np.float32), "bias": np.ones(2, np.float32)}


def update(**changes) -> ClientUpdate:
    good = ClientUpdate(ADDRESS, GOOD, 10, 20, 1.0, 0.5, 0.0)
    return dataclasses.replace(good, **changes)


def verdict(found: ClientUpdate, limits: Checks = Checks()) -> ClientUpdate | ClientFailure:  # noqa: B008
    return check_update(found, ADDRESS, LAYOUT, 10, limits)


def test_a_good_update_is_packed_and_its_norm_is_measured_not_believed():
    accepted = verdict(update(norm=123.0))
    assert isinstance(accepted, ClientUpdate)
    assert isinstance(accepted.delta, Params)
    assert accepted.norm == pytest.approx(np.sqrt(8))
    assert np.array_equal(accepted.delta["weight"], GOOD["weight"])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"address": ADDRESS._replace(run="other")}, "address"),
        ({"address": ADDRESS._replace(round=2)}, "address"),
        ({"address": ADDRESS._replace(task="other")}, "address"),
        ({"address": ADDRESS._replace(client=8)}, "address"),
        ({"address": ADDRESS._replace(model_version=1)}, "address"),
        ({"address": None}, "malformed"),
        ({"samples": -1}, "samples"),
        ({"samples": 10**30}, "samples"),
        ({"samples": "many"}, "samples"),
        ({"seconds": "long"}, "seconds"),
        ({"seconds": None}, "seconds"),
        ({"seconds": [1.0]}, "seconds"),
        ({"seconds": float("nan")}, "seconds"),
        ({"seconds": float("inf")}, "seconds"),
        ({"seconds": 10**400}, "seconds"),
        ({"examples": 0}, "examples"),
        ({"examples": -1}, "examples"),
        ({"examples": 11}, "examples"),
        ({"examples": 2.5}, "examples"),
        ({"examples": True}, "examples"),
        ({"examples": "many"}, "examples"),
        ({"loss_before": float("nan")}, "loss"),
        ({"loss_after": float("inf")}, "loss"),
        ({"loss_after": "low"}, "malformed"),
        ({"delta": [1.0]}, "malformed"),
        ({"delta": None}, "malformed"),
        ({"delta": {"weight": GOOD["weight"]}}, "names"),
        ({"delta": GOOD | {"extra": GOOD["bias"]}}, "names"),
        ({"delta": GOOD | {"bias": np.ones(3, np.float32)}}, "shape"),
        ({"delta": GOOD | {"bias": np.ones((1, 2), np.float32)}}, "shape"),
        ({"delta": GOOD | {"bias": np.ones(2)}}, "dtype"),
        ({"delta": GOOD | {"bias": [1.0, 1.0]}}, "dtype"),
        ({"delta": GOOD | {"bias": np.array([1, np.nan], np.float32)}}, "not finite"),
        ({"delta": GOOD | {"bias": np.array([1, np.inf], np.float32)}}, "not finite"),
        ({"delta": GOOD | {"bias": np.array([1, 3e38], np.float32)}}, "norm"),
    ],
)
def test_a_bad_update_is_refused_with_its_reason(changes, reason):
    refused = verdict(update(**changes))
    assert isinstance(refused, ClientFailure)
    assert refused.reason == reason
    assert refused.reason in REFUSALS, "a quarantine counts it"
    assert refused.address == ADDRESS
    assert refused.detail


def test_a_clock_that_was_set_back_costs_no_turn():
    assert isinstance(verdict(update(seconds=-86_400.0)), ClientUpdate)


def test_the_limit_on_norms_is_a_setting():
    assert isinstance(verdict(update(), Checks(max_norm=2.8)), ClientFailure)
    assert isinstance(verdict(update(), Checks(max_norm=2.9)), ClientUpdate)


def test_packed_weights_of_another_model_are_refused():
    other = Params(Layout((("weight", (8,)),)), np.ones(8, np.float32))
    refused = verdict(update(delta=other))
    assert isinstance(refused, ClientFailure)
    assert refused.reason == "names"
