"""A convergence experiment: tasks with known constants, and how they are trained together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mmfl.allocate import FedFair
from mmfl.convergence.problem import Problem, TheOutputs
from mmfl.errors import InputError
from mmfl.experiment import (
    Clients,
    Evaluate,
    Experiment,
    Inline,
    Inverse,
    LocalOverride,
    LocalTraining,
    Task,
)
from mmfl.objectives import LossScore
from mmfl.theory import Constants, skew_bounds

__all__ = ["Setting"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Tasks over one pool of clients, all of whom hold data of all tasks.

    Attributes:
        tasks: From name to what is to be solved.
        alpha: Of FedFairMMFL.
        tau: Local steps.
        batch_size: Examples of a step; a client that holds fewer takes all.
        T: In how many rounds each task is to train.
        rounds: The most rounds, in all; a task that is hardly ever chosen may not get to T.
        active: Share of the clients that are active in a round.
    """

    tasks: Mapping[str, Problem]
    alpha: float = 1.0
    tau: int = 1
    batch_size: int = 1 << 20
    T: int = 300
    rounds: int = 100_000
    active: float = 1.0

    def __post_init__(self) -> None:
        counts = {name: len(problem.clients) for name, problem in self.tasks.items()}
        if len(set(counts.values())) != 1:
            raise InputError(f"all tasks must have the same number of clients, got {counts}")

    @property
    def K(self) -> int:  # noqa: N802
        """How many clients there are."""
        return len(next(iter(self.tasks.values())).clients)

    def experiment(self, seed: int) -> Experiment:
        """The setting as an experiment: f_s is the clients' mean loss (equation 1)."""
        return Experiment(
            rounds=self.rounds,
            clients=Clients(self.K, self.active),
            tasks=tuple(self._task(name) for name in self.tasks),
            seed=seed,
            score=LossScore(),
            score_source="clients",
            local=LocalTraining(
                steps=self.tau,
                batch_size=self.batch_size,
                momentum=0.0,
                weight_decay=0.0,
                remainder="drop",
            ),
            allocator=FedFair(self.alpha),
            evaluate=Evaluate(every=self.rounds),
            engine=Inline(),
        )

    def _task(self, name: str) -> Task:
        problem = self.tasks[name]
        schedule = Inverse(problem.mu, problem.offset(None))
        return Task(
            name=name,
            dataset=problem,
            model=problem,
            partition="by_group",
            loss=TheOutputs(),
            normalize="none",
            local=LocalOverride(lr=schedule),
        )

    def constants(self, task: str) -> Constants:
        """All that the theorems assume of a task in this setting."""
        return self.tasks[task].constants(
            tau=self.tau, batch_size=self.batch_size, skew=self.skew(task)
        )

    def skew(self, task: str) -> tuple[float, float]:
        """Bounds on the selection skew, given that somebody trains, which no run can leave.

        With alpha = 1 and all clients active, q = 1/S in every round, and the bounds are exact.

        Otherwise q moves with the losses, and they are 1/(K max p) and 1/(K min p), the limit for
        q -> 0, for this reason. A client's weight over p_k is 1{k in Sel} / (sum of p over Sel). Of
        two clients the one with more data has the lower mean: in a selection that has both the two
        are equal, and one that has only the larger client has the larger sum. So the least skew is
        the largest client's. Given |Sel| = n, it is in `Sel` with chance n/K (all clients' draws
        are alike), and the sum is at most n max p: at least 1/(K max p), whatever n is. The
        greatest skew is the smallest client's, in the same way.
        """
        q = 1.0 / len(self.tasks) if self.alpha == 1.0 and self.active == 1.0 else 0.0
        return skew_bounds(self.tasks[task].p, q, given_nonempty=True)

    def exact(self, task: str) -> bool:
        """Whether the task meets the theorems' assumptions to the letter (`Problem.unbiased`)."""
        return self.tasks[task].unbiased(self.tau, self.batch_size)
