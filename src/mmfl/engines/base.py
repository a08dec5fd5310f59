"""The engine protocol: the machinery that trains and evaluates for the round loop.

Allocation, checks, aggregation and the store stay above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from mmfl.params import Params
from mmfl.updates import (
    ClientFailure,
    ClientUpdate,
    Evaluation,
    EvaluationFailure,
    Job,
    Split,
)

if TYPE_CHECKING:
    from mmfl.data.federation import Federation
    from mmfl.experiment import Experiment

__all__ = ["Engine", "EngineConfig", "Ids"]

Ids = npt.NDArray[np.int64]


class Engine(Protocol):
    """Trains and evaluates, for one experiment and one federation at a time."""

    @property
    def experiment(self) -> Experiment:
        """The experiment, resolved."""
        ...

    @property
    def federation(self) -> Federation:
        """Who is there."""
        ...

    @property
    def merges(self) -> bool:
        """Whether our own code checks updates where they are formed, so that it may sum them."""
        ...

    @property
    def workers(self) -> int:
        """How many turns are computed at the same time."""
        ...

    def data(self) -> dict[str, str]:
        """From task name to the SHA-256 of its data, as far as the engine holds the data."""
        ...

    def prepare(self, experiment: Experiment) -> None:
        """Serve this experiment from now on; what it shares with the last one is not done again."""
        ...

    def initial(self) -> dict[str, Params]:
        """Every task's first weights (Algorithm 1, line 1)."""
        ...

    def train(
        self, jobs: Sequence[Job], params: Mapping[str, Params], *, merge: bool = False
    ) -> Iterator[ClientUpdate | ClientFailure]:
        """One result per job, in the order of the jobs.

        Whatever a client sends beyond its one answer is no result: an engine that receives such a
        thing delivers it, after the answer, as a `ClientFailure` with the job's address, the reason
        "duplicate" and `turn` False; it is recorded, and the answer stands. That is for the engine
        to find out, which knows who sent what: an address can be copied.

        Jobs of a task stand together. With `merge`, the engine may check updates itself and deliver
        a chunk (`CHUNK` consecutive jobs of a task) without deltas and with the chunk's sum as
        `partial` of its last result; a delta that it delivers all the same is to be used before the
        next result is asked for.
        """
        ...

    def evaluate(
        self,
        params: Mapping[str, Params],
        split: Split,
        clients: Mapping[str, Ids] | None = None,
    ) -> Iterator[Evaluation | EvaluationFailure]:
        """Sums for each task of `params`, in a fixed order: over the server's split or by client.

        With `clients` (from task to ids), each of them evaluates on its own shard, or fails to.
        """
        ...

    def close(self) -> None:
        """Free everything; may be called twice."""
        ...


class EngineConfig(Protocol):
    """An engine's settings: ``[engine]`` in an experiment."""

    def open(self, experiment: Experiment, *, data_dir: Path | None) -> Engine:
        """A running engine, or one sentence about why there is none."""
        ...
