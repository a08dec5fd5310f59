"""Everything in this process, one job after the other: for debuggers, tests and small models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmfl.devices import refuse_missing
from mmfl.exchange import (
    ClientFailure,
    ClientUpdate,
    Evaluation,
    EvaluationFailure,
    Job,
    Params,
    Split,
)
from mmfl.experiment import DataCache, Ids, ModelDescription, SimulatedFederation, model_needs
from mmfl.system.memory import Need, refuse
from mmfl.system.turns import hold

if TYPE_CHECKING:
    from mmfl.experiment import Experiment
    from mmfl.train import Trainer

__all__ = ["InlineEngine"]


class InlineEngine:
    """An `Engine` over one trainer."""

    merges = False
    workers = 1

    def __init__(
        self,
        experiment: Experiment,
        data_dir: Path | None,
        *,
        raise_errors: bool = False,
        blank: bool = False,
    ) -> None:
        self._raise_errors = raise_errors
        self._cache = DataCache(data_dir, blank=blank)
        self._trainer: Trainer
        self._experiment: Experiment
        self._table: dict[str, Any] | None = None
        self.prepare(experiment)

    @property
    def federation(self) -> SimulatedFederation:
        """The clients."""
        return self._trainer.federation

    @property
    def trainer(self) -> Trainer:
        """What trains here."""
        return self._trainer

    def prepare(self, experiment: Experiment) -> None:
        """Load what is missing, and build a trainer."""
        from mmfl.train import Trainer

        experiment = experiment.resolved()
        table = experiment.engine_table
        with hold(self):
            if table != self._table:  # if this fails, the previous one is still served
                refuse_missing(experiment.device)
                arrays = self._cache.arrays(experiment)
                self._trainer = Trainer.of(experiment, arrays, raise_errors=self._raise_errors)
                self._cache.keep(experiment, arrays)
                self._table = table
            self._experiment = experiment

    def data(self) -> dict[str, str]:
        """From task name to the SHA-256 of its data."""
        return self._cache.hashes(self._experiment)

    def describe(self) -> dict[str, ModelDescription]:
        """From task name to how its model is built and used."""
        return self._cache.describe(self._experiment)

    def numerics(self) -> dict[str, str]:
        """What this process computes with."""
        from mmfl.train import numerics

        return numerics(self._trainer.device)

    def needs(self) -> list[Need]:
        """What is known of the models' memory before they are built."""
        trainer = self._trainer
        found = {task: trainer.weigh(task) for task in self.federation.tasks}
        known = {task: size for task, size in found.items() if size is not None}
        return model_needs(self._experiment, self.federation, trainer.arrays, known)

    def initial(self) -> dict[str, Params]:
        """Every task's first weights."""
        refuse(self.needs())
        return {task.name: self._trainer.initial(task.name) for task in self._experiment.tasks}

    def train(
        self, jobs: Sequence[Job], params: Mapping[str, Params], *, merge: bool = False
    ) -> Iterator[ClientUpdate | ClientFailure]:
        """Job after job."""
        for job in jobs:
            yield self._trainer.train(job, params[job.address.task].flat)

    def evaluate(
        self,
        params: Mapping[str, Params],
        split: Split,
        clients: Mapping[str, Ids] | None = None,
    ) -> Iterator[Evaluation | EvaluationFailure]:
        """Piece after piece, or client after client."""
        for task, weights in params.items():
            if clients is None:
                for piece in range(self.federation.pieces(task, split)):
                    yield self._trainer.evaluate(task, weights.flat, split, piece=piece)
            else:
                for client in clients[task].tolist():
                    yield self._trainer.evaluate(task, weights.flat, split, client=client)

    def close(self) -> None:
        """Do nothing: there is nothing to free."""
