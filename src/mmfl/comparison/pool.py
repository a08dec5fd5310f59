"""Several runs of a comparison at the same time, each in its own process.

A run is a coordinator and its workers, who wait for each other in every round: the workers for the
slowest of them and for the coordinator, the coordinator for the workers. One coordinator with one
worker is a chain that uses about one core, at all times. Many runs therefore fill W cores best as
W such chains, whether their models, clients and rounds are few or many; that is what "auto" does.
If that would leave chains without work in their last turn, there are as few chains as finish in the
same number of turns, and these share the workers: 9 runs on 8 workers are 5 runs at a time, and
then 4, not 8 and then 1.

The processes (`mmfl.comparison.worker`) keep their engines from run to run. Runs are handed out in
order, to whichever process is free, the longest of a seed first: the last to be started should be
a short one. At the end, when there are fewer runs than processes, some have nothing to do.
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
from mmfl.comparison.planned import Event, Failed, Planned, Step, firsts
from mmfl.config import dump, find_script_part, short
from mmfl.errors import ConfigError, EngineError, InputError, MmflError, MmflWarning
from mmfl.experiment import Experiment, Local, hash_own_code, job_needs
from mmfl.runs import clear_unfinished
from mmfl.system import calls
from mmfl.system.child import Child, Message, end
from mmfl.system.memory import refuse

__all__ = ["Jobs", "in_order", "jobs_for", "sweep"]

Jobs = int | Literal["auto"]
LIVES = 3
"""How many processes a run may cost before it is given up."""

PATIENCE = 10.0
"""Seconds in which a process must have stopped its run, before it is killed."""


def jobs_for(todo: Sequence[Planned], asked: Jobs) -> int:
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
            obstacle = _obstacle(run.experiment)
            if obstacle and asked == "auto":
                return 1
            if obstacle:
                raise InputError(f"{obstacle}; move it into a module, or use jobs=1")
    return jobs


def sweep(
    todo: Sequence[Planned], jobs: int, data_dir: Path | None
) -> Generator[tuple[Planned, Event], None, None]:
    """Do these runs, `jobs` at a time; yields each round, and how each run ends.

    A mistake in a later variant is found before any runs; a run that fails leaves the others alone.
    """
    workers = _count_workers(todo[0].experiment)
    shares = [None if workers is None else _share(workers, jobs, n) for n in range(jobs)]
    order = in_order(todo)
    with _ProcessPool(shares, data_dir) as processes:
        checks = _to_check(order, jobs)
        answers = processes.ask("check", checks)
        bad = {number: answer for number, answer in answers if "error" in answer}
        if bad:
            raise _error(checks[min(bad)], bad[min(bad)])
        for number, message in processes.ask("run", order):
            yield order[number], _event(order[number], message)


def _count_workers(experiment: Experiment) -> int | None:
    """How many the local engine has; None of any other."""
    settings = experiment.engine
    return settings.processes if isinstance(settings, Local) else None


def _share(workers: int, jobs: int, number: int) -> int:
    """The n-th process's share of the workers; each has one at least."""
    return max(1, workers // jobs + (number < workers % jobs))


def in_order(todo: Sequence[Planned]) -> list[Planned]:
    """Seed after seed, so that differences can be paired early; of a seed, the longest first."""
    place = {seed: n for n, seed in enumerate(dict.fromkeys(r.experiment.seed for r in todo))}
    return sorted(todo, key=lambda run: (place[run.experiment.seed], -run.experiment.rounds))


def _to_check(order: Sequence[Planned], jobs: int) -> list[Planned]:
    """The first run of each variant; and others, so that every process gets ready meanwhile."""
    needed = firsts(order)
    others = [run for run in order if not any(run is one for one in needed)]
    return needed + others[: max(0, jobs - len(needed))]


def _obstacle(experiment: Experiment) -> str | None:
    """Why another process could not have this experiment."""
    text = experiment.to_toml()
    lost = find_script_part(dump(experiment))
    if lost:
        return f"{lost!r} exists only in this program; other processes cannot import it"
    try:
        again = Experiment.from_toml(text, allow_imports=True).to_toml()
    except ConfigError as error:
        return f"the experiment cannot be sent to another process: {error}"
    return None if again == text else "the experiment changes when it is saved and loaded again"


def _event(run: Planned, message: Message) -> Event:
    """What happened to a run, as its process tells it."""
    if "error" in message:
        return Failed(_error(run, message))
    return None if "over" in message else Step(message["round"], message["metric"])


def _error(run: Planned, message: Message) -> MmflError | RuntimeError:
    """What went wrong in another process, as if it had been here."""
    sentence = f"{run.name}: {message['error']}"
    if "kind" in message:
        made: MmflError = getattr(errors, message["kind"])(sentence)
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
    """Processes that take runs; those that die are replaced, and their runs done again."""

    def __init__(self, shares: Sequence[int | None], data_dir: Path | None) -> None:
        self._places = [_Place(share) for share in shares]
        self._data_dir = None if data_dir is None else str(data_dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        end([place.child for place in self._places if place.child is not None], PATIENCE)

    def ask(
        self, do: Literal["check", "run"], runs: Sequence[Planned]
    ) -> Generator[tuple[int, Message], None, None]:
        """What is said about runs (by number), as it comes; "over" is in the last of each."""
        waiting = deque(range(len(runs)))
        deaths = [0] * len(runs)
        while waiting or any(place.busy is not None for place in self._places):
            for place in self._places:
                if place.busy is None and waiting:
                    self._give(place, do, waiting.popleft(), runs)
            for place, number, child in self._heard():
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

    def _give(self, place: _Place, do: str, number: int, runs: Sequence[Planned]) -> None:
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

    def _heard(self) -> list[tuple[_Place, int, Child]]:
        """Who has something to say; waits until somebody has."""
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
        """Make room for another process; how this one ended.

        It is waited for: a run that a dead process was doing counts as interrupted only then.
        """
        how = child.describe_end(PATIENCE)
        end([child], 0)
        place.child = place.busy = None
        return how
