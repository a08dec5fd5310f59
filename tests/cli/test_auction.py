"""``mmfl auction`` as a person uses it: tables, JSON, exit codes, one sentence for a mistake."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path

import pytest

from mmfl import Experiment
from mmfl.market import (
    MECHANISMS,
    Market,
    MaxMinFair,
    budget_fair,
    max_min_fair,
    read_bids,
)

near = pytest.approx
TABLE = "client,mnist,fashion\nanna,0.25,0.4\nbert,,0.3\ncarl,0.1,0.9\n"
MARKET = """
clients = 8
seed = 3
[tasks.a]
kind = "uniform"
[tasks.b]
kind = "increasing_linear"
"""
KINDS = [kind for kind in MECHANISMS.table if kind != "value_threshold"]


@pytest.fixture(autouse=True)
def _files(tmp_path) -> None:
    (tmp_path / "bids.csv").write_text(TABLE)
    (tmp_path / "market.toml").write_text(MARKET)
    (tmp_path / "nobody.csv").write_text("client,a,b\nx,,\n")


@pytest.fixture
def auction(call):
    """From arguments to standard output; it must succeed and say nothing else."""

    def auction(*arguments: str) -> str:
        code, out, err = call("auction", *arguments)
        assert (code, err) == (0, "")
        return out

    return auction


def row(out: str, first: str) -> list[str]:
    return next(line.split() for line in out.splitlines() if line.startswith(first + " "))


# run


def test_run_shows_a_row_for_each_task(auction):
    out = auction("run", "bids.csv", "-b", "1")
    assert out.startswith("max_min_fair, budget 1, payment critical, fractional yes\n")
    assert row(out, "mnist") == ["mnist", "2", "2", "-", "0.2500", "2.00", "0.500", "-"]
    assert row(out, "fashion") == ["fashion", "3", "1", "0.25", "0.4000", "1.25", "0.500", "-"]
    assert row(out, "all") == ["all", "3", "1.000", "0"]
    assert "min take-up 1.25, difference 0.75" in out


def test_run_shows_what_is_left_of_fixed_shares(auction):
    out = auction("run", "bids.csv", "-m", "greedy_within_budget", "--budget", "1")
    assert row(out, "mnist") == ["mnist", "2", "2", "-", "its", "bid", "2", "0.3500", "0.1500"]
    assert row(out, "all") == ["all", "3", "0.6500", "0.3500"]


def test_run_takes_every_option(auction):
    out = auction("run", "bids.csv", "-b", "1", "--payment", "share", "--integer")
    assert "payment share, fractional no" in out
    assert "difference 0" in out
    out = auction("run", "bids.csv", "-m", "value_threshold", "--threshold", "0.35")
    assert row(out, "mnist") == ["mnist", "2", "2", "-", "0.3500", "2", "0.700"]
    outs = {
        auction("run", "bids.csv", "-m", "random_within_budget", "-b", "0.6", "--seed", str(seed))
        for seed in range(5)
    }
    assert len(outs) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_run_prints_json_that_says_everything(auction, kind):
    data = json.loads(auction("run", "bids.csv", "-b", "1", "-m", kind, "--json"))
    assert data["mechanism"] == kind
    assert data["budget"] == 1
    assert data["spent"] + data["leftover"] == near(1)
    assert sum(task["spend"] for task in data["tasks"].values()) == near(data["spent"])
    assert min(task["take_up"] for task in data["tasks"].values()) == data["min_take_up"]


def test_json_names_clients_and_the_fraction(auction):
    data = json.loads(auction("run", "bids.csv", "-b", "1", "--json"))
    assert data["tasks"]["mnist"]["winners"] == ["carl", "anna"]
    assert data["tasks"]["mnist"]["fractional"] is None
    part = data["tasks"]["fashion"]["fractional"]
    assert part == {"client": "anna", "participation": near(0.25), "payment": near(0.1)}
    assert data["stop"] == "budget"
    data = json.loads(
        auction("run", "bids.csv", "-m", "value_threshold", "--threshold", "1", "--json")
    )
    assert (data["budget"], data["leftover"]) == (None, None)


def test_run_writes_awards(auction):
    out = auction("run", "bids.csv", "-b", "1", "--out", "awards.csv")
    assert out.endswith("wrote awards.csv\n")
    lines = csv.DictReader(Path("awards.csv").read_text().splitlines())
    found = [(line["client"], line["task"]) for line in lines]
    assert found == [
        ("carl", "mnist"),
        ("anna", "mnist"),
        ("bert", "fashion"),
        ("anna", "fashion"),
    ]
    json.loads(auction("run", "bids.csv", "-b", "1", "--out", "awards.csv", "--force", "--json"))


def test_run_draws_the_bids_of_a_market(auction):
    market = Market.load("market.toml")
    for arguments, seed in (((), 3), (("--seed", "5"), 5)):
        data = json.loads(auction("run", "market.toml", "-b", "2", "--json", *arguments))
        expected = max_min_fair(market.bids(seed), 2.0)
        assert data["min_take_up"] == expected.min_take_up
        assert data["tasks"]["a"]["winners"] == expected.winners[0].tolist()


def test_run_with_nobody(auction):
    out = auction("run", "nobody.csv", "-b", "1")
    assert row(out, "a") == ["a", "0", "0", "-", "-", "0", "0", "-"]


# compare


def test_compare_shows_all_mechanisms_for_each_budget(auction):
    out = auction("compare", "bids.csv", "-b", "1,2")
    take_up, difference = out.split("difference, by budget")
    assert take_up.startswith("min take-up, by budget\n")
    one, two = (line.split() for line in take_up.splitlines() if line.lstrip()[:2] in ("1 ", "2 "))
    assert (one[0], two[0]) == ("1", "2")
    assert len(one) == len(two) == 1 + len(KINDS) + 1
    table = read_bids("bids.csv")
    for shown, budget in ((one, 1.0), (two, 2.0)):
        assert float(shown[1]) == near(max_min_fair(table, budget).min_take_up, abs=0.051)
    assert len(difference.splitlines()) >= 4


def test_compare_takes_ranges_thresholds_and_some_mechanisms(auction):
    out = auction(
        *("compare", "bids.csv", "-b", "0.5,1-3", "--threshold", "0.35,2"),
        *("-m", "gmm_fair,value_threshold", "--json"),
    )
    data = json.loads(out)["results"]
    assert [r["mechanism"] for r in data[:4]] == ["gmm_fair"] * 4
    assert [r["budget"] for r in data[:4]] == [0.5, 1, 2, 3]
    assert {r["mechanism"] for r in data} == {
        "gmm_fair",
        "value_threshold 0.35",
        "value_threshold 2",
    }
    assert [r["within_budget"] for r in data if r["mechanism"] == "value_threshold 2"] == [
        False
    ] * 4
    shown = auction("compare", "bids.csv", "-b", "1", "--threshold", "2")
    assert "10.00!" in shown
    assert "!: spends more than the budget" in shown


def test_compare_takes_the_payment_rule_where_there_is_one(auction):
    data = json.loads(auction("compare", "bids.csv", "-b", "1", "--payment", "share", "--json"))
    found = {r["mechanism"]: r["spent"] for r in data["results"]}
    assert found["budget_fair"] == budget_fair(read_bids("bids.csv"), 1, payment="share").spent
    assert found["max_min_fair"] == near(1)
    assert "max_min_fair integer" in found


def test_compare_means_over_seeds_of_a_market(auction):
    out = auction("compare", "market.toml", "-b", "2", "--seeds", "0-2", "-m", "gmm_fair")
    assert "Means over 3 seeds." in out
    data = json.loads(
        auction("compare", "market.toml", "-b", "2", "--seeds", "0-2", "-m", "gmm_fair", "--json")
    )["results"]
    assert [r["seed"] for r in data] == [0, 1, 2]
    mean = sum(r["min_take_up"] for r in data) / 3
    assert float(row(out, "min take-up")[2]) == near(mean, abs=0.0051)


def test_compare_writes_json(auction):
    out = auction("compare", "bids.csv", "-b", "1", "--out", "all.json")
    assert out.endswith("wrote all.json\n")
    data = json.loads(auction("compare", "bids.csv", "-b", "1", "--json"))
    written = json.loads(Path("all.json").read_text())
    assert written.pop("command").endswith("--out all.json")
    assert written == {key: value for key, value in data.items() if key != "command"}


def test_compare_with_nobody(auction):
    data = json.loads(auction("compare", "nobody.csv", "-b", "1", "--json"))
    assert {r["min_take_up"] for r in data["results"]} == {0}


# check


def test_check_says_what_holds(auction):
    out = auction("check", "bids.csv", "-b", "1")
    assert "within budget: yes, 1 of 1 is spent" in out
    assert "individually rational: yes" in out
    assert "min take-up: 1.25; paying every client exactly its bid would buy 1 client for " in out
    assert "truthful: no, best gain found" in out
    assert "3 clients searched" in out


@pytest.mark.parametrize(
    "options",
    [
        ("-m", "budget_fair", "-b", "1"),
        ("-m", "value_threshold", "--threshold", "0.35"),
    ],
)
def test_check_knows_theorems(auction, options):
    out = auction("check", "bids.csv", *options)
    assert "truthful: yes, by a theorem, and no profitable lie was found" in out
    data = json.loads(auction("check", "bids.csv", *options, "--json"))
    assert (data["truthful_by_theorem"], data["best_gain"], data["best_lie"]) == (True, 0, None)


def test_check_finds_the_lie_of_ce1(auction):
    Path("ce1.csv").write_text("id,task\n1,0.30\n2,0.35\n3,0.40\n")
    options = ("-m", "budget_fair", "--payment", "share", "-b", "1")
    data = json.loads(auction("check", "ce1.csv", *options, "--json"))
    assert data["best_gain"] == near(0.1, abs=1e-6)
    lie = data["best_lie"]
    assert (lie["client"], lie["task"]) == (3, "task")
    assert lie["bids"][0] < 0.35
    assert lie["utility"] == near(0.1, abs=1e-6)
    assert lie["utility_if_truthful"] == 0
    out = auction("check", "ce1.csv", *options)
    assert "client 3 gets 0.1 instead of 0 by bidding" in out


def test_check_looks_at_as_many_clients_as_asked(auction):
    for users, searched in (("1", 1), ("2", 2), ("0", 8)):
        arguments = ("-b", "2", "--clients", users, "--tries", "32", "--json")
        data = json.loads(auction("check", "market.toml", *arguments))
        assert data["users_searched"] == searched


def test_check_with_nobody(auction):
    data = json.loads(auction("check", "nobody.csv", "-b", "1", "--json"))
    assert data["budget_feasible"]
    assert data["individually_rational"]
    assert data["users_searched"] == 1


@pytest.mark.parametrize("broken", ["payment", "budget"])
def test_check_fails_if_a_promise_is_broken(call, monkeypatch, broken):
    """No auction of ours does that; a mechanism that pays a tenth or ten times as much does."""

    def recruit(self, bids):
        outcome = max_min_fair(bids, self.budget)
        factor = 0.1 if broken == "payment" else 10
        return dataclasses.replace(outcome, payment=outcome.payment * factor)

    monkeypatch.setattr(MaxMinFair, "recruit", recruit)
    code, out, _ = call(
        "auction", "check", "bids.csv", "-b", "1", "--clients", "1", "--tries", "32"
    )
    assert code == 1
    said = {
        "payment": "individually rational: no, client",
        "budget": "within budget: no, 10 is spent",
    }
    assert said[broken] in out


# An experiment


def test_the_auction_of_an_experiment_is_held_without_training(auction, small_toml):
    text = "[recruitment]\nmechanism = { kind = 'budget_fair', budget = 3.0 }\nbids = 'uniform'\n"
    Path("fair.toml").write_text(small_toml + text)
    data = json.loads(auction("run", "fair.toml", "--json"))
    assert (data["mechanism"], data["budget"]) == ("budget_fair", 3.0)
    assert list(data["tasks"]) == ["dense", "image"]
    experiment = Experiment.load("fair.toml")
    bids = experiment.recruitment.collect_bids(["dense", "image"], range(10), experiment.seed)
    assert data["spent"] == near(budget_fair(bids, 3.0).spent)
    more = json.loads(auction("run", "fair.toml", "--json", "-b", "4", "--payment", "share"))
    assert more["spent"] == near(budget_fair(bids, 4.0, payment="share").spent)
    other = json.loads(auction("run", "fair.toml", "--json", "-m", "max_min_fair", "-b", "3"))
    assert other["spent"] == near(max_min_fair(bids, 3.0).spent)
    assert "2 seeds" in auction("compare", "fair.toml", "-b", "1,2", "--seeds", "0-1")
