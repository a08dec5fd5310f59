"""A run, read from its directory, finished or not."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmfl.fairness import variance, worst
from mmfl.objectives import find_merit
from mmfl.runs.auction import StoredRecruitment, read_recruitment
from mmfl.runs.checkpoints import round_of
from mmfl.runs.directory.lock import is_owned
from mmfl.runs.environment import inexact, made_with, sessions
from mmfl.runs.failures import TaskTurns, turns_by_task
from mmfl.runs.faults import Tally, count_quarantined, tallies
from mmfl.runs.records import AwardRow, FailureRow, TurnRow, read_clients, read_records
from mmfl.runs.store import RunStore

if TYPE_CHECKING:
    from mmfl.train import TrainedModel

__all__ = ["Run", "no_nan", "status_of"]


@dataclass(frozen=True)
class Run:
    """A run, read from its directory; all results are on the test split.

    Attributes:
        folder: The run directory.
        data: By task: the SHA-256 of its data, if known.
        made_with: What its bits depend on besides the experiment, by name: versions, instructions.
        inexact: Why its bits may differ from those of an uninterrupted run; "" if they are the
            same.
        status: "running", "stopped", "failed", "finished", or "interrupted": the process is gone.
        rounds: Rounds done.
        planned: Rounds planned.
        fingerprint: SHA-256 over assignments, scores and weights; "" before the end.
        client_names: By client: its name; only clients that have one.
        tasks: By task: metric, accuracy (None for other metrics), loss, and the number of clients'
            turns it got.
        outcomes: By task: how many turns failed, and if it never trained, why.
        metrics: By task: the metric's kind, and whether "higher" or "lower" is better.
        history: By task: the metric after each round (at the last evaluation; NaN before the
            first).
        recruitment: The auction before round one; None if there was none.
        failed: How many turns and evaluations failed.
        complaint: The most common reason for these failures; "" if there are none.
        faults: By kind: the injected faults and their outcomes (by task and client: see
            `mmfl.runs.faults`).
        quarantined: How many clients are in quarantine after the last round.
        reason: Why the run failed, if it did.
        saved: The round of the newest checkpoint; 0 = there is none.
        verifiable: Whether the run has digests; runs of older versions have none.
        damage: What does not match its digest, if the run was loaded with `damaged`; else "".
        samples: Training examples processed, each pass counted.
        seconds: Time of the round loop.
        seconds_train: Of that, training and aggregation.
        seconds_evaluate: Of that, evaluation.
        seconds_setup: Before the loop: data, workers, initial weights.
        seconds_checkpoints: Outside the loop: writing checkpoints.
    """

    folder: Path
    data: dict[str, str]
    made_with: dict[str, str]
    inexact: str
    status: str
    rounds: int
    planned: int
    fingerprint: str
    client_names: dict[int, str]
    tasks: dict[str, dict[str, Any]]
    outcomes: dict[str, TaskTurns]
    metrics: dict[str, tuple[str, str]]
    history: dict[str, list[float]]
    recruitment: StoredRecruitment | None
    failed: int
    complaint: str
    faults: dict[str, Tally]
    quarantined: int
    reason: str
    saved: int
    verifiable: bool
    damage: str
    samples: int
    seconds: float
    seconds_train: float
    seconds_evaluate: float
    seconds_setup: float
    seconds_checkpoints: float

    @classmethod
    def load(cls, folder: str | Path, *, damaged: bool = False) -> Run:
        """Read a run directory, finished or not.

        Args:
            folder: The directory.
            damaged: Load it even if it does not match its digests; see `RunStore.open`.
        """
        with closing(RunStore.open(Path(folder), damaged=damaged)) as store:
            return cls.of(store)

    @classmethod
    def of(cls, store: RunStore) -> Run:
        """Read a run from its opened directory."""
        meta, environment = store.meta(), store.environment()
        whole = store.rows(
            "SELECT count(*), total(samples), total(seconds), total(seconds_train), "
            "total(seconds_evaluate) FROM round"
        )[0]
        tasks, history = _read_tasks(store)
        # What is sent twice is refused, and costs nothing: the first one stands.
        lost = "FROM failure WHERE reason != 'duplicate'"
        often = store.rows(
            f"SELECT reason, min(detail), count(*) {lost} "
            "GROUP BY reason ORDER BY count(*) DESC LIMIT 1"
        )
        return cls(
            folder=store.folder,
            data=store.data(),
            made_with=made_with(sessions(environment)[-1]),
            inexact=inexact(environment),
            status=status_of(meta, store.folder),
            rounds=whole[0],
            planned=int(meta.get("rounds", whole[0])),
            fingerprint=meta.get("fingerprint", ""),
            client_names=dict(read_clients(store)),
            tasks=tasks,
            outcomes=turns_by_task(store),
            metrics={name: (kind, better) for _, name, kind, better in store.tasks()},
            history=history,
            recruitment=read_recruitment(store),
            failed=store.rows(f"SELECT count(*) {lost}")[0][0],
            complaint=f"{often[0][0]}: {often[0][1]}" if often else "",
            faults=tallies(store),
            quarantined=count_quarantined(store),
            reason=meta.get("reason", ""),
            saved=round_of(meta.get("checkpoint", "")),
            verifiable=store.verifiable,
            damage=store.damage,
            samples=int(whole[1]),
            seconds=whole[2],
            seconds_train=whole[3],
            seconds_evaluate=whole[4],
            seconds_setup=float(meta.get("seconds_setup", "nan")),
            seconds_checkpoints=float(meta.get("seconds_checkpoints", "0")),
        )

    def turns(self) -> list[TurnRow]:
        """Who trained what, when, with what result: one record per turn of a client."""
        return self.table("turns")

    def failures(self) -> list[FailureRow]:
        """What failed, and why: one record per failed turn or evaluation."""
        return self.table("failures")

    def awards(self) -> list[AwardRow]:
        """Who was recruited for what, and is paid what; nothing if there was no auction."""
        return self.table("awards")

    def table(self, name: str) -> list[Any]:
        """A table of the run as records, read from its directory as it is now.

        Args:
            name: "tasks", "clients", "rounds", "metrics", "turns", "failures", "faults", "auction"
                or "awards".
        """
        with closing(RunStore.open(self.folder, damaged=bool(self.damage))) as store:
            return list(read_records(store, name))

    def model(self, task: str, *, network: Any = None, allow_imports: bool = False) -> TrainedModel:
        """A task's trained model, in evaluation mode: ``run.model("heart").predict(x)``.

        It needs no training data: the run has the scaling and the names of the classes. If the run
        has not finished, it is the model of the newest checkpoint, with a warning.

        Args:
            task: The task's name.
            network: What builds the network, if it was passed in memory and this is another
                program: an ``nn.Module``, a class of them, or a function.
            allow_imports: Whether a network that the run names as ``module:Name`` may be imported.
        """
        from mmfl.runs.models import read_model

        return read_model(self.folder, task, network=network, allow_imports=allow_imports)

    @property
    def merits(self) -> list[float]:
        """The tasks' last metrics as numbers of which more is better, NaN where not measured.

        Where lower is better, an error e counts as 1 - e; a perplexity p counts as 1 / p.
        """
        values = []
        for name, task in self.tasks.items():
            metric = math.nan if task["metric"] is None else task["metric"]
            values.append(float(find_merit(*self.metrics[name])(metric)))
        return values

    @property
    def worst(self) -> float:
        """The worst task's merit; NaN if one of them is unknown."""
        return worst(self.merits)

    @property
    def mean(self) -> float:
        """The tasks' mean merit; NaN if one of them is not finite."""
        merits = self.merits
        return statistics.fmean(merits) if all(map(math.isfinite, merits)) else math.nan

    @property
    def variance(self) -> float:
        """Population variance of the merit over tasks."""
        return variance(self.merits)

    def to_json(self) -> str:
        """The object that ``mmfl run --json`` and ``mmfl status --json`` print."""
        found = {
            "run_dir": str(self.folder),
            "status": self.status,
            "fingerprint": self.fingerprint,
            "rounds": self.rounds,
            "planned": self.planned,
            "saved": self.saved,
            "samples": self.samples,
            "seconds": self.seconds,
            "seconds_train": self.seconds_train,
            "seconds_evaluate": self.seconds_evaluate,
            "seconds_setup": self.seconds_setup,
            "seconds_checkpoints": self.seconds_checkpoints,
            "worst": self.worst,
            "mean": self.mean,
            "variance": self.variance,
            "inexact": self.inexact or None,
            "failures": self.failed,
            "failed_turns": {name: turns.failed for name, turns in self.outcomes.items()},
            "never_trained": {n: o.why for n, o in self.outcomes.items() if not o.trained},
            "tasks": self.tasks,
        }
        if self.damage:
            found["damage"] = self.damage
        if self.faults:
            found["faults"] = {kind: dataclasses.asdict(t) for kind, t in self.faults.items()}
        if self.recruitment is not None:
            found["recruitment"] = {
                **dataclasses.asdict(self.recruitment),
                "spent": self.recruitment.spent,
                "paid": self.recruitment.paid,
                "min_take_up": self.recruitment.min_take_up,
            }
        return json.dumps(no_nan(found))


