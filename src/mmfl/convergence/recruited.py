"""Measured errors of tasks that recruit with an auction, and the bounds on them.

    setting = AuctionSetting(setting=Setting(tasks=...), recruitment=RecruitmentSettings(...))
    found = measure_recruited(setting, seeds=range(20))
    found["far"].error.mean[-1], found["far"].corrected[-1], found["far"].frequency

Every seed is another auction. The error of a task is that of its winners' own objective, as in the
theorem "Convergence with Auctions"; the error of all users' objective is measured as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mmfl.convergence.auctions import AuctionSetting
from mmfl.convergence.measure import Sample, follow_weights
from mmfl.convergence.problem import Floats
from mmfl.errors import InputError
from mmfl.theory import Constants, auction_bound, printed

__all__ = [
    "RecruitedRun",
    "RecruitedTrajectory",
    "collect_recruited",
    "measure_recruited",
    "trace_recruited",
]


@dataclass(frozen=True, eq=False)
class RecruitedRun:
    """One task in one run.

    Attributes:
        winners: The clients that the auction recruited for it.
        own: (n + 1) f_W(w) - f_W* of the winners' objective, at the start and after each round in
            which the task trained. If there are no winners, it is the error of the initial model in
            the objective of all users.
        everyone: (n + 1) f(w) - f* of the objective of all users.
    """

    winners: tuple[int, ...]
    own: Floats
    everyone: Floats


def trace_recruited(setting: AuctionSetting, seed: int) -> dict[str, RecruitedRun]:
    """One auction, and one run of the tasks that recruited somebody."""
    problems, winners = setting.setting.tasks, setting.hold_auction(seed)
    trained = {name: problem for name, problem in problems.items() if winners[name]}
    paths = {}
    if trained:
        paths = follow_weights(setting.experiment(seed, trained), trained, setting.setting.T)
    found = {}
    for name, problem in problems.items():
        if name in paths:
            own = paths[name].trace(problem.restrict(winners[name])).error
            everyone = paths[name].trace(problem).error
        else:
            own = everyone = np.array([problem.error(problem.first)])
        found[name] = RecruitedRun(winners[name], own, everyone)
    return found


@dataclass(frozen=True, eq=False)
class RecruitedTrajectory:
    """One task over several seeds, with the bounds of the theorem "Convergence with Auctions".

    Attributes:
        constants: Of the task, valid for every set of winners.
        distance: A bound on |w^(0) - w_W*|^2 for every set of winners.
        N: Users that bid.
        nobody: The chance that the auction recruits nobody for the task.
        join: The chance that a user wins it.
        T: The task trained in at least this many rounds in every seed in which it had winners.
        runs: One per seed.
    """

    constants: Constants
    distance: float
    N: int
    nobody: float
    join: float
    T: int
    runs: Sequence[RecruitedRun]

    def __post_init__(self) -> None:
        if len(self.runs) < 2:
            raise InputError(f"at least 2 seeds are needed, got {len(self.runs)}")

    @cached_property
    def error(self) -> Sample:
        """(T + 1) the error of the winners' own objective; of the initial model without winners."""
        return Sample(np.stack([self._extend(run.own) for run in self.runs]))

    @cached_property
    def everyone(self) -> Sample:
        """(T + 1) the error of the objective of all users. The theorem is not about it."""
        return Sample(np.stack([self._extend(run.everyone) for run in self.runs]))

    @property
    def frequency(self) -> float:
        """The share of runs in which the auction recruited nobody for the task."""
        return sum(not run.winners for run in self.runs) / len(self.runs)

    @property
    def take_up(self) -> float:
        """How many users the task recruited, on average."""
        return sum(len(run.winners) for run in self.runs) / len(self.runs)

    @cached_property
    def corrected(self) -> Floats:
        """(T + 1) the theorem, corrected."""
        times = range(self.T + 1)
        return np.array(
            [auction_bound(t, self.constants, self.distance, nobody=self.nobody) for t in times]
        )

    @cached_property
    def as_printed(self) -> Floats:
        """(T + 1) the theorem as the paper prints it, on average over all users' bids."""
        joins = [self.join] * self.N
        times = range(self.T + 1)
        return np.array(
            [printed.auction_bound(t, self.constants, self.distance, joins) for t in times]
        )

    def _extend(self, errors: Floats) -> Floats:
        """The first T + 1 errors; an untrained model keeps its error in all rounds."""
        return np.full(self.T + 1, errors[0]) if len(errors) == 1 else errors[: self.T + 1]


def collect_recruited(
    setting: AuctionSetting, runs: Iterable[Mapping[str, RecruitedRun]]
) -> dict[str, RecruitedTrajectory]:
    """Runs of a setting, one per seed, as one trajectory per task."""
    runs, found = list(runs), {}
    for name in setting.setting.tasks:
        own = [run[name] for run in runs]
        T = min([setting.setting.T, *(len(run.own) - 1 for run in own if run.winners)])
        found[name] = RecruitedTrajectory(
            constants=setting.constants(name),
            distance=setting.distance(name),
            N=setting.N,
            nobody=setting.nobody(name),
            join=setting.join(name),
            T=T,
            runs=own,
        )
    return found


def measure_recruited(
    setting: AuctionSetting, seeds: Iterable[int]
) -> dict[str, RecruitedTrajectory]:
    """Hold an auction and run the setting for each seed; from task to its errors and bounds."""
    return collect_recruited(setting, (trace_recruited(setting, seed) for seed in seeds))
