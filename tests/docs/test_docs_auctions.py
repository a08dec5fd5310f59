"""What the pages about auctions show is what you get."""

from __future__ import annotations

import numpy as np
import pytest

from mmfl.market import (
    MECHANISMS,
    BudgetFair,
    Market,
    best_response,
    budget_fair,
    max_min_fair,
    read_bids,
    write_awards,
)
from mmfl.market.bids_io import DISTRIBUTIONS
from support.pages import HOUSE, block, blocks, write_files

HOW_TO = "docs/how-to/run-an-auction.md"
EXPLAINED = "docs/explanation/auctions.md"


def test_the_awards_are_those_of_the_table(tmp_path):
    write_files(HOW_TO, tmp_path)
    outcome = max_min_fair(read_bids(tmp_path / "bids.csv"), budget=2.0)
    write_awards(outcome, tmp_path / "written.csv")
    assert (tmp_path / "written.csv").read_text() == block(HOW_TO, "awards.csv")


def test_the_line_about_lies_is_computed(capsys):
    (shown,) = blocks(EXPLAINED, "python")
    short = shown.text.replace("instances=20", "instances=1")
    assert short != shown.text
    exec(short, {})
    assert len(capsys.readouterr().out.split()) == 3


def test_the_market_is_simulated(tmp_path):
    write_files(HOW_TO, tmp_path)
    assert Market.load(tmp_path / "market.toml").bids().shape == (100, 2)


def test_every_mechanism_and_bid_model_is_described():
    for page, table in ((EXPLAINED, MECHANISMS.table), (HOW_TO, DISTRIBUTIONS.table)):
        text = (HOUSE / page).read_text(encoding="utf-8")
        assert [kind for kind in table if f"| `{kind}` |" not in text] == []


def test_the_counter_examples_are_mended():
    def spent(bids, budget):
        return max_min_fair(bids, budget).spent

    assert spent([[0.6, 0.3]], 1.0) <= 1 + 1e-9  # CE3
    assert max_min_fair([[0.8, 0.8]], 1.0).min_take_up == pytest.approx(0.625)  # CE4: .5 / .8
    assert spent([[0.1], [0.1]], 1.0) <= 1 + 1e-9  # CE2
    costs = np.array([[0.3], [0.35], [0.4]])
    assert best_response(BudgetFair(1.0), costs, 2).gain == 0  # CE1
    lie = budget_fair([[0.3], [0.35], [0.34]], 1.0, payment="share")
    assert lie.utility(costs)[2] == pytest.approx(0.1)
    assert max_min_fair([[0.25, 0.75]], 1.0).take_up.tolist() == [1, 1]  # CE6
    assert spent([[0.1, 0.5], [0.2, 2.5]], 2.0) <= 2 + 1e-9  # CE5
    seven = max_min_fair([[0.99, 0.1, 1.5]], 3.0)  # CE7
    assert (seven.payment >= seven.participation * seven.bids.values - 1e-9).all()
    assert max_min_fair([[0.2, 0.9]], 1.0).take_up[1] == pytest.approx(0.8889, abs=1e-4)  # CE8
    eleven = max_min_fair([[0.2, 2.5]], 2.0)  # CE11
    assert eleven.take_up[1] == pytest.approx(0.72)
    assert eleven.utility([[0.2, 2.5]])[0] >= -1e-9
