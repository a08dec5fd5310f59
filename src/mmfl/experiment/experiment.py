"""The whole configuration of a run: frozen, strict, TOML in and TOML out."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Container, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tomli_w
from pydantic import BeforeValidator, Field, Strict, TypeAdapter

from mmfl.aggregate import AGGREGATORS, WANTS, Aggregator, Checks, Mean, wanted_by
from mmfl.allocate import ALLOCATORS, Allocator, FedFair
from mmfl.config import (
    WRITE_IF_SET,
    Count,
    Natural,
    PartLike,
    apply_set,
    component,
    dump,
    imports_allowed,
    parse,
    read_text_file,
    read_toml,
    short,
)
from mmfl.data import AtNodes
from mmfl.devices import DeviceName, find_device
from mmfl.errors import ConfigError, InputError, did_you_mean
from mmfl.exchange import LocalWork
from mmfl.experiment.checkpoints import Checkpoints
from mmfl.experiment.engines import ENGINES, EngineConfig, Local
from mmfl.experiment.goals import check_target, find_metric
from mmfl.experiment.identity import decisive_table, engine_table, hash_table
from mmfl.experiment.local_training import LocalOverride, LocalTraining
from mmfl.experiment.mistakes import join_mistakes, move_into_local, name_sources
from mmfl.experiment.parts import (
    Clients,
    Evaluate,
    KernelName,
    Task,
    count_clients,
    fits_batched,
)
from mmfl.experiment.recruitment import RecruitmentSettings
from mmfl.faults import Faults, Quarantine
from mmfl.objectives import SCORES, Distance, Error, Score
from mmfl.optimizers import Sgd
from mmfl.system.files import hash_input
from mmfl.system.tracebacks import lead_to
from mmfl.system.user_code import describe_part, guard_part

__all__ = [
    "Clients",
    "Evaluate",
    "Experiment",
    "LocalOverride",
    "LocalTraining",
    "Task",
    "check_experiment",
]


Table = Mapping[str, Any]


@component
class Experiment:
    """Everything that decides a run's result, and the engine that computes it.

    Attributes:
        rounds: How many rounds to train (T in the paper).
        clients: How many clients there are, and which of them are active; or just how many.
        tasks: The S tasks.
        seed: Seed of all random numbers.
        device: Where models are trained and evaluated: "cpu", a GPU ("cuda", "cuda:1", "mps"), or
            "auto": "cuda" or "mps" where there is one.
        precision: "float32", or "bf16" for forward and backward passes with float32 weights.
        kernel: How training is computed; "auto" is resolved when a run starts.
        score: What the difficulty f_s is: "error" (default), "loss", "relative_loss", "distance".
        score_split: The server's split on which f_s is evaluated: "validation", or "test" as in the
            paper.
        score_source: "server", or "clients": the mean over clients' own evaluations (equation 1).
        score_clients: How many clients each task asks for its score; by default all that hold data.
        validation: Share of each task's training data that the server keeps to evaluate f_s.
        local: Local training.
        allocator: Who trains what.
        recruitment: The auction before round one; by default every client may train any task that
            it holds data for.
        aggregator: How updates become weights.
        checks: Limits that an update must not exceed.
        faults: Simulated faults of clients; by default none.
        quarantine: When to leave out clients whose updates are refused; by default never.
        evaluate: When and how the models are evaluated.
        engine: Where training happens; it does not affect the result.
        checkpoints: When a run is saved; it does not affect the result.
    """

    rounds: Count
    clients: Annotated[
        Clients, BeforeValidator(count_clients, json_schema_input_type=Clients | Count)
    ]
    tasks: Annotated[tuple[Task, ...], Field(json_schema_extra={"minItems": 1})]
    seed: Natural = 0
    precision: Literal["float32", "bf16"] = "float32"
    device: Annotated[DeviceName, WRITE_IF_SET] = "cpu"
    kernel: KernelName = "auto"
    score: Annotated[Score, SCORES] = Error()
    score_split: Literal["validation", "test"] = "validation"
    score_source: Literal["server", "clients"] = "server"
    score_clients: Count | None = None
    validation: Annotated[float, Strict(), Field(gt=0, lt=1)] = 0.1
    local: LocalTraining = LocalTraining()
    allocator: Annotated[Allocator, ALLOCATORS] = FedFair()
    recruitment: RecruitmentSettings | None = None
    aggregator: Annotated[Aggregator, AGGREGATORS] = Mean()
    checks: Checks = Checks()
    faults: Faults | None = None
    quarantine: Quarantine | None = None
    evaluate: Evaluate = Evaluate()
    engine: Annotated[EngineConfig, ENGINES] = Local()
    checkpoints: Checkpoints = Checkpoints()

    if TYPE_CHECKING:  # what the arguments may be, for type checkers

        def __init__(
            self,
            rounds: int,
            clients: Clients | int | Table,
            tasks: Iterable[Task | Table],
            seed: int = ...,
            precision: Literal["float32", "bf16"] = ...,
            device: str = ...,
            kernel: KernelName = ...,
            score: Score | PartLike = ...,
            score_split: Literal["validation", "test"] = ...,
            score_source: Literal["server", "clients"] = ...,
            score_clients: int | None = ...,
            validation: float = ...,
            local: LocalTraining | Table = ...,
            allocator: Allocator | PartLike = ...,
            recruitment: RecruitmentSettings | Table | None = ...,
            aggregator: Aggregator | PartLike = ...,
            checks: Checks | Table = ...,
            faults: Faults | Table | None = ...,
            quarantine: Quarantine | Table | None = ...,
            evaluate: Evaluate | Table = ...,
            engine: EngineConfig | PartLike = ...,
            checkpoints: Checkpoints | Table = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        if not self.tasks:
            raise ValueError("at least one task is needed, as [[tasks]]")
        names = [task.name.casefold() for task in self.tasks]  # some disks ignore case
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            rule = "names must be unique, ignoring case"
            raise ValueError(f"two tasks are named {twice[0]!r}; {rule}")
        unknown = [word for word in wanted_by(self.aggregator) if word not in WANTS]
        if unknown:
            what = f"the aggregator {describe_part(self.aggregator)} wants {unknown[0]!r}"
            raise ValueError(f"{what}; known: {', '.join(WANTS)}")
        if self.recruitment is not None:
            self.recruitment.check_tasks([task.name for task in self.tasks])
        if self.faults is not None:
            self.faults.check([task.name for task in self.tasks], self.clients.count)
        aimless = [task.name for task in self.tasks if task.target is None]
        if isinstance(self.score, Distance) and aimless:
            raise ValueError(
                f'score = "distance" needs a target in every task; task {aimless[0]!r} has none'
            )

        afar = [task.name for task in self.tasks if isinstance(task.dataset, AtNodes)]
        if afar and self.score_source != "clients":
            raise ValueError(
                f"the data of task {afar[0]!r} is at the nodes, so the server cannot score it; set "
                'score_source = "clients"'
            )
        for task in self.tasks:
            try:
                self.local.override(task.local)
            except ValueError as error:
                raise ValueError(f"task {task.name!r}: {error}") from None
        for task in self.tasks:
            if self.kernel_of(task) == "batched" and not self.fits_batched(task):
                raise ValueError(
                    f'kernel = "batched" needs an mlp without dropout or augment, with '
                    f'cross_entropy, sgd, float32 and device = "cpu", unlike task {task.name!r}; '
                    '"fast" can train every task'
                )

    @property
    def holds_validation(self) -> bool:
        """Whether the server keeps validation data: only if it measures difficulty on it."""
        return self.score_source == "server" and self.score_split == "validation"

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all that decides the result (engine and checkpoints do not)."""
        return hash_table(decisive_table(self))

    @property
    def run_id(self) -> str:
        """How jobs and updates name the run they belong to."""
        return self.digest[:16]

    @cached_property
    def lineage(self) -> str:
        """SHA-256 over all that decides the first rounds; it does not depend on `rounds`.

        Files are read when this is first asked for.
        """
        without = () if self.plans_ahead else ("rounds",)
        own, files = hash_table(decisive_table(self, *without)), self.files()
        text = own + json.dumps(files, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest() if files else own

    @property
    def plans_ahead(self) -> bool:
        """Whether the first rounds depend on how many are to come."""
        return bool(getattr(self.allocator, "plans_ahead", False))

    @property
    def engine_table(self) -> dict[str, Any]:
        """The part that an engine depends on: experiments that agree in it can share one."""
        return engine_table(self)

    def check_same_engine_table(self, other: Experiment) -> None:
        """Refuse an engine that serves only experiments with the `engine_table` of another one."""
        theirs = other.engine_table
        for key, value in self.engine_table.items():
            if value != theirs[key]:
                raise InputError(f"the engine was opened for another experiment: {key} differs")

    def files(self) -> dict[str, str]:
        """SHA-256 of files (not data sets) that decide the result, by the key that names them.

        A file that cannot be read has "" here; reading it for use says why, see `file_hash`.
        """
        found = {} if self.recruitment is None else self.recruitment.files()
        return found | {key: hash_ for task in self.tasks for key, hash_ in task.files().items()}

    def hash_files(self, needed: Container[str] | None = None) -> dict[str, str]:
        """`files`, but `InputError` for one (by default any) that is needed and cannot be read."""
        hashes = self.files()
        again = [key for key in hashes if not hashes[key] and (needed is None or key in needed)]
        return hashes | {key: self.file_hash(key) for key in again}

    def file_hash(self, key: str) -> str:
        """SHA-256 of one of these files; `InputError` if it cannot be read, which says why."""
        paths = {key: path for task in self.tasks for key, path in task.named_files().items()}
        if key not in paths:
            bids = {} if self.recruitment is None else self.recruitment.files()
            if key not in bids:
                raise InputError(f"{key} is not a file that the experiment names")
            return bids[key]
        try:
            return hash_input(paths[key])
        except OSError as error:
            here = "" if Path(paths[key]).is_absolute() else f" in {str(Path.cwd())!r}"
            said = f"cannot read {paths[key]!r}{here}: {error.strerror}"
            raise InputError(f"{key}: {said}") from None

    def task(self, name: str) -> Task:
        """The task of that name."""
        tasks = {task.name: task for task in self.tasks}
        if name not in tasks:
            raise ConfigError(f"no task is called {name!r}; {did_you_mean(name, tasks)}")
        return tasks[name]

    def training(self, task: str) -> LocalTraining:
        """``[local]`` with the task's own settings."""
        return self._training[self.task(task).name]

    @cached_property
    def _training(self) -> dict[str, LocalTraining]:
        return {task.name: self.local.override(task.local) for task in self.tasks}

    def engine_local(self, task: Task) -> LocalOverride:
        """What an engine must know of a task's local training before the first turn."""
        optimizer = self.training(task.name).optimizer
        return LocalOverride(optimizer=None if isinstance(optimizer, Sgd) else optimizer)

    def work(self, task: str, t: int) -> LocalWork:
        """A turn's work in the round before which a task trained in t rounds."""
        local = self.training(task)
        with guard_part("learning rate", local.lr, task=task):
            return local.work(t)

    def resolved(self) -> Experiment:
        """The experiment with every "auto" that affects the result replaced by its meaning."""
        device = find_device(self.device)
        if device != self.device:
            return dataclasses.replace(self, device=device).resolved()
        common: KernelName = "fast" if self.kernel == "auto" else self.kernel
        with imports_allowed(True):  # a user's loss, imported already, names its metric
            tasks = tuple(
                dataclasses.replace(
                    task,
                    kernel=None if self.kernel_of(task) == common else self.kernel_of(task),
                    metric=find_metric(task),
                )
                for task in self.tasks
            )
        made = dataclasses.replace(self, kernel=common, tasks=tasks)
        return self if made == self else made

    def kernel_of(self, task: Task) -> KernelName:
        """How a task's training is computed; "auto" follows a fixed rule, never a timing."""
        kernel = task.kernel or self.kernel
        if kernel != "auto":
            return kernel
        return "batched" if self.fits_batched(task) else "fast"

    def fits_batched(self, task: Task) -> bool:
        """Whether the kernel "batched" can train a task."""
        if self.device not in ("cpu", "auto"):
            return False
        return fits_batched(task, self.training(task.name), self.precision)

    def to_toml(self) -> str:
        """The experiment as TOML; `from_toml` makes an equal experiment from it."""
        return tomli_w.dumps(dump(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, allow_imports: bool = False) -> Experiment:
        """Make an experiment from plain tables, as in a TOML file."""
        with imports_allowed(allow_imports):
            return parse(cls, data)

    @classmethod
    def from_toml(
        cls, text: str, *, sets: Iterable[str] = (), allow_imports: bool = False
    ) -> Experiment:
        """Make an experiment from TOML text.

        Args:
            text: The file's content.
            sets: Changes like "allocator.alpha=5", applied in order.
            allow_imports: Whether ``package.module:Name`` may be imported.
        """
        data, mistakes = read_toml(text), []
        for assignment in sets:
            try:
                apply_set(data, move_into_local(data, assignment))
            except ConfigError as error:
                mistakes.append(str(error))
        if mistakes:
            raise join_mistakes(mistakes)
        return cls.from_dict(data, allow_imports=allow_imports)

    @classmethod
    def load(
        cls, path: str | Path, *, sets: Iterable[str] = (), allow_imports: bool = False
    ) -> Experiment:
        """Load an experiment from a TOML file; see `from_toml`. Messages name the file."""
        text, changes = read_text_file(path), tuple(sets)
        try:
            return cls.from_toml(text, sets=changes, allow_imports=allow_imports)
        except ConfigError as error:
            in_file = error.mistakes
            if changes:
                in_file = _find_mistakes(text, allow_imports=allow_imports)
            made, cause = name_sources(error.mistakes, in_file, str(path)), error.__cause__
            raise lead_to(made, cause) from cause

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """JSON Schema of an experiment file, for editors."""
        schema = TypeAdapter(Experiment).json_schema()
        inner = schema["$defs"]["LocalOverride"]["properties"]
        schema["$defs"]["Task"]["properties"] |= inner
        return schema


def _find_mistakes(text: str, *, allow_imports: bool) -> tuple[str, ...]:
    """The mistakes of a file as it is, without the changes to it."""
    try:
        Experiment.from_toml(text, allow_imports=allow_imports)
    except ConfigError as error:
        return error.mistakes
    return ()


def check_experiment(value: object) -> None:
    """Refuse anything but an experiment, such as the name of its file, and targets out of reach."""
    if not isinstance(value, Experiment):
        raise InputError(
            f"expected an Experiment, got {short(value)}; read a file with Experiment.load"
        )
    for task in value.tasks:
        check_target(task)
