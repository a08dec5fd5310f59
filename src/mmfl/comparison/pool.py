"""Several runs of a comparison at the same time, each in its own process.

A run is a coordinator and its workers, which wait for each other in every round: the workers for
the slowest worker and for the coordinator, the coordinator for the workers. A coordinator with one
worker is a chain that keeps about one core busy. So W cores are filled best by W such chains,
however large the models are and however many clients and rounds there are. That is what "auto"
does. If some chains would have no work at the end, "auto" uses only as many as finish in the same
number of turns, and these share the workers: 9 runs on 8 workers are 5 runs at a time and then 4,
not 8 and then 1.

The processes (`mmfl.comparison.worker`) keep their engines from run to run. Runs are handed out in
order to any free process, the longest of a seed first, so that the last run to start is a short
one. At the end, when there are fewer runs than processes, some processes are idle.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from mmfl import errors
from mmfl.comparison.planned import Event, Failed, PlannedRun, Step, firsts
from mmfl.config import dump, find_script_part, short
from mmfl.data import InMemory
from mmfl.errors import ConfigError, EngineError, InputError, MmflError, MmflWarning
from mmfl.experiment import Experiment, Local, hash_own_code, job_needs
from mmfl.runs import clear_unfinished
from mmfl.system import calls
from mmfl.system.child import Child, Message, end
from mmfl.system.memory import refuse
from mmfl.system.tracebacks import make_cause

__all__ = ["Jobs", "choose_jobs", "order_runs", "run_in_parallel"]

Jobs = int | Literal["auto"]
LIVES = 3
"""How many processes a run may cost before it is given up."""

PATIENCE = 10.0
"""Seconds that a process has to stop its run before it is killed."""


def choose_jobs(todo: Sequence[PlannedRun], asked: Jobs) -> int:
    """How many of these runs are done at the same time.

    Args:
        todo: The runs.
        asked: A number, or "auto": by the number of runs and of the local engine's workers alone;
            1 for other engines, and for experiments with parts that other processes cannot find.
    """
    if asked != "auto" and (not isinstance(asked, int) or isinstance(asked, bool) or asked < 1):
        raise InputError(f'jobs must be a whole number >= 1 or "auto", got {short(asked)}')
    if not todo:
        return 1
    if asked == "auto":
        turns = math.ceil(len(todo) / (_count_workers(todo[0].experiment) or 1))
        jobs = math.ceil(len(todo) / turns)
    else:
        jobs = min(len(todo), asked)
    if asked != "auto":
        refuse(job_needs(jobs), workers=jobs)
    if jobs > 1:
        for run in firsts(todo):
            obstacle = _find_obstacle(run.experiment)
            if obstacle and asked == "auto":
                return 1
            if obstacle:
                raise InputError(f"{obstacle}; move it into a module, or use jobs=1")
    return jobs


def run_in_parallel(
    todo: Sequence[PlannedRun], jobs: int, data_dir: Path | None
) -> Generator[tuple[PlannedRun, Event], None, None]:
    """Do these runs, `jobs` at a time; yields each round, and how each run ends.

    A mistake in a later variant is found before any runs; a run that fails leaves the others alone.
    """
    workers = _count_workers(todo[0].experiment)
    shares = [None if workers is None else _share(workers, jobs, n) for n in range(jobs)]
    order = order_runs(todo)
    with _ProcessPool(shares, data_dir) as processes:
        checks = _choose_checks(order, jobs)
        answers = processes.ask("check", checks)
        bad = {number: answer for number, answer in answers if "error" in answer}
        if bad:
            raise _error(checks[min(bad)], bad[min(bad)])
        for number, message in processes.ask("run", order):
            yield order[number], _read_event(order[number], message)


def _count_workers(experiment: Experiment) -> int | None:
    """How many workers the local engine has; None for any other engine."""
    settings = experiment.engine
    if not isinstance(settings, Local):
        return None
    return settings.count_workers(experiment.resolved().device)


def _share(workers: int, jobs: int, number: int) -> int:
    """The n-th process's share of the workers; each has one at least."""
    return max(1, workers // jobs + (number < workers % jobs))


def order_runs(todo: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Seed after seed, so that differences can be paired early; of a seed, the longest first."""
    place = {seed: n for n, seed in enumerate(dict.fromkeys(r.experiment.seed for r in todo))}
    return sorted(todo, key=lambda run: (place[run.experiment.seed], -run.experiment.rounds))


def _choose_checks(order: Sequence[PlannedRun], jobs: int) -> list[PlannedRun]:
    """The first run of each variant; and others, so that every process gets ready meanwhile."""
    needed = firsts(order)
    others = [run for run in order if not any(run is one for one in needed)]
    return needed + others[: max(0, jobs - len(needed))]


def _find_obstacle(experiment: Experiment) -> str | None:
    """Why another process cannot run this experiment."""
    text = experiment.to_toml()
    lost = find_script_part(dump(experiment))
    if lost:
        return f"{lost!r} exists only in this program; other processes cannot import it"
    kept = next((t.name for t in experiment.tasks if isinstance(t.dataset, InMemory)), None)
    if kept is not None:
        return f"the data of task {kept!r} exists only in this program"
    try:
        again = Experiment.from_toml(text, allow_imports=True).to_toml()
    except ConfigError as error:
        return f"the experiment cannot be sent to another process: {error}"
    return None if again == text else "the experiment changes when it is saved and loaded again"


def _read_event(run: PlannedRun, message: Message) -> Event:
    """What happened to a run, as its process reports it."""
    if "error" in message:
        return Failed(_error(run, message))
    return (
        None if "over" in message else Step(message["round"], message["metric"], message["traces"])
    )


def _error(run: PlannedRun, message: Message) -> MmflError | RuntimeError:
    """An error of another process, as if it had been raised here."""
    sentence = f"{run.name}: {message['error']}"
    if "kind" in message:
        made: MmflError = getattr(errors, message["kind"])(sentence)
        made.__cause__ = make_cause(message.get("trace", ""))
        return made
    error = RuntimeError(errors.one_line(sentence))
    error.add_note(f"In the process that did the run:\n{message['trace']}")
    return error


@dataclass(eq=False)
class _Place:
    """Room for a process, its share of the workers, and which run it is busy with."""

    workers: int | None
    child: Child | None = None
    busy: int | None = None


class _ProcessPool:
    """Processes that do runs; a process that dies is replaced, and its run is done again."""

    def __init__(self, shares: Sequence[int | None], data_dir: Path | None) -> None:
        self._places = [_Place(share) for share in shares]
        self._data_dir = None if data_dir is None else str(data_dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        end([place.child for place in self._places if place.child is not None], PATIENCE)

    def ask(
        self, do: Literal["check", "run"], runs: Sequence[PlannedRun]
    ) -> Generator[tuple[int, Message], None, None]:
        """Messages about runs (by number) as they arrive; the last one of a run has "over"."""
        waiting = deque(range(len(runs)))
        deaths = [0] * len(runs)
        while waiting or any(place.busy is not None for place in self._places):
            for place in self._places:
                if place.busy is None and waiting:
                    self._give(place, do, waiting.popleft(), runs)
            for place, number, child in self._wait_for_messages():
                message = child.receive()
                if message is None:
                    how = self._clear_place(place, child)
                    deaths[number] += 1
                    if do == "run":
                        clear_unfinished(runs[number].folder)
                    if deaths[number] < LIVES:
                        waiting.appendleft(number)
                        continue
                    why = f"its process died {LIVES} times; the last one {how}"
                    message = {"over": True, "error": why, "kind": EngineError.__name__}
                if "over" in message:
                    place.busy = None
                if "warning" in message:
                    warnings.warn(message["warning"], MmflWarning, stacklevel=2)
                else:
                    yield number, message

    def _give(self, place: _Place, do: str, number: int, runs: Sequence[PlannedRun]) -> None:
        if place.child is not None and place.child.process.poll() is not None:
            # It died with nothing to do, so no run is to blame.
            self._clear_place(place, place.child)
        if place.child is None:
            place.child = Child.start("mmfl.comparison.worker")
            start = {"command": sys.argv, "data_dir": self._data_dir, "workers": place.workers}
            place.child.send(start)
        place.busy = number
        text, folder = runs[number].experiment.to_toml(), str(runs[number].folder)
        code = hash_own_code(runs[number].experiment)
        place.child.send({"do": do, "experiment": text, "folder": folder, "code": code})

    def _wait_for_messages(self) -> list[tuple[_Place, int, Child]]:
        """Wait for messages; the places, runs and processes that have one."""
        busy = [(p, p.busy, p.child) for p in self._places if p.child and p.busy is not None]
        try:
            ready = calls.wait([child.connection for _, _, child in busy])
        except OSError as error:
            raise EngineError(f"cannot wait for the processes of a comparison: {error}") from None
        return [
            (place, number, child) for place, number, child in busy if child.connection in ready
        ]

    @staticmethod
    def _clear_place(place: _Place, child: Child) -> str:
        """Remove a process, and say how it ended.

        This waits for its end: only then does the run that it was doing count as interrupted.
        """
        how = child.describe_end(PATIENCE)
        end([child], 0)
        place.child = place.busy = None
        return how
