"""The trainer: data and networks of one process, and the three things that it does with them.

The inline engine, each worker process, and later each Ray actor and Flower client run this very
class, so that a job has the same bits wherever it is done. Torch works on one thread in here: a
result must not depend on the number of cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from mmfl.data import Arrays, simulate
from mmfl.errors import EngineError, MmflError
from mmfl.experiment import Experiment
from mmfl.params import Flat, Params
from mmfl.rng import Stream, stream
from mmfl.train import reference
from mmfl.train.resident import Resident
from mmfl.updates import (
    ClientFailure,
    ClientUpdate,
    Evaluation,
    EvaluationFailure,
    Job,
    Split,
)

__all__ = ["Trainer"]

Ints = npt.NDArray[np.int64]


class Trainer:
    """Trains and evaluates for one process."""

    def __init__(self, experiment: Experiment, arrays: Mapping[str, Arrays]) -> None:
        self.experiment = experiment
        self.arrays = arrays
        self.federation = simulate(experiment, arrays)
        self._residents: dict[str, Resident] = {}

    def initial(self, task: str) -> Params:
        """The task's first weights: Algorithm 1, line 1."""
        resident = self._resident(task)
        resident.set(resident.first)
        self._try_out(task)
        return Params(resident.layout, resident.first.copy())

    def train(self, job: Job, weights: Flat) -> ClientUpdate | ClientFailure:
        """One client's turn: Algorithm 1, lines 7-10. What it raises is the client's failure."""
        start = time.perf_counter()
        address = job.address
        try:
            data = self.arrays[address.task]
            rows = self.federation.shard(address.task, address.client)
            resident = self._resident(address.task)
            resident.set(weights)
            rng = stream(job.seed, "train", address.round, address.task, address.client)

            def batch(numbers: Ints) -> tuple[Tensor, Tensor]:
                return _batch(data.x_train, data.y_train, rows[numbers])

            with _seeded(rng):
                report = reference.train(
                    resident.module,
                    batch,
                    len(rows),
                    job.work,
                    precision=self.experiment.precision,
                    rng=rng,
                )
            delta = resident.change(weights)
        except Exception as error:
            return ClientFailure(address, "raised", _said(error))
        return ClientUpdate(
            address=address,
            delta=delta,
            examples=len(rows),
            samples=report.samples,
            loss_before=report.loss_before,
            loss_after=report.loss_after,
            norm=float("nan"),
            seconds=time.perf_counter() - start,
        )

    def evaluate(
        self, task: str, weights: Flat, split: Split, *, piece: int = 0, client: int | None = None
    ) -> Evaluation | EvaluationFailure:
        """Sums over one piece of the server's split, or over the whole of a client's shard."""
        data = self.arrays[task]
        x, y = (data.x_test, data.y_test) if split == "test" else (data.x_train, data.y_train)
        size = self.experiment.evaluate.batch_size
        if client is not None:
            rows = self.federation.shard(task, client)
        else:
            rows = self.federation.piece(task, split, piece)
        resident = self._resident(task)
        resident.set(weights)
        resident.module.eval()
        rng = stream(self.experiment.seed, "evaluate", task, split, piece)
        loss, metric = 0.0, 0.0
        try:
            with torch.inference_mode(), _seeded(rng):
                for start in range(0, len(rows), size):
                    batch, labels = _batch(x, y, rows[start : start + size])
                    logits = reference.forward(resident.module, batch, self.experiment.precision)
                    loss += functional.cross_entropy(logits, labels, reduction="sum").item()
                    metric += float((logits.argmax(1) == labels).sum().item())
        except Exception as error:
            if client is not None:
                return EvaluationFailure(task, client, "raised", _said(error))
            raise EngineError(
                f"task {task!r}: evaluating its model failed: {_said(error)}"
            ) from None
        return Evaluation(task, len(rows), loss, metric, client)

    def _resident(self, task: str) -> Resident:
        if task not in self._residents:
            data, model = self.arrays[task], self.experiment.task(task).model
            try:
                with _seeded(stream(self.experiment.seed, "initial", task)):
                    module = model.build(data.shape, data.outputs)
                self._residents[task] = Resident(module)
            except Exception as error:
                raise EngineError(
                    f"task {task!r}: its model cannot be built: {_said(error)}"
                ) from None
        return self._residents[task]

    def _try_out(self, task: str) -> None:
        """One small batch forward, so that a model that does not fit is found before training."""
        data = self.arrays[task]
        resident = self._resident(task)
        resident.module.eval()
        try:
            with torch.inference_mode(), _seeded(stream(0, "try")):
                x, _ = _batch(data.x_train, data.y_train, np.arange(min(2, len(data.y_train))))
                shape = tuple(reference.forward(resident.module, x, "float32").shape)
        except Exception as error:
            raise EngineError(f"task {task!r}: its model does not run: {_said(error)}") from None
        if shape != (len(x), data.classes):
            raise EngineError(
                f"task {task!r}: its model must give {data.classes} outputs per example, "
                f"got shape {shape} for {len(x)} examples"
            )


def _batch(x: npt.NDArray[np.generic], y: Ints, rows: Ints) -> tuple[Tensor, Tensor]:
    """Rows as tensors: bytes become [-1, 1] (mean .5, std .5), images get their channels first."""
    examples = torch.from_numpy(x[rows])
    examples = examples.float().div_(127.5).sub_(1.0) if x.dtype == np.uint8 else examples.float()
    if examples.ndim == 3:
        examples = examples.unsqueeze(1)
    elif examples.ndim == 4:
        examples = examples.permute(0, 3, 1, 2).contiguous()
    return examples, torch.from_numpy(y[rows])


@contextmanager
def _seeded(rng: Stream) -> Iterator[None]:
    """Torch's own generator set from an address, one thread; afterwards all is as before."""
    threads = torch.get_num_threads()
    if threads != 1:
        torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(rng.torch_seed())
            yield
    finally:
        if threads != 1:
            torch.set_num_threads(threads)


def _said(error: Exception) -> str:
    """An exception as one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, MmflError) else f"{type(error).__name__}: {text}"
