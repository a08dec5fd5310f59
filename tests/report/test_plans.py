"""Figures of plans."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mmfl.planning import Estimate, Outlook, Plan, Reach, Scenario
from mmfl.report.figures import draw_plan, save_plan
from support.marks import slow
from support.pictures import assert_tidy, said


def made(alphas=(1.0, 3.0), budgets=(None,), tasks=("digits", "$fashion_1$"), source="equal"):
    """A plan in which clients grow with alpha, and take-up with the budget."""

    def task(s: int, alpha: float, budget: float | None) -> Outlook:
        hired = {}
        if budget is not None:
            hired = {"take_up": Estimate(budget * (s + 1), 0.1), "spend": Estimate(budget / 3, 0.0)}
            hired["nobody"] = Estimate(0.5 / budget, 0.01)
        learnt = {}
        if source == "runs":
            learnt = {"metric": Estimate(0.5 + 0.1 * s, 0.01), "difficulty": Estimate(0.4, 0.01)}
            learnt["reach"] = Reach(0.6, 9.0 if s else math.inf, 7.0, math.inf, 0.6, 0.0)
        clients = Estimate(2.0 * alpha + s if math.isfinite(alpha) else 9.0, 0.2)
        return Outlook(clients, Estimate(0.5, 0.0), Estimate(0.1 * s, 0.02), **hired, **learnt)

    scenarios = tuple(
        Scenario(
            alpha,
            budget,
            {name: task(s, alpha or 1.0, budget) for s, name in enumerate(tasks)},
            Estimate(6.0, 0.0),
            None if budget is None else Estimate(0.9 * budget, 0.01),
            None if budget is None else Estimate(0.1, 0.01),
        )
        for budget in budgets
        for alpha in alphas
    )
    return Plan(scenarios, 30, 20, tuple(tasks), source, (), {}, ())


def lines(axes):
    """The lines that have marks: one for each task, or for all."""
    return [line for line in axes.lines if line.get_marker() not in ("", "None", None)]


def test_clients_and_starving_are_drawn_over_alpha():
    figure = draw_plan(made(alphas=(1.0, 2.0, math.inf)), title="first run")
    clients, starved = figure.axes
    first, second = lines(clients)
    assert first.get_ydata().tolist() == [2.0, 4.0, 9.0]
    assert second.get_ydata().tolist() == [3.0, 5.0, 9.0]
    assert [label.get_text() for label in clients.get_xticklabels()] == ["1", "2", "∞"]
    assert lines(starved)[1].get_ydata().tolist() == pytest.approx([0.1] * 3)
    text = said(figure)
    for word in ("first run: what to expect", "digits", "$fashion_1$", "alpha", "20 draws"):
        assert word in text
    assert_tidy(figure)


def test_budgets_get_a_row_for_what_they_recruit_and_one_each_for_alpha():
    figure = draw_plan(made(budgets=(10.0, 20.0, 29.0)), title="recruited")
    assert len(figure.axes) == 3 + 3 * 2
    recruited, spent, nobody = figure.axes[:3]
    assert lines(recruited)[1].get_ydata().tolist() == [20.0, 40.0, 58.0]
    assert lines(spent)[0].get_ydata().tolist() == pytest.approx([9.0, 18.0, 26.1])
    assert lines(nobody)[0].get_ydata().tolist() == pytest.approx([0.05, 0.025, 0.5 / 29])
    heights = {axes.get_ylim() for axes in figure.axes[3::2]}
    assert len(heights) == 1  # so that budgets can be compared
    for word in ("What a budget recruits", "with a budget of 10", "with a budget of 29"):
        assert word in said(figure)
    assert_tidy(figure)


def test_with_runs_there_are_the_metric_and_the_rounds_to_a_target():
    figure = draw_plan(made(source="runs"))
    _, _, metric, rounds = figure.axes
    assert lines(metric)[1].get_ydata().tolist() == pytest.approx([0.6, 0.6])
    never, some = lines(rounds)
    assert np.isnan(never.get_ydata()).all()
    assert some.get_ydata().tolist() == [9.0, 9.0]
    assert rounds.get_ylim()[1] > 30
    text = said(figure)
    assert "Rounds to .60 (median)" in text
    assert "not reached within 30 rounds" in text
    assert_tidy(figure)


@pytest.mark.parametrize(
    "plan",
    [
        slow(made(alphas=(None,))),
        slow(made(alphas=(3.0,), budgets=(5.0,))),
        made(alphas=(3.0,), budgets=tuple(range(1, 61))),
        slow(made(alphas=tuple(range(1, 9)), budgets=tuple(range(1, 9)))),
        made(tasks=[f"a task with quite a long name {n}" for n in range(12)], source="runs"),
        slow(made(tasks=[f"$task_{n}" for n in range(60)])),
        made(tasks=["W" * 200, "задача 任务"]),
    ],
    ids=["one scenario", "one of each", "budgets", "both", "tasks", "sixty tasks", "wide names"],
)
def test_whatever_is_planned_the_picture_can_be_read(plan):
    assert_tidy(draw_plan(plan, title="a title that is long " * 9))


def test_the_same_plan_gives_the_same_bytes(tmp_path):
    first, again = save_plan(made(), tmp_path / "a.png"), save_plan(made(), tmp_path / "b.png")
    assert first.read_bytes() == again.read_bytes()
