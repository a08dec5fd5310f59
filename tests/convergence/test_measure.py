"""Measured convergence: what is counted, and what the bounds say."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import mmfl
from mmfl.allocate import allocation_probabilities
from mmfl.convergence import (
    Quadratic,
    RunTrace,
    Setting,
    Trajectory,
    collect_trajectories,
    measure,
    trace_run,
)
from mmfl.errors import InputError
from support import convex
from support.pages import blocks


@pytest.fixture(scope="module")
def setting() -> Setting:
    tasks = {"mild": convex.quadratic(), "wild": convex.quadratic((2, 5, 8), seed=1, spread=2.0)}
    return Setting(tasks=tasks, alpha=2.0, tau=2, batch_size=3, T=20)


@pytest.fixture(scope="module")
def found(setting: Setting) -> dict[str, Trajectory]:
    return measure(setting, range(4))


def test_the_corrected_bounds_lie_above_what_is_measured(found):
    for course in found.values():
        assert course.T == 20
        assert (course.error.mean[1:] < course.corrected[1:]).all()
        assert (course.error.mean[1:] < course.recursion[1:]).all()
        assert (course.recursion <= course.corrected).all()
        assert (course.by_steps <= course.corrected).all()
        assert course.error.mean[-1] < course.error.mean[0] / 2


def test_logistic_tasks_train_too():
    setting = Setting(tasks={"one": convex.logistic(), "other": convex.logistic((3, 6, 9))}, T=15)
    for course in measure(setting, range(3)).values():
        assert (course.error.mean[1:] < course.recursion[1:]).all()
        assert course.error.mean[-1] < course.error.mean[0] / 2


def test_only_rounds_in_which_a_task_trained_are_counted(setting):
    runs = trace_run(setting, seed=1)
    with mmfl.rounds(setting.experiment(1)) as going:
        records = [pair for _, pair in zip(range(runs["mild"].rounds), going, strict=False)]
    for name, one in runs.items():
        trained = [record.round for _, record in records if record.clients[name]]
        assert one.when.tolist() == trained
        assert one.clients.tolist() == [r.clients[name] for _, r in records if r.clients[name]]
        problem = setting.tasks[name]
        last = records[-1][0].params[name].flat.astype(np.float64)
        assert one.error[-1] == problem.error(last)
        assert one.by_round[0] == one.error[0]
        assert one.by_round[-1] == one.error[-1]
        assert len(one.by_round) == one.rounds + 1
        idle = sorted({*range(1, one.rounds + 1)} - {*trained})
        assert all(one.by_round[t] == one.by_round[t - 1] for t in idle)
    assert min(len(one.when) for one in runs.values()) == setting.T


def test_a_walk_takes_the_steps_of_the_schedule():
    """One client with one example: w - w* is multiplied by 1 - a/(mu (t + 4 L/mu))."""
    alone = Quadratic(clients=[[[1.0, 1.0]]], start=[3.0, 2.0], curvature=[2.0, 1.0])
    one = trace_run(Setting(tasks={"alone": alone}, T=20), 0)["alone"]
    left = np.array([2.0, 1.0])
    for t in range(20):
        left = left * (1 - np.array([2.0, 1.0]) / (t + 8.0))
        assert one.distance[t + 1] == pytest.approx(np.square(left).sum(), rel=1e-5)


def test_the_difficulty_is_the_clients_mean_loss(setting):
    """The paper's equation 1: f_s is the loss of the aggregated model over all clients' data."""
    with mmfl.rounds(setting.experiment(0)) as going:
        state, record = next(going)
        for name, problem in setting.tasks.items():
            w = state.params[name].flat.astype(np.float64)
            f = problem.p @ problem.losses(w)
            assert record.difficulty[name] == pytest.approx(f, rel=1e-5)
        _, record = next(going)
    f = np.array([state.difficulty[name] for name in record.tasks])
    p = allocation_probabilities(f, 2.0)
    assert record.assignments.probabilities == pytest.approx(p[record.assignments.tasks])


@pytest.mark.parametrize("batch_size", [1, 3])
def test_nothing_leaves_where_training_can_get(batch_size):
    problems = {"q": convex.quadratic((2, 4, 6)), "l": convex.logistic((2, 4, 6), penalty=0.02)}
    setting = Setting(tasks=problems, tau=4, batch_size=batch_size, T=30)
    low, high = problems["q"].box(batch_size)
    r = problems["l"].radius(1.0 / (4.0 * problems["l"].L))
    seen = []
    for seed in range(2):
        with mmfl.rounds(setting.experiment(seed)) as going:
            for _, (state, _) in zip(range(30), going, strict=False):
                w = state.params["q"].flat.astype(np.float64)
                assert (low - 1e-6 <= w).all()
                assert (w <= high + 1e-6).all()
                seen.append(np.linalg.norm(state.params["l"].flat))
    assert max(seen) <= r
    assert min(seen) < max(seen)


def test_the_printed_bound_fails_for_one_steep_client():
    """The specification's counter-example (section 10, item 6) in the real loop."""
    steep = Quadratic(clients=[[[1e-3], [-1e-3]]], start=[0.0], curvature=[1000.0])
    setting = Setting(tasks={"steep": steep}, batch_size=1, T=60)
    course = measure(setting, range(8))["steep"]
    assert course.exact
    assert course.constants.sigma == pytest.approx(1.0)
    assert course.constants.offset == 4.0
    sums = np.sqrt([trace.distance[-1] for trace in course.traces]) * 63 / 1e-3
    np.testing.assert_allclose(sums, np.round(sums), atol=1e-3)  # of 60 draws +-.001, and 3 w_0
    assert (np.round(sums) % 2 == 0).all()
    assert course.error.mean[-1] > 4 * course.as_printed[-1]
    assert (course.error.mean[1:] < course.recursion[1:]).all()
    assert (course.recursion <= course.corrected).all()
    assert course.error.mean[1] == pytest.approx(course.sharper[1], rel=1e-5)  # and attained


