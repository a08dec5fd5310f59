"""Measured errors and the bounds on them.

    setting = Setting(tasks={"near": near, "far": far}, alpha=2.0, tau=5)
    found = measure(setting, seeds=range(20))
    found["far"].error.mean[-1], found["far"].corrected[-1]

Trained by `mmfl.rounds`, as everything is. As the theorems need it, T counts the rounds in which
the task trained; so does the learning rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mmfl.convergence.problem import Floats, Problem
from mmfl.convergence.setting import Setting
from mmfl.errors import InputError
from mmfl.experiment import Experiment
from mmfl.loop import rounds
from mmfl.theory import Constants, printed, recursion_bound, t_step_bound

__all__ = [
    "RunTrace",
    "Sample",
    "Trajectory",
    "WeightPath",
    "collect_trajectories",
    "follow_weights",
    "measure",
    "trace_run",
]


@dataclass(frozen=True, eq=False)
class RunTrace:
    """One task in one run.

    Attributes:
        error: (n + 1) f(w) - f* at the start and after each round in which it trained.
        distance: (n + 1) |w - w*|^2 then.
        when: (n) the numbers of these rounds.
        clients: (n) how many clients trained it in them.
        rounds: How many rounds there were.
    """

    error: Floats
    distance: Floats
    when: npt.NDArray[np.int64]
    clients: npt.NDArray[np.int64]
    rounds: int

    @property
    def by_round(self) -> Floats:
        """(rounds + 1) the error after each round, trained or not."""
        counted = np.searchsorted(self.when, np.arange(self.rounds + 1), side="right")
        return self.error[counted]


@dataclass(frozen=True, eq=False)
class WeightPath:
    """Where the weights of one task were in one run.

    Attributes:
        weights: (n + 1, d) at the start and after each round in which the task trained.
        when: (n) the numbers of these rounds.
        clients: (n) how many clients trained it in them.
        rounds: How many rounds there were.
    """

    weights: Floats
    when: npt.NDArray[np.int64]
    clients: npt.NDArray[np.int64]
    rounds: int

    def trace(self, problem: Problem) -> RunTrace:
        """The error of these weights in a problem: the task's, or that of some of its clients."""
        errors = np.array([problem.error(w) for w in self.weights])
        apart = np.array([problem.distance(w) for w in self.weights])
        return RunTrace(errors, apart, self.when, self.clients, self.rounds)


def follow_weights(
    experiment: Experiment, tasks: Mapping[str, Problem], T: int
) -> dict[str, WeightPath]:
    """Run an experiment until each of its tasks has trained in T rounds (or rounds are out).

    Stopping at T, and not after a number of rounds, keeps the mean over seeds honest: which seeds
    have reached T by some round depends on what was selected.
    """
    weights = {name: [problem.first] for name, problem in tasks.items()}
    trained: dict[str, list[tuple[int, int]]] = {name: [] for name in tasks}
    with rounds(experiment) as going:
        for state, record in going:
            for name in (name for name, clients in record.clients.items() if clients):
                weights[name].append(state.params[name].flat.astype(np.float64))
                trained[name].append((record.round, record.clients[name]))
            if min(state.versions.values()) >= T:
                break
    found = {}
    for name, steps in trained.items():
        when, clients = np.array(steps, np.int64).reshape(-1, 2).T
        found[name] = WeightPath(np.stack(weights[name]), when, clients, state.round)
    return found


def trace_run(setting: Setting, seed: int) -> dict[str, RunTrace]:
    """One run of a setting."""
    paths = follow_weights(setting.experiment(seed), setting.tasks, setting.T)
    return {name: path.trace(setting.tasks[name]) for name, path in paths.items()}


