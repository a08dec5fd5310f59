"""Bids and outcomes as DataFrames: NaN = unwilling, index = client names, columns = task names."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from mmfl.errors import InputError
from mmfl.market import (
    Bids,
    MaxMinFair,
    audit,
    best_response,
    budget_fair,
    contest,
    gmm_fair,
    greedy_within_budget,
    is_individually_rational,
    max_min_fair,
    max_min_fair_by_rounds,
    max_min_optimum,
    random_within_budget,
    rationality_violation,
    value_threshold,
)
from support.helpers import one_line

NAN = np.nan
NAMES = ["anna", "bert", "carl", "dora", "emil", "fred"]
FRAME = pd.DataFrame(
    {"digits": [0.25, NAN, 0.1, 0.35, 0.2, 0.6], "fashion": [0.4, 0.3, 0.55, NAN, 0.9, 0.7]},
    index=NAMES,
)
ARRAY = FRAME.fillna(np.inf).to_numpy()


def refused(frame: pd.DataFrame) -> str:
    return one_line(InputError, lambda: max_min_fair(frame, budget=2.0))


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        FRAME.astype("Float64"),
        FRAME.astype(object),
        FRAME.astype(object).where(FRAME.notna(), None),
        FRAME.astype("float64[pyarrow]") if "pyarrow" in sys.modules else FRAME,
        FRAME.astype(pd.SparseDtype("float64", NAN)),
    ],
    ids=["float64", "Float64", "object", "None", "pyarrow", "sparse"],
)
def test_a_frame_is_read_with_its_names(frame):
    bids = Bids.of(frame)
    assert np.array_equal(bids.values, ARRAY)
    assert list(bids.clients) == NAMES
    assert bids.tasks == ("digits", "fashion")
    back = bids.to_frame()
    pd.testing.assert_frame_equal(back, FRAME, check_names=False)
    assert back.index.name == "client"


def test_whole_numbers_are_names_too():
    bids = Bids.of(pd.DataFrame([[1, 2], [3, 4]], index=[7, 3], dtype="Int64"))
    assert list(bids.clients) == [7, 3]
    assert bids.tasks == ("0", "1")
    assert bids.to_frame().loc[3, "1"] == 4


@pytest.mark.parametrize(
    "rule",
    [
        lambda bids: max_min_fair(bids, 2.0),
        lambda bids: max_min_fair_by_rounds(bids, 2),
        lambda bids: budget_fair(bids, 2.0),
        lambda bids: gmm_fair(bids, 2.0),
        lambda bids: greedy_within_budget(bids, 2.0),
        lambda bids: random_within_budget(bids, 2.0),
        lambda bids: value_threshold(bids, 0.4),
        MaxMinFair(2.0).recruit,
    ],
)
def test_every_auction_takes_a_frame_and_gives_frames(rule):
    outcome, plain = rule(FRAME), rule(ARRAY)
    assert np.array_equal(outcome.participation, plain.participation)
    for what in ("participation", "payment"):
        frame = outcome.to_frame(what)
        assert list(frame.index) == NAMES
        assert list(frame.columns) == ["digits", "fashion"]
        assert (frame.isna() == FRAME.isna()).all(axis=None)
        assert np.array_equal(frame.fillna(0).to_numpy(), getattr(plain, what))
    pd.testing.assert_frame_equal(outcome.to_frame("bids"), FRAME, check_names=False)
    assert np.allclose(outcome.to_frame().sum(), plain.take_up)


def test_a_wrong_table_is_refused():
    outcome = max_min_fair(FRAME, 2.0)
    said = one_line(InputError, lambda: outcome.to_frame("price"))  # type: ignore[arg-type]
    assert said == "what must be 'participation' or 'payment' or 'bids', got 'price'"


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (FRAME.iloc[:, :0], "a DataFrame of bids needs at least one column: one for each task"),
        (FRAME.iloc[:0], "a DataFrame of bids needs at least one row: one for each client"),
        (pd.DataFrame(), "a DataFrame of bids needs at least one column: one for each task"),
        (
            FRAME.rename(index={"fred": "anna"}),
            "two clients are called 'anna' in the DataFrame's index; names must differ",
        ),
        (
            FRAME.rename(columns={"fashion": "digits"}),
            "two tasks are called 'digits' in the DataFrame's columns; names must differ",
        ),
        (
            FRAME.astype(object).replace(0.1, "ten"),
            "the bid of client 'carl' for task 'digits' must be a number >= 0, or NaN if the "
            "client is unwilling, got 'ten'",
        ),
        (
            FRAME.astype(str),
            "the bid of client 'anna' for task 'digits' must be a number >= 0, or NaN if the "
            "client is unwilling, got '0.25'",
        ),
        (
            FRAME.notna(),
            "the bid of client 'anna' for task 'digits' must be a number >= 0, or NaN if the "
            "client is unwilling, got True",
        ),
        (
            FRAME.replace(0.3, -1),
            "the bid of client 'bert' for task 'fashion' must be a number >= 0, or NaN if the "
            "client is unwilling, got -1",
        ),
        (
            FRAME.replace(0.3, np.inf),
            "the bid of client 'bert' for task 'fashion' must be a number >= 0, or NaN if the "
            "client is unwilling, got inf",
        ),
        (
            FRAME.astype(object).replace(0.3, 10**400),
            "a bid for task 'fashion' is too large for a float",
        ),
        (
            FRAME.assign(fashion=pd.Categorical(["low", "high"] * 3)),
            "the bid of client 'anna' for task 'fashion' must be a number >= 0, or NaN if the "
            "client is unwilling, got 'low'",
        ),
        (
            FRAME.assign(fashion=pd.Timestamp("2020-01-01")),
            "the bid of client 'anna' for task 'fashion' must be a number >= 0, or NaN if the "
            "client is unwilling, got Timestamp('2020-01-01 00:00:00')",
        ),
        (
            FRAME.set_index([FRAME.index, FRAME.index]),
            "a DataFrame of bids needs one name for each client, got index with 2 levels",
        ),
        (
            FRAME.rename(index={"bert": None}),
            "names of clients must be text or whole numbers, got nan at position 1 of the "
            "DataFrame's index",
        ),
        (
            FRAME.rename(columns={"digits": 1.5}),
            "names of tasks must be text or whole numbers, got 1.5 at position 0 of the "
            "DataFrame's columns",
        ),
    ],
)
def test_a_wrong_frame_is_one_sentence(frame, said):
    assert refused(frame) == said


def test_searches_and_verifiers_take_frames():
    lie = best_response(MaxMinFair(2.0), FRAME, user="anna")
    assert lie == best_response(MaxMinFair(2.0), ARRAY, user=0)
    assert audit(MaxMinFair(2.0), FRAME).gain == audit(MaxMinFair(2.0), ARRAY).gain
    assert max_min_optimum(FRAME, 2.0) == max_min_optimum(ARRAY, 2.0)
    found = contest({"fair": MaxMinFair(1.0)}, {None: FRAME}, [2.0])  # type: ignore[dict-item]
    assert found.tasks == ("digits", "fashion")
    said = one_line(InputError, lambda: best_response(MaxMinFair(2.0), FRAME, user="nobody"))
    assert said == "user must be a row of the costs, 0 to 5, or a client's name, got 'nobody'"


def test_costs_are_found_by_name():
    outcome = max_min_fair(FRAME, 2.0)
    shuffled = FRAME.loc[NAMES[::-1], ["fashion", "digits"]]
    assert np.array_equal(outcome.utility(shuffled), outcome.utility(ARRAY))
    assert is_individually_rational(outcome, shuffled)
    dear = shuffled.copy()
    dear.loc["carl", "digits"] = 0.5
    assert "client 'carl', task 'digits' is paid" in str(rationality_violation(outcome, dear))
    said = one_line(InputError, lambda: outcome.utility(FRAME.rename(index={"anna": "zoe"})))
    assert said == "client 'anna' is not in the DataFrame"
    said = one_line(InputError, lambda: outcome.utility(FRAME.assign(speech=1.0)))
    assert said == "task 'speech' is not in the auction"


def run(*lines: str) -> subprocess.CompletedProcess[str]:
    code = "\n".join(["import sys", *lines])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_pandas_is_imported_only_for_a_frame():
    done = run(
        "from mmfl.market import max_min_fair",
        "outcome = max_min_fair([[0.2, None], [0.3, 0.4]], 2.0)",
        "assert 'pandas' not in sys.modules",
        "print(outcome.to_frame().shape, 'pandas' in sys.modules)",
    )
    assert done.stdout == "(2, 2) True\n", done.stderr


def test_without_pandas_a_sentence_says_how_to_install_it(monkeypatch):
    outcome = max_min_fair([[0.2, None], [0.3, 0.4]], 2.0)
    monkeypatch.setitem(sys.modules, "pandas", None)
    said = one_line(InputError, outcome.to_frame)
    assert said == "a DataFrame needs pandas, which is not installed: pip install pandas"
