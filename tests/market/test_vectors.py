"""Every mechanism against the test vectors, whose decisions were verified in exact rationals."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mmfl.market
from mmfl.errors import InputError
from mmfl.market import Recruitment, max_min_fair_by_rounds

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "mechanisms.json").read_text())
SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def called(case: dict[str, Any], function: Any = None) -> Recruitment:
    function = function or getattr(mmfl.market, case["mechanism"])
    bids = case["bids"] or np.empty((0, case["num_tasks"]))
    budget = () if case["mechanism"] == "value_threshold" else (case["budget"],)
    return function(bids, *budget, **case["params"])


def check(outcome: Recruitment, case: dict[str, Any]) -> None:
    expected = case["expected"]
    near = {"rel": 1e-7, "abs": 1e-9 * (case["budget"] or 1)}
    shape = (-1, case["num_tasks"])
    assert outcome.participation == pytest.approx(
        np.array(expected["participation"]).reshape(shape), **near
    )
    assert outcome.payment == pytest.approx(np.array(expected["payment"]).reshape(shape), **near)
    assert outcome.take_up == pytest.approx(np.array(expected["take_up"]), **near)
    assert [rows.tolist() for rows in outcome.winners] == expected["winners"]
    assert list(outcome.price) == [
        None if price is None else pytest.approx(price, **near) for price in expected["price"]
    ]
    for name in ("min_take_up", "difference", "spent"):
        assert getattr(outcome, name) == pytest.approx(expected[name], **near)
    if "stop" in expected:
        assert outcome.stop == expected["stop"]
    parts = [part and list(part) for part in expected.get("fractional", [])]
    for found, part in zip(outcome.fractional, parts, strict=False):
        assert (found and list(found)) == (part and pytest.approx(part, **near))


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["id"])
def test_every_vector_passes(case):
    check(called(case), case)


@pytest.mark.parametrize(
    "case",
    [case for case in VECTORS["cases"] if case["mechanism"] == "max_min_fair"],
    ids=lambda case: case["id"],
)
def test_the_plain_version_passes_them_too(case):
    check(called(case, max_min_fair_by_rounds), case)


def floats(value: Any) -> Any:
    if isinstance(value, list):
        return [floats(item) for item in value]
    return SPECIAL.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize("case", VECTORS["errors"], ids=lambda case: case["id"])
def test_bad_input_is_refused_in_one_sentence(case):
    case = case | {"bids": floats(case["bids"]), "budget": floats(case["budget"])}
    with pytest.raises(InputError) as caught:
        called(case)
    assert str(caught.value)
    assert "\n" not in str(caught.value)
