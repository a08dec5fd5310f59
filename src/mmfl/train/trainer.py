"""The trainer: data and networks of one process, and the three things that it does with them.

The inline engine, each worker process, and later each Ray actor and Flower client run this very
class, so that a job has the same bits wherever it is done. Torch works on one thread in here: a
result must not depend on the number of cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from mmfl.config import dump
from mmfl.data import Arrays
from mmfl.errors import EngineError, MmflError
from mmfl.exchange import (
    ClientFailure,
    ClientUpdate,
    Evaluation,
    EvaluationFailure,
    Flat,
    Job,
    Layout,
    Params,
    Split,
)
from mmfl.experiment import (
    Experiment,
    KernelName,
    ModelSize,
    SimulatedFederation,
    Task,
    find_model_shape,
    has_own_code,
    simulate,
)
from mmfl.models import MODELS
from mmfl.objectives import OwnMetric, check_values, find_misfit, find_sums_shape
from mmfl.optimizers import Optimizer
from mmfl.rng import stream
from mmfl.system import calls
from mmfl.system.tracebacks import format_cause, format_traceback, lead_to
from mmfl.system.user_code import describe_error, guard_part, is_own, pass_on
from mmfl.train.building import build_network
from mmfl.train.device import CPU, Device
from mmfl.train.inputs import Inputs
from mmfl.train.kernels import kernel
from mmfl.train.layers import supports_channels_last
from mmfl.train.norms import hint_at_batch_of_one, is_batch_of_one
from mmfl.train.optimizers import try_optimizer
from mmfl.train.reference import Turn
from mmfl.train.resident import Resident
from mmfl.train.seeding import isolate_torch
from mmfl.train.sizing import weigh
from mmfl.train.task_setup import TaskSetup, guard_task, guess_blindly, hint_at_gradient
from mmfl.train.trial import try_out
from mmfl.train.warm_start import load_warm_start

__all__ = ["Trainer"]

Ints = npt.NDArray[np.int64]


class Trainer:
    """Trains and evaluates for one process.

    Args:
        tasks: What is trained, resolved.
        arrays: From task to its data.
        federation: Who holds what.
        kernels: From task to how its training is computed.
        optimizers: From task to its optimizer.
        seed: Of models' first weights, and of what evaluations draw.
        precision: In which models compute.
        batch_size: Of evaluations.
        device: Where models are trained and evaluated.
        settled: Whether only mmfl's code runs in this process, after `Device.settle`: nothing then
            changes how torch computes, and no piece of work has to be isolated.
        raise_errors: Whether what a turn raises is raised, too.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        arrays: Mapping[str, Arrays],
        federation: SimulatedFederation,
        *,
        kernels: Mapping[str, KernelName],
        optimizers: Mapping[str, Optimizer],
        seed: int,
        precision: str,
        batch_size: int,
        device: Device = CPU,
        settled: bool = False,
        raise_errors: bool = False,
    ) -> None:
        self._raise_errors = raise_errors
        self._tasks = {task.name: task for task in tasks}
        self._kernels, self._optimizers = kernels, optimizers
        self._seed, self._precision, self._batch_size = seed, precision, batch_size
        self._isolate: Callable[[], AbstractContextManager[None]]
        self._isolate = nullcontext if settled else device.isolate
        self.device = device
        self.arrays = arrays
        self.federation = federation
        self._setups: dict[str, TaskSetup] = {}

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        arrays: Mapping[str, Arrays],
        *,
        federation: SimulatedFederation | None = None,
        settled: bool = False,
        alone: bool = False,
        raise_errors: bool = False,
    ) -> Trainer:
        """A trainer for an experiment, which is resolved; by default for its own federation.

        Args:
            experiment: The experiment.
            arrays: From task to its data.
            federation: Who holds what.
            settled: See `Trainer`.
            alone: Whether this process does nothing else; see `seed_torch`.
            raise_errors: See `Trainer`.
        """
        own_code = has_own_code(dump(experiment))
        return cls(
            experiment.tasks,
            arrays,
            simulate(experiment, arrays) if federation is None else federation,
            kernels={task.name: experiment.kernel_of(task) for task in experiment.tasks},
            optimizers={t.name: experiment.training(t.name).optimizer for t in experiment.tasks},
            seed=experiment.seed,
            precision=experiment.precision,
            batch_size=experiment.evaluate.batch_size,
            device=Device(experiment.device, own_code=own_code, alone=alone),
            settled=settled,
            raise_errors=raise_errors,
        )

    def initial(self, task: str) -> Params:
        """The task's first weights: Algorithm 1, line 1."""
        setup = self._setup(task)
        first = setup.resident.first.copy()
        with self.device.isolate():
            if setup.task.warm_start is not None:
                try:
                    resident, path = setup.resident, setup.task.warm_start
                    first = load_warm_start(path, resident.layout, resident.find_others())
                except MmflError as error:
                    raise EngineError(f"task {task!r}: {error}") from None
            setup.resident.set(first)
            try_out(setup, self._precision, self._batch_size)
        return Params(setup.resident.layout, first)

    def layout(self, task: str) -> Layout:
        """The names and shapes of a task's weights."""
        return self._setup(task).resident.layout

    def copy_first(self, task: str) -> Flat:
        """The weights that the task's model is built with."""
        return self._setup(task).resident.first.copy()

    def batch_shape(self, task: str, rows: Ints) -> tuple[int, ...]:
        """The shape of a batch of these training examples, as the model sees it."""
        return tuple(self._setup(task).inputs.train(rows)[0].shape)

    def weigh(self, name: str) -> ModelSize | None:
        """How large a task's model will be; None if only building it can tell."""
        task = self._tasks[name]
        if MODELS.kind_of(task.model) not in MODELS.table:
            return None
        try:
            return weigh(task, self.arrays[name], self._kernels[name])
        except Exception as error:  # building it will say what is wrong
            pass_on(error)
            return None

    def train(self, job: Job, weights: Flat) -> ClientUpdate | ClientFailure:
        """One client's turn: Algorithm 1, lines 7-10. What it raises is the client's failure."""
        (found,) = self.turns([job], weights, out=partial(np.empty_like, weights))
        return found

    def turns(
        self, jobs: Sequence[Job], weights: Flat, *, out: Callable[[], Flat] | None = None
    ) -> Iterator[ClientUpdate | ClientFailure]:
        """One result per job; all are of one task.

        Args:
            jobs: Whose turns, and how much.
            weights: The task's.
            out: Asked after each turn where to put its delta; by default it lies in memory that
                the next one overwrites.
        """
        try:
            setup = self._setup(jobs[0].address.task)
        except MmflError as error:
            said, trace = str(error), format_cause(error)
            yield from (ClientFailure(job.address, "raised", said, trace=trace) for job in jobs)
            return
        step = setup.kernel.together
        for start in range(0, len(jobs), step):
            yield from self._some(setup, jobs[start : start + step], weights, out)

    def _some(
        self, setup: TaskSetup, jobs: Sequence[Job], weights: Flat, out: Callable[[], Flat] | None
    ) -> Iterator[ClientUpdate | ClientFailure]:
        """Turns that are taken together; if they fail together, one by one."""
        start, spent, done = calls.perf_counter(), 0.0, 0
        turns: list[Turn] = []
        try:
            turns = [self._turn(job) for job in jobs]
            with self._isolate():
                for turn, (change, report) in zip(
                    turns, setup.kernel.train(weights, turns, out), strict=True
                ):
                    delta = Params(setup.resident.layout, change)
                    spent = spent or (calls.perf_counter() - start) / len(jobs)
                    yield ClientUpdate(
                        address=jobs[done].address,
                        delta=delta,
                        examples=len(turn.rows),
                        samples=report.samples,
                        loss_before=report.loss_before,
                        loss_after=report.loss_after,
                        norm=float("nan"),
                        seconds=spent,
                    )
                    done += 1
        except BaseException as error:  # a model may raise anything
            pass_on(error)
            self.device.check()
            if len(jobs) == 1:
                said = describe_error(error, *setup.trained)
                said += self.device.hint(error) + hint_at_gradient(error, setup)
                for turn in turns:
                    said += hint_at_batch_of_one(error, turn.work.batch_size, len(turn.rows))
                if self._raise_errors:
                    name, client = setup.task.name, jobs[0].address.client
                    said = f"task {name!r}: the turn of client {client} failed: {said}"
                    raise lead_to(EngineError(said), error) from error
                trace = format_traceback(error)
                yield ClientFailure(jobs[0].address, "raised", said, trace=trace)
                return
            for job in jobs[done:]:
                yield from self._some(setup, [job], weights, out)

    def _turn(self, job: Job) -> Turn:
        at = job.address
        rows = self.federation.shard(at.task, at.client)
        return Turn(rows, job.work, stream(job.seed, "train", at.round, at.task, at.client))

    def evaluate(
        self, task: str, weights: Flat, split: Split, *, piece: int = 0, client: int | None = None
    ) -> Evaluation | EvaluationFailure:
        """Sums over one piece of the server's split, or over the whole of a client's shard."""
        setup = self._setup(task)
        rows = None if client is not None else self.federation.piece(task, split, piece)
        rng = stream(self._seed, "evaluate", task, split, piece)
        try:  # no inference mode: tensors that a model makes and keeps there cannot be trained with
            if client is not None:
                rows = self.federation.shard(task, client)
            assert rows is not None
            with self._isolate(), torch.no_grad(), self.device.seed(rng):
                setup.resident.set(weights)
                sums = setup.measure(rows, split, self._precision, self._batch_size)
        except BaseException as error:
            pass_on(error)
            self.device.check()
            said = describe_error(error, *setup.evaluated)
            if is_batch_of_one(error):
                said += "; the last batch has one example: change evaluate.batch_size"
            if client is not None:
                return EvaluationFailure(task, client, "raised", said, format_traceback(error))
            said = f"task {task!r}: evaluating its model failed: {said}"
            raise lead_to(EngineError(said), error) from error
        loss, metric, guess, tally = sums
        return Evaluation(task, len(rows), loss, metric, client, guess, tally)

    def _setup(self, name: str) -> TaskSetup:
        if name not in self._setups:
            with self.device.isolate():
                self._setups[name] = self._build(name)
        return self._setups[name]

    def _build(self, name: str) -> TaskSetup:
        data, task = self.arrays[name], self._tasks[name]
        misfit = find_misfit(task.loss, data)
        if misfit is not None:
            raise EngineError(f"task {name!r}: {misfit}")
        assert task.metric is not None  # the experiment is resolved
        shape = find_model_shape(task, data)
        with guard_task(name, "its model cannot be built", task.model):
            with isolate_torch():
                rng = stream(self._seed, "initial", name)
                module = build_network(task.model, shape, data.outputs, rng)
            last = supports_channels_last(module)
            resident = Resident(module, self.device)
        try:
            with guard_part("normalization", task.normalize):
                inputs = Inputs(
                    data,
                    task.normalize,
                    task.augment,
                    channels_last=last,
                    series=shape != data.shape,
                    device=self.device,
                )
            with guard_part("metric", task.metric):
                metric = task.metric.on(data, task.loss)
                sums = find_sums_shape(task.metric, data)
                if sums is None and is_own(task.metric) and not isinstance(task.metric, OwnMetric):
                    metric = check_values(metric, task.metric)
        except MmflError as error:
            said = f"task {name!r}: {error}"
            raise lead_to(EngineError(said), error) from error.__cause__
        optimizer, precision = self._optimizers[name], self._precision
        with guard_task(name, "its optimizer cannot be used", optimizer):
            try_optimizer(optimizer, module.parameters())
        made = kernel(
            self._kernels[name],
            task,
            resident,
            inputs,
            precision=precision,
            optimizer=optimizer,
            device=self.device,
        )
        guess = guess_blindly(data, task.loss)
        found = inputs, resident, made, metric, guess, sums
        return TaskSetup(task, data, *found, self.device, optimizer)
