"""An engine that asks one function: for tests of everything above engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mmfl.exchange import (
    ClientFailure,
    ClientUpdate,
    Evaluation,
    EvaluationFailure,
    Job,
    Params,
    Split,
)
from mmfl.experiment import Experiment, Federation, Ids, ModelDescription

__all__ = ["MockEngine"]

TurnFunction = Callable[[Job, Params], ClientUpdate | ClientFailure]
TestFunction = Callable[[str, Params, int | None], Evaluation | EvaluationFailure]


def _always_half(task: str, params: Params, client: int | None) -> Evaluation:
    return Evaluation(task, examples=2, loss=1.0, metric=1.0, client=client)


@dataclass(frozen=True)
class MockEngine:
    """An `Engine` whose clients are one function from a job and the weights to a result."""

    experiment: Experiment
    federation: Federation
    first: Mapping[str, Params]
    turn: TurnFunction
    test: TestFunction = _always_half
    merges: bool = False
    workers: int = 1

    def data(self) -> dict[str, str]:
        """There is none."""
        return {}

    def describe(self) -> dict[str, ModelDescription]:
        """Nothing is known of models."""
        return {}

    def numerics(self) -> dict[str, str]:
        """Nothing is trained."""
        return {}

    def prepare(self, experiment: Experiment) -> None:
        """Only experiments with the same tasks, clients and seed can be served."""
        experiment.resolved().check_same_engine_table(self.experiment.resolved())

    def initial(self) -> dict[str, Params]:
        """The weights that were given."""
        return dict(self.first)

    def train(
        self, jobs: Sequence[Job], params: Mapping[str, Params], *, merge: bool = False
    ) -> Iterator[ClientUpdate | ClientFailure]:
        """Ask the function."""
        return (self.turn(job, params[job.address.task]) for job in jobs)

    def evaluate(
        self, params: Mapping[str, Params], split: Split, clients: Mapping[str, Ids] | None = None
    ) -> Iterator[Evaluation | EvaluationFailure]:
        """Ask the other function."""
        for task, weights in params.items():
            for client in [None] if clients is None else clients[task].tolist():
                yield self.test(task, weights, client)

    def close(self) -> None:
        """Do nothing: there is nothing to free."""