@dataclass(frozen=True, eq=False)
class Sample:
    """A curve in every seed.

    Attributes:
        rows: (seeds, n).
    """

    rows: Floats

    @cached_property
    def mean(self) -> Floats:
        """(n) over seeds."""
        mean: Floats = self.rows.mean(axis=0)
        return mean

    @cached_property
    def standard_error(self) -> Floats:
        """(n) of the mean."""
        error: Floats = self.rows.std(axis=0, ddof=1) / len(self.rows) ** 0.5
        return error


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One task over several seeds, with its bounds.

    Attributes:
        constants: Of the task.
        exact: Whether it meets the theorems' assumptions to the letter.
        T: The task trained in at least this many rounds in every seed; later ones are left out.
        traces: One per seed.
    """

    constants: Constants
    exact: bool
    T: int
    traces: Sequence[RunTrace]

    def __post_init__(self) -> None:
        if len(self.traces) < 2:
            raise InputError(f"at least 2 seeds are needed, got {len(self.traces)}")

    @cached_property
    def error(self) -> Sample:
        """(T + 1) f(w) - f*."""
        return Sample(np.stack([trace.error[: self.T + 1] for trace in self.traces]))

    @cached_property
    def distance(self) -> Sample:
        """(T + 1) |w - w*|^2."""
        return Sample(np.stack([trace.distance[: self.T + 1] for trace in self.traces]))

    @cached_property
    def by_round(self) -> Sample:
        """The error after each round, trained or not, up to the last that all seeds reached."""
        R = min(trace.rounds for trace in self.traces)
        return Sample(np.stack([trace.by_round[: R + 1] for trace in self.traces]))

    @property
    def start(self) -> float:
        """|w^(0) - w*|^2."""
        return float(self.traces[0].distance[0])

    @property
    def clients(self) -> float:
        """How many clients trained the task in a round in which any did, on average."""
        counts = np.concatenate([trace.clients[: self.T] for trace in self.traces])
        return float(counts.mean()) if counts.size else 0.0

    @property
    def idle(self) -> float:
        """The share of rounds in which nobody trained the task."""
        return 1.0 - sum(len(w.when) for w in self.traces) / sum(w.rounds for w in self.traces)

    @cached_property
    def corrected(self) -> Floats:
        """(T + 1) the corollary "Model Convergence", corrected."""
        return self.corollary(self.T)

    @cached_property
    def as_printed(self) -> Floats:
        """(T + 1) the same as the paper prints it."""
        times = range(self.T + 1)
        return np.array([printed.t_step_bound(t, self.constants, self.start) for t in times])

    @cached_property
    def recursion(self) -> Floats:
        """(T + 1) the theorem "Model Parameter Convergence", applied once a round."""
        return recursion_bound(self.T, self.constants, self.start, steps=1)

    @cached_property
    def by_steps(self) -> Floats:
        """(T + 1) the same, applied once a local step, tau times a round."""
        return recursion_bound(self.T, self.constants, self.start)

    @cached_property
    def sharper(self) -> Floats:
        """(T + 1) the same, with 2 (tau - 1)^2 G^2 in place of the drift term 32 tau^2 G^2.

        The drift term is twice a bound on the mean of |w_k - w|^2 over `Sel`, w their mean. In a
        round whose rate is constant, after i <= tau - 1 steps this is at most the mean of
        |w_k - w^(t)|^2, hence at most i^2 eta^2 G^2. So 16 in the lemma can be 1, and with one
        local step there is no drift at all.
        """
        less = replace(self.constants, tau=(self.constants.tau - 1.0) / 4.0)  # 32 ((tau-1)/4)^2
        return recursion_bound(self.T, less, self.start, steps=int(self.constants.tau))

    def corollary(self, T: int) -> Floats:
        """(T + 1) the corrected corollary up to any T, to be read with the rounds one likes."""
        return np.array([t_step_bound(t, self.constants, self.start) for t in range(T + 1)])


def collect_trajectories(
    setting: Setting, runs: Iterable[Mapping[str, RunTrace]]
) -> dict[str, Trajectory]:
    """Runs of a setting, one per seed, as one trajectory per task."""
    runs, found = list(runs), {}
    for name in setting.tasks:
        traces = [run[name] for run in runs]
        T = min([setting.T, *(len(trace.when) for trace in traces)])
        found[name] = Trajectory(setting.constants(name), setting.exact(name), T, traces)
    return found


def measure(setting: Setting, seeds: Iterable[int]) -> dict[str, Trajectory]:
    """Run a setting for each seed; from task to its mean errors and its bounds."""
    return collect_trajectories(setting, (trace_run(setting, seed) for seed in seeds))
