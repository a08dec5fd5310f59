"""What docs/auctions.md shows, is what one gets."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from mmfl.cli import main
from mmfl.market import (
    MECHANISMS,
    BudgetFair,
    Market,
    best_response,
    budget_fair,
    max_min_fair,
)
from mmfl.market.bids_io import DISTRIBUTIONS

PAGE = (Path(__file__).parents[2] / "docs/auctions.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bids.csv").write_text(blocks("csv")[0])
    return tmp_path


def test_the_commands_print_what_is_shown(here, monkeypatch, capsys):
    shown = [part for block in blocks("console") for part in block.split("$ ")[1:]]
    assert len(shown) == 4
    for part in shown:
        command, _, expected = part.partition("\n")
        monkeypatch.setattr("sys.argv", shlex.split(command))
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        assert capsys.readouterr().out == expected
    assert (here / "awards.csv").read_text() == blocks("csv")[1]


def test_the_python_and_the_toml_work(here):
    first, second = blocks("python")
    exec(first, {"print": lambda *_: None})
    short = second.replace("instances=20", "instances=1")
    assert short != second
    exec(short, {"print": lambda *_: None})
    (here / "market.toml").write_text(blocks("toml")[0])
    assert Market.load(here / "market.toml").bids().shape == (100, 2)


def test_every_mechanism_and_bid_model_is_described():
    for kind in (*MECHANISMS.table, *DISTRIBUTIONS.table):
        assert f"| `{kind}` |" in PAGE


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
