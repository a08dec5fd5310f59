"""Tasks that recruit with an auction: what is measured, and what the theorem says of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mmfl.convergence import (
    AuctionSetting,
    Quadratic,
    RecruitedTrajectory,
    Setting,
    collect_recruited,
    measure_recruited,
    trace_recruited,
)
from mmfl.errors import InputError
from mmfl.experiment import RecruitmentSettings
from mmfl.market import BudgetFair, MaxMinFair
from mmfl.market.bids_io import UniformBids
from support.pages import blocks

T = 200  # so that the bound for tasks that train is below the error of those that do not
NEVER, SOMETIMES, ALWAYS = 0.1, 0.8, 5.0
SEEDS = {"never": range(4), "sometimes": range(4), "always": range(2)}


def integer(budget: float) -> MaxMinFair:
    return MaxMinFair(budget=budget, fractional=False)


def problem(name: str) -> Quadratic:
    """L = mu, clients that differ little, and a start far from the optimum."""
    rng = np.random.default_rng(len(name))
    clients = [rng.normal(rng.normal(scale=0.2, size=2), 0.3, size=(3, 2)) for _ in range(2)]
    return Quadratic(clients=clients, start=[4.0, 4.0], curvature=[1.0, 1.0])


def recruiting(mechanism, T=T) -> AuctionSetting:
    """Two users and two tasks, the second dearer."""
    laws = {"cheap": UniformBids(), "dear": UniformBids(low=0.2, high=1.5)}
    return AuctionSetting(
        setting=Setting(tasks={name: problem(name) for name in laws}, batch_size=1, T=T),
        recruitment=RecruitmentSettings(mechanism=mechanism, tasks=laws),
    )


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, RecruitedTrajectory]]:
    budgets = {"never": NEVER, "sometimes": SOMETIMES, "always": ALWAYS}
    return {
        name: measure_recruited(recruiting(integer(budget)), SEEDS[name])
        for name, budget in budgets.items()
    }


def test_the_corrected_bound_is_above_what_is_measured(found):
    for courses in found.values():
        for course in courses.values():
            assert course.T == T
            assert (course.error.mean[1:] < course.corrected[1:]).all()


def test_the_corrected_bound_tells_whether_anybody_joins(found):
    """The test above is not idle: no bound for tasks that train covers those that do not."""
    for name in ("cheap", "dear"):
        bounds = [found[which][name].corrected[-1] for which in ("always", "sometimes", "never")]
        assert bounds == sorted(bounds)
        untrained = found["never"][name].error.mean[-1]
        assert bounds[0] < untrained < bounds[-1]


def test_the_printed_bound_falls_below_the_error_where_nobody_joins(found):
    for name in ("cheap", "dear"):
        always, sometimes, never = (found[w][name] for w in ("always", "sometimes", "never"))
        printed = [course.as_printed[-1] for course in (always, sometimes, never)]
        assert printed == sorted(printed, reverse=True)
        assert printed[-1] < never.error.mean[-1] / 2
        assert always.error.mean[-1] < sometimes.error.mean[-1] < never.error.mean[-1]


def test_where_nobody_is_recruited_the_initial_model_counts(found):
    for name, course in found["never"].items():
        untrained = problem(name).error(problem(name).first)
        assert (course.frequency, course.take_up) == (1.0, 0.0)
        assert course.nobody > 0.99
        assert (course.error.rows == untrained).all()
        assert (course.everyone.rows == course.error.rows).all()


def test_a_task_can_be_without_users_while_another_trains():
    setting = recruiting(BudgetFair(budget=SOMETIMES), T=5)
    winners = [setting.hold_auction(seed) for seed in range(20)]
    seed = next(k for k, won in enumerate(winners) if won["cheap"] and not won["dear"])
    run = trace_recruited(setting, seed)
    assert (run["cheap"].winners, run["dear"].winners) == (winners[seed]["cheap"], ())
    assert len(run["cheap"].own) > 5
    assert run["cheap"].own[5] < run["cheap"].own[0] / 2
    assert run["dear"].own.tolist() == [problem("dear").error(problem("dear").first)]


def test_max_min_recruits_for_both_tasks_or_for_none(found):
    cheap, dear = (found["sometimes"][name].runs for name in ("cheap", "dear"))
    for one, other in zip(cheap, dear, strict=True):
        assert len(one.winners) == len(other.winners)
    assert 0 < found["sometimes"]["cheap"].frequency < 1


def test_the_error_is_that_of_the_winners_own_objective(found):
    cheap = problem("cheap")
    few = [run for run in found["sometimes"]["cheap"].runs if len(run.winners) == 1]
    assert few
    for run in few:
        alone = cheap.restrict(run.winners)
        assert alone.optimum == pytest.approx(cheap.own_optima[run.winners[0]])
        assert run.own[0] == alone.error(cheap.first)
        left = cheap.error(alone.optimum)  # what remains of the error of all users' objective
        assert run.own[-1] < left / 4
        assert left / 4 < run.everyone[-1] < 9 * left / 4  # |w - w*|: the triangle inequality
    for run in found["always"]["cheap"].runs:
        assert run.winners == (0, 1)
        assert (run.own == run.everyone).all()


def test_runs_with_the_same_winners_are_the_same_whatever_recruited_them():
    ways = [integer(ALWAYS), BudgetFair(budget=2 * ALWAYS)]
    first, second = (trace_recruited(recruiting(way, T=3), seed=1) for way in ways)
    for name, run in first.items():
        assert run.winners == second[name].winners == (0, 1)
        assert run.own.tolist() == second[name].own.tolist()


def test_only_as_many_rounds_are_compared_as_every_seed_with_winners_has():
    setting = recruiting(BudgetFair(budget=2 * ALWAYS), T=10)
    short = dataclasses.replace(setting, setting=dataclasses.replace(setting.setting, rounds=6))
    runs = [trace_recruited(short, seed) for seed in range(2)]
    course = collect_recruited(short, runs)["cheap"]
    assert course.T == min(len(run["cheap"].own) for run in runs) - 1 <= 6
    assert course.error.rows.shape == (2, course.T + 1) == (2, len(course.corrected))
    with pytest.raises(InputError, match="at least 2 seeds"):
        measure_recruited(setting, [0])


def test_an_auction_works_as_shown(capsys):
    _, block = blocks("docs/explanation/convergence.md", "python")
    exec(block.text.replace("T=50", "T=3").replace("range(4)).items", "range(2)).items"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[::2]] == ["cheap", "dear"]
    for line in lines[1::2]:
        error, _, bound, _, _ = line.split()
        assert 0 < float(error) < float(bound)
