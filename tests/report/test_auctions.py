from __future__ import annotations

import numpy as np
import pytest

from mmfl.errors import InputError, StoreError
from mmfl.market import (
    Bids,
    BudgetFair,
    GMMFair,
    GreedyWithinBudget,
    MaxMinFair,
    RandomWithinBudget,
    ValueThreshold,
    contest,
    greedy_within_budget,
    max_min_fair,
    random_within_budget,
    value_threshold,
)
from mmfl.report.figures import draw_auctions, draw_supply, save_auctions, save_supply
from support.helpers import one_line
from support.marks import slow
from support.pictures import assert_tidy, said

FIVE = Bids(
    [[0.25, 0.4], [None, 0.3], [0.1, 0.55], [0.35, None], [0.2, 0.9]],
    ["anna", "bert", "carl", "dora", "emil"],
    ("digits", "$fashion_1$"),
)
MECHANISMS = {
    "max_min_fair": MaxMinFair(1.0),
    "max_min_fair integer": MaxMinFair(1.0, fractional=False),
    "gmm_fair": GMMFair(1.0),
    "budget_fair": BudgetFair(1.0),
    "greedy_within_budget": GreedyWithinBudget(1.0),
    "random_within_budget": RandomWithinBudget(1.0),
    "value_threshold 0.4": ValueThreshold(0.4),
    "value_threshold 0.6": ValueThreshold(0.6),
}


def made(budgets=(1, 2, 3), seeds=3, clients=30):
    tables = {s: Bids(np.random.default_rng(s).random((clients, 2))) for s in range(seeds)}
    return contest(MECHANISMS, tables, budgets)


def test_the_same_input_gives_the_same_bytes(tmp_path):
    name = "a.png"  # tests/report/test_figures.py has the other formats
    outcome, found = max_min_fair(FIVE, 2.0), contest({"x": GMMFair(1.0)}, {0: FIVE}, (1, 2))
    for number, drawn in enumerate(
        (
            lambda path: save_supply(outcome, path, title="five"),
            lambda path: save_auctions(found, path),
        )
    ):
        first, again = drawn(tmp_path / str(number) / name), drawn(tmp_path / name)
        assert first.read_bytes() == again.read_bytes()
        assert [p.name for p in first.parent.iterdir()] == [name]


def test_an_auction_is_told_task_by_task():
    figure = draw_supply(max_min_fair(FIVE, 2.0), title="max_min_fair, budget 2")
    text = said(figure)
    assert "max_min_fair, budget 2" in text
    assert "digits" in text
    assert "$fashion_1$" in text
    assert "3 of 4 willing; 0.75 spent" in text
    assert "2 of 4 willing, 45% of one more; 1.25 spent" in text
    assert "0.25" in text  # the prices
    assert "0.5" in text
    assert "recruited in part" in text
    assert "The task with the fewest clients has 2.45, the one with the most 0.55 more." in text
    assert_tidy(figure)


def test_dots_stand_where_the_bids_are_and_the_price_is_a_line():
    figure = draw_supply(max_min_fair(FIVE, 2.0))
    digits, _ = figure.axes
    lost, won, part, price = digits.lines
    assert won.get_xydata().tolist() == [[1, 0.1], [2, 0.2], [3, 0.25]]
    assert lost.get_xydata().tolist() == [[4, 0.35]]
    assert not len(part.get_xydata())
    assert list(price.get_ydata()) == [0.25, 0.25]
    assert list(price.get_xdata()) == [0.5, 3.5]


def test_bids_far_above_the_prices_do_not_flatten_the_picture():
    figure = draw_supply(max_min_fair([[0.5, 0.3], [0.2, 9.0], [0.1, 0.4]], 1.0))
    assert max(axes.get_ylim()[1] for axes in figure.axes) < 2
    assert "Clients with higher bids are not shown." in said(figure)
    large = draw_supply(max_min_fair([[1e6, 2e6], [3e6, 1e6], [2.5e6, 4e6]], 5e6))
    assert "2M" in said(large)


def test_where_winners_are_paid_their_bids_there_is_no_price():
    text = said(draw_supply(greedy_within_budget(FIVE, 1.0)))
    assert "each is paid its bid" in text
    assert "price" not in text
    assert "price" in said(draw_supply(value_threshold(FIVE, 0.4)))


@pytest.mark.slow
def test_one_that_was_paid_for_fully_in_the_last_round_is_no_fraction():
    bids = np.random.default_rng(0).random((200, 12)) * np.linspace(0.5, 1.5, 12)
    outcome = max_min_fair(bids, 60.0)
    assert any(part is not None and part.participation == 1 for part in outcome.fractional)
    text = said(draw_supply(outcome))
    assert "one more at its bid" in text
    assert "Every task has 32 clients." in text
    assert "in part" not in text


