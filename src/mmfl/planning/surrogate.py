"""An engine that trains nothing: the round loop itself then plans, at about a millisecond a round.

A task's model is two numbers: the work done on it so far, U_s, and the power beta_s with which the
clients of a round add to it. A turn returns at once; the aggregator `Work` adds n_t^beta_s for the
n_t updates that were accepted; an evaluation reads the difficulty f_s and the metric off what is
known of the task (`Predictor`). Everything else in a round is real: recruitment, active clients,
eligibility, allocation, faults and checks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np

from mmfl.aggregate import Checks
from mmfl.config import component
from mmfl.exchange import ClientUpdate, Evaluation, Job, Layout, Params, Split
from mmfl.experiment import Experiment, Federation, Ids, ModelDescription
from mmfl.objectives import SCORES, Measured, Score, Scored

__all__ = ["Fixed", "Predictor", "Surrogate", "Work", "make_surrogate_experiment", "work_of"]

_LAYOUT = Layout((("work", (1,)), ("beta", (1,))))
_UPDATE = Params(_LAYOUT, np.ones(2, np.float32))


class Predictor(Protocol):
    """Predicts from the work done on a task how hard it is."""

    @property
    def beta(self) -> float:
        """A round with n clients adds n^beta to the work."""
        ...

    def difficulty(self, work: float) -> float:
        """f_s after this work."""
        ...

    def metric(self, work: float) -> float:
        """The metric after this work; NaN if it is not known."""
        ...


@dataclass(frozen=True)
class Fixed:
    """A task that is always as hard as this."""

    level: float
    beta: ClassVar[float] = 1.0

    def difficulty(self, work: float) -> float:
        """Always the same."""
        return self.level

    def metric(self, work: float) -> float:
        """Not known."""
        return math.nan


@component
class Work:
    """U_s <- U_s + n_t^beta_s, n_t the number of accepted updates, whatever is in them."""

    mergeable: ClassVar[Literal[False]] = False

    def aggregate(
        self, params: Params, updates: Iterable[ClientUpdate], difficulty: float, state: Any
    ) -> tuple[Params, Any]:
        """One round's work; without updates, none."""
        clients = sum(1 for _ in updates)
        work, beta = params.flat.tolist()
        done = work + clients**beta if clients else work
        return Params(params.layout, np.array([done, beta], np.float32)), state


@component
class Foreseen:
    """Difficulties are read off an evaluation's loss; targets are as the experiment scores them.

    Attributes:
        score: The experiment's.
    """

    score: Annotated[Score, SCORES]

    def difficulty(self, measured: Measured, task: Scored) -> float:
        """The loss; if there is none, as for a target, what the experiment's score says."""
        if math.isnan(measured.loss):
            return self.score.difficulty(measured, task)
        return measured.loss


def work_of(params: Params) -> float:
    """U_s, from a task's model."""
    return float(params.flat[0])


def make_surrogate_experiment(experiment: Experiment, seed: int) -> Experiment:
    """The experiment as a `Surrogate` serves it: who trains what is decided as in the original.

    Difficulties are read off directly (they are the losses of evaluations) and
    every round, by the server. A task that recruits nobody is left out, and does not end the plan.
    """
    recruitment = experiment.recruitment
    if recruitment is not None:
        recruitment = dataclasses.replace(recruitment, empty="leave_out")
    return dataclasses.replace(
        experiment.resolved(),
        seed=seed,
        score=Foreseen(experiment.score),
        score_source="server",
        score_split="test",
        recruitment=recruitment,
        aggregator=Work(),
        checks=Checks(max_norm=math.inf),
    )


@dataclass(frozen=True)
class Surrogate:
    """An `Engine` for an experiment of `make_surrogate_experiment`.

    Attributes:
        experiment: The experiment.
        federation: The clients; it may be that of another seed.
        predictors: By task, what is known of it.
    """

    experiment: Experiment
    federation: Federation
    predictors: Mapping[str, Predictor]
    merges: ClassVar[bool] = False
    workers: ClassVar[int] = 1

    def data(self) -> dict[str, str]:
        """None is held."""
        return {}

    def describe(self) -> dict[str, ModelDescription]:
        """There are no models."""
        return {}

    def numerics(self) -> dict[str, str]:
        """Nothing is trained."""
        return {}

    def prepare(self, experiment: Experiment) -> None:
        """Only experiments with the same tasks, clients and seed can be served."""
        experiment.resolved().check_same_engine_table(self.experiment)

    def initial(self) -> dict[str, Params]:
        """No work done yet."""
        return {
            task: Params(_LAYOUT, np.array([0.0, self.predictors[task].beta], np.float32))
            for task in self.federation.tasks
        }

    def train(
        self, jobs: Sequence[Job], params: Mapping[str, Params], *, merge: bool = False
    ) -> Iterator[ClientUpdate]:
        """A turn is over when it begins; it processes as many examples as a real one."""
        clients = np.array([job.address.client for job in jobs], np.int64)
        sizes = self.federation.sizes(clients)
        column = {task: number for number, task in enumerate(self.federation.tasks)}
        loss = {
            task: self.predictors[task].difficulty(work_of(weights))
            for task, weights in params.items()
        }
        for row, job in enumerate(jobs):
            task = job.address.task
            held = int(sizes[row, column[task]])
            yield ClientUpdate(
                address=job.address,
                delta=_UPDATE,
                examples=held,
                samples=job.work.samples_with(held),
                loss_before=loss[task],
                loss_after=loss[task],
                norm=1.0,
            )

    def evaluate(
        self, params: Mapping[str, Params], split: Split, clients: Mapping[str, Ids] | None = None
    ) -> Iterator[Evaluation]:
        """The difficulty, as the loss, and the metric after the work done."""
        for task, weights in params.items():
            predictor, work = self.predictors[task], work_of(weights)
            yield Evaluation(task, 1, predictor.difficulty(work), predictor.metric(work))

    def close(self) -> None:
        """Do nothing: there is nothing to free."""