def _read_tasks(store: RunStore) -> tuple[dict[str, dict[str, Any]], dict[str, list[float]]]:
    """Each task's last values, and its metric after each round."""
    by_task: dict[int, list[tuple[Any, ...]]] = {}
    query = "SELECT task, metric, loss, clients FROM round_task ORDER BY round"
    for number, *row in store.rows(query):
        by_task.setdefault(number, []).append(tuple(row))
    tasks, history = {}, {}
    for number, name, kind, _ in store.tasks():
        rows = by_task.get(number, [])
        history[name] = [math.nan if metric is None else metric for metric, _, _ in rows]
        metric, loss, _ = rows[-1] if rows else (None, None, 0)
        tasks[name] = {
            "metric": metric,
            "accuracy": metric if kind == "accuracy" else None,
            "loss": loss,
            "clients": sum(clients for _, _, clients in rows),
        }
    return tasks, history


def status_of(meta: Mapping[str, str], folder: Path) -> str:
    """The status, unless it says "running" and no process owns the run directory."""
    status = meta.get("status", "running")
    return "interrupted" if status == "running" and not is_owned(folder) else status


def no_nan(value: Any) -> Any:
    """As JSON has it, which has no NaN and no infinity: what was not measured is null."""
    if isinstance(value, dict):
        return {key: no_nan(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [no_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
