"""What people see of auctions."""

from __future__ import annotations

import json
import re
import sys

import pytest

from mmfl.report import thin

BIDS = """client,digits,fashion
anna,0.25,0.40
bert,,0.30
carl,0.10,0.55
dora,0.35,
emil,0.20,0.90
fred,0.60,0.70
"""
MARKET = """clients = 100
[tasks."task 1"]
kind = "truncated_normal"
mean = 0.5
sd = 0.2
[tasks."task 2"]
kind = "increasing_linear"
"""


@pytest.fixture
def bids(tmp_path):
    (tmp_path / "bids.csv").write_text(BIDS)
    return tmp_path / "bids.csv"


@pytest.fixture
def market(tmp_path):
    (tmp_path / "market.toml").write_text(MARKET)
    return tmp_path / "market.toml"


def test_one_auction_is_a_row_per_task(call, bids):
    code, out, _ = call("auction", "run", bids, "-b", "2")
    assert code == 0
    assert out.splitlines() == [
        "max_min_fair, budget 2, payment critical, fractional yes",
        "task     willing  winners  in part   price  take-up  spent  left",
        "digits         5        3        -  0.2500     3.00  0.750     -",
        "fashion        5        2     0.45  0.5000     2.45  1.250     -",
        "all                     5                            2.000     0",
        "min take-up 2.45, difference 0.55; stopped: budget used up",
    ]


def test_what_rounding_left_over_is_nothing(call, tmp_path):
    rows = "\n".join(f"{(7 * i % 13 + 1) / 30!r},{(5 * i % 11 + 1) / 7!r}" for i in range(40))
    (tmp_path / "bids.csv").write_text(f"a,b\n{rows}\n")
    for kind in ("max_min_fair", "budget_fair", "gmm_fair", "greedy_within_budget"):
        for budget in ("0.7", "3.3", "7.7", "12345.6"):
            _, out, _ = call("auction", "run", tmp_path / "bids.csv", "-b", budget, "-m", kind)
            assert not re.search(r"\de-", out)


def test_without_a_budget_nothing_is_left(call, bids):
    _, out, _ = call("auction", "run", bids, "-m", "value_threshold", "--threshold", "0.4")
    assert "left" not in out
    assert re.search(r"^all +5 +2\.000$", out, flags=re.MULTILINE)


def test_one_budget_is_compared_by_task(call, bids):
    _, out, _ = call("auction", "compare", bids, "-b", "2", "--threshold", "0.7")
    rows = {line.split("  ")[0]: line.split()[-7:] for line in out.splitlines()}
    assert rows["min take-up"] == ["2.45", "2.00", "3.00", "2.00", "2.00", "1.00", "3.00"]
    assert rows["digits"] == ["3.00", "2.00", "3.00", "3.00", "4.00", "2.00", "5.00"]
    assert rows["spent"][-1] == "5.600!"
    assert "!: spends more than the budget (value_threshold has no budget)." in out


def test_many_budgets_are_thinned_and_fit_80_columns(call, market, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out_file = tmp_path / "all.json"
    code, out, err = call(
        *("auction", "compare", market, "-b", "1-60", "--threshold", "0.4,0.6"),
        *("--seeds", "0-1", "--out", out_file),
    )
    assert (code, err) == (0, "")
    assert max(map(len, out.replace(str(out_file), "").splitlines())) <= 80
    assert len(out.splitlines()) < 45
    assert "12 of 60 budgets are shown" in out
    assert "Means over 2 seeds." in out
    found = json.loads(out_file.read_text())
    assert found["command"].startswith("mmfl auction compare")
    assert found["seeds"] == [0, 1]
    assert found["budgets"] == list(range(1, 61))
    assert found["options"]["value_threshold 0.4"] == {"threshold": 0.4}
    assert found["without_budget"] == ["value_threshold 0.4", "value_threshold 0.6"]
    assert len(found["results"]) == 8 * 60 * 2
    code, out, _ = call("auction", "compare", market, "-b", "29", "--seeds", "0", "--json")
    assert len(json.loads(out)["results"]) == 6


def test_a_dozen_tasks_with_long_names_stay_apart(on_terminal, tmp_path):
    names = [f"the department of number {s}" for s in range(12)]
    rows = "\n".join(",".join(str((i * s) % 9 + 1) for s in range(1, 13)) for i in range(30))
    (tmp_path / "bids.csv").write_text(f"{','.join(names)}\n{rows}\n")
    path = str(tmp_path / "bids.csv")
    for command in (["run"], ["compare", "--threshold", "0.4,0.6,0.7,0.8"]):
        shown = on_terminal([sys.executable, "-m", "mmfl", "auction", *command, path, "-b", "200"])
        plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).replace("\r", "\n").splitlines()
        assert max(map(len, plain)) <= 120
        first = [line[:27].strip() for line in plain if "number" in line]
        assert len(set(first)) == 12


def test_names_are_no_markup_and_cannot_speak_to_the_terminal(call, tmp_path):
    names = ["\x1b[31mred", "[red]x[/red]"]
    (tmp_path / "bids.csv").write_text(f"{','.join(names)}\n1,2\n2,1\n3,3\n")
    for command in ("run", "compare", "check"):
        _, out, err = call("auction", command, tmp_path / "bids.csv", "-b", "9")
        assert "\x1b" not in out + err
        if command != "check":
            assert "\\x1b[31mred" in out
            assert "[red]x[/red]" in out


def test_budgets_are_thinned_to_round_ones():
    assert thin([float(b) for b in range(1, 61)], 12) == [5.0 * k for k in range(1, 13)]
    assert thin([1.0, 2.0], 12) == [1.0, 2.0]
    odd = [0.37 + 0.0137 * k for k in range(100)]
    found = thin(odd, 12)
    assert found[0] == odd[0]
    assert found[-1] == odd[-1]
    assert len(set(found)) == 12