@pytest.mark.parametrize("tasks", [1, slow(2), slow(3), 4, slow(5), slow(12)])
def test_any_number_of_tasks_is_tidy(tasks):
    bids = np.random.default_rng(tasks).random((40, tasks))
    table = Bids(bids, (), tuple(f"the task of department {s}" for s in range(tasks)))
    figure = draw_supply(max_min_fair(table, 2.0 * tasks), title="x" * 300)
    assert sum(axes.axison for axes in figure.axes) == tasks
    assert_tidy(figure)


@pytest.mark.slow
def test_more_tasks_than_a_page_holds_are_counted():
    figure = draw_supply(max_min_fair(np.random.default_rng(0).random((5, 30)), 9.0))
    assert "6 more tasks are not shown." in said(figure)


@pytest.mark.slow
def test_many_clients_are_thinned_and_the_cut_is_kept():
    bids = np.random.default_rng(0).exponential(1.0, (200_000, 2)) * [1, 30]
    outcome = max_min_fair(bids, 30_000.0)
    figure = draw_supply(outcome)
    text = said(figure)
    assert "A dot stands for about" in text
    assert "its own scale" in text
    assert "not shown" in text
    for s, axes in enumerate(figure.axes):
        dots = np.concatenate([line.get_xydata() for line in axes.lines[:3]])
        assert len(dots) < 200
        assert len(outcome.winners[s]) in dots[:, 0]
    assert_tidy(figure)
    assert "A dot stands" in said(draw_supply(random_within_budget(bids, 30_000.0)))


@pytest.mark.parametrize(
    "bids",
    [
        *(np.empty((0, 2)), [[None, 0.5], [None, 0.2]], [[0.0, 0.0]]),
        *map(slow, ([[None, None]], [[5.0, 7.0]])),
    ],
)
def test_nothing_to_show_is_shown(bids):
    for outcome in (max_min_fair(bids, 1.0), value_threshold(bids, 1.0)):
        assert_tidy(draw_supply(outcome))


def test_nobody_is_said():
    assert "nobody is willing" in said(draw_supply(max_min_fair([[None], [None]], 1.0)))
    assert "none of 1 willing" in said(draw_supply(greedy_within_budget([[5.0]], 1.0)))


def test_mechanisms_are_named_where_their_lines_end():
    found = made()
    figure = draw_auctions(found, title="thirty clients " * 9)
    text = said(figure).replace("_ ", "_")
    for name in MECHANISMS:
        assert text.count(name.replace("integer", "").strip()) >= 2
    last = found.mean("gmm_fair", 3.0, "min_take_up")
    assert f"gmm_fair {last:.1f}" in text
    assert text.count("(no budget)") == 4
    assert "Grey: has no budget" in text
    assert "Dotted: spends more than the budget." in text
    assert "Line: mean of 3 seeds. Band: from the lowest to the highest." in text
    assert "thirty clients" in text
    assert_tidy(figure)


def test_lines_are_means_and_bands_the_extremes():
    found = contest({"gmm_fair": GMMFair(1.0)}, made_tables(), (1, 2, 3))
    _, take_up = draw_auctions(found).axes
    (line,) = [a for a in take_up.lines if a.get_linestyle() == "-" and len(a.get_xdata()) == 3]
    expected = [found.mean("gmm_fair", b, "min_take_up") for b in (1, 2, 3)]
    assert list(line.get_ydata()) == expected
    (band,) = take_up.collections
    tops = band.get_paths()[0].vertices[:, 1]
    assert tops.max() == max(found.values("gmm_fair", 3.0, "min_take_up"))


def made_tables():
    return {s: Bids(np.random.default_rng(s).random((30, 2))) for s in range(3)}


@pytest.mark.parametrize("budgets", [slow((2,)), (1, 1000), slow(tuple(range(1, 61)))])
def test_any_budgets_are_tidy(budgets):
    assert_tidy(draw_auctions(made(budgets, seeds=1)))
    one = contest({"x": ValueThreshold(0.5)}, {None: FIVE}, budgets)
    assert "Band" not in said(draw_auctions(one))


def test_mistakes_are_one_sentence(tmp_path):
    found = contest({"x": GMMFair(1.0)}, {0: FIVE}, (1,))
    message = one_line(InputError, lambda: save_supply(max_min_fair(FIVE, 2.0), tmp_path / "a.gif"))
    assert "must end in .png, .svg or .pdf, got" in message
    one_line(InputError, lambda: save_auctions(found, tmp_path / "a"))
    (tmp_path / "file").write_text("")
    message = one_line(StoreError, lambda: save_auctions(found, tmp_path / "file" / "a.png"))
    assert "cannot write the figure" in message