def test_one_local_step_has_no_drift():
    """With tau = 1 the theorem holds without 32 tau^2 G^2, far below what it is with it."""
    setting = Setting(tasks={"one": convex.quadratic((2, 3, 7))}, batch_size=1, active=0.7, T=40)
    course = measure(setting, range(6))["one"]
    scale = 2.0 / course.constants.L
    assert (course.distance.mean[1:] < course.sharper[1:] * scale).all()
    assert (course.sharper[1:] < course.recursion[1:] / 3).all()
    many = dataclasses.replace(course, constants=dataclasses.replace(course.constants, tau=5.0))
    assert (many.sharper[1:] < many.by_steps[1:] / 10).all()


def skewed(T: int) -> Setting:
    """One of two clients a round: 99 examples at 0 or one at 1. A steep axis is never moved on."""
    points = [[0.0, 0.0]] * 99, [[0.0, 1.0]]
    problem = Quadratic(clients=points, start=[0.0, 0.01], curvature=[1e4, 1.0])
    return Setting(tasks={"skewed": problem}, tau=20, active=0.5, T=T)


def stays(t: int) -> float:
    """What a turn of `skewed` leaves of the way to the client's optimum."""
    return (1.0 - 1.0 / (t + 4e4)) ** 20


def test_the_theorem_by_rounds_fails_where_a_round_has_many_steps():
    """Unequal clients pull tau times a round, the theorem's bias term counts one: |w - w*|^2."""
    T, mean, square, distance = 800, 0.01, 0.01**2, [0.0]
    for left in map(stays, range(T)):  # E w and E w^2, exactly: each client with chance 1/2
        square = left**2 * square + left * (1 - left) * mean + (1 - left) ** 2 / 2
        mean = left * mean + (1 - left) / 2
        distance.append(square - 2 * 0.01 * mean + 0.01**2)
    still = RunTrace(np.zeros(T + 1), np.zeros(T + 1), np.arange(T), np.arange(T), T)
    course = Trajectory(skewed(T).constants("skewed"), True, T, [still] * 2)
    by_rounds, by_steps = (bound * 2 / 1e4 for bound in (course.recursion, course.by_steps))
    assert distance[-1] > 1.5 * by_rounds[-1]
    assert (distance < by_steps + 1e-12).all()
    assert (course.by_steps <= course.corrected).all()  # the corollary survives


def test_that_counter_example_is_what_the_loop_does():
    setting, w, distance = skewed(20), 0.01, [0.0]
    with mmfl.rounds(setting.experiment(0)) as going:
        chosen = [
            rec.assignments.clients.tolist() for _, (_, rec) in zip(range(20), going, strict=False)
        ]
    for t, (client,) in enumerate(chosen):
        w = client + stays(t) * (w - client)
        distance.append((w - 0.01) ** 2)
    assert {*map(tuple, chosen)} == {(0,), (1,)}
    np.testing.assert_allclose(
        trace_run(setting, 0)["skewed"].distance, distance, rtol=1e-3, atol=1e-12
    )


def test_a_task_that_never_trains_keeps_its_start():
    rich = Quadratic(clients=[[[100.0], [-100.0]]], start=[0.0], curvature=[1.0])
    poor = Quadratic(clients=[[[1e-3], [-1e-3]]], start=[1e-3], curvature=[1.0])
    setting = Setting(tasks={"poor": poor, "rich": rich}, alpha=9.0, rounds=6)
    runs = [trace_run(setting, seed) for seed in range(8)]
    idle = [run for run in runs if not len(run["poor"].when)][:2]  # unless in round 1, at random
    course = collect_trajectories(setting, idle)["poor"]
    assert (course.T, course.clients, course.idle) == (0, 0.0, 1.0)
    assert course.error.mean.tolist() == [poor.error(poor.first)]
    assert course.by_round.mean.tolist() == [poor.error(poor.first)] * 7
    assert len(course.corrected) == len(course.recursion) == len(course.as_printed) == 1
    assert collect_trajectories(setting, idle)["rich"].idle == 0.0


def test_only_as_many_rounds_are_shown_as_every_seed_has(setting):
    runs = [trace_run(setting, seed) for seed in range(2)]
    course = collect_trajectories(setting, runs)["wild"]
    assert course.T == setting.T < min(len(run["wild"].when) for run in runs)
    assert course.error.rows.shape == (2, setting.T + 1)
    short = [trace_run(dataclasses.replace(setting, rounds=20), seed) for seed in range(2)]
    mild = collect_trajectories(setting, short)["mild"]
    assert mild.T == min(len(run["mild"].when) for run in short) < 20
    np.testing.assert_allclose(
        course.error.standard_error, np.abs(np.diff(course.error.rows, axis=0)[0]) / 2
    )
    with pytest.raises(InputError, match="at least 2 seeds"):
        measure(setting, [0])


def test_ones_own_task_works_as_shown(capsys):
    block, _ = blocks("docs/explanation/convergence.md", "python")
    exec(block.text.replace("T=30", "T=5").replace("range(4)).items", "range(2)).items"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[::2]] == ["heights", "labels"]
    for line in lines[1::2]:
        error, _, _, _, bound = line.split()
        assert 0 < float(error) < float(bound)
