"""Starts workers as Ray actors, and waits for their answers."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from mmfl import __version__
from mmfl.engines.probe import describe_difference
from mmfl.engines.ray.actor import Actor
from mmfl.engines.requests import Reply
from mmfl.errors import EngineError, text_of
from mmfl.system import calls
from mmfl.system.child import Message

__all__ = ["ActorLauncher", "ActorProcess"]

START = 120.0
"""Seconds after which it is an error that no worker has been given a place to run."""

_OFTEN = 1.0


class ActorProcess:
    """An actor and the answers that it owes; see `mmfl.engines.processes.WorkerProcess`."""

    def __init__(self, ray: Any, actor: Any, check: Callable[[Message], None]) -> None:
        self.check_greeting = check
        self._ray, self._actor, self._owner = ray, actor, os.getpid()
        self._answers: deque[Any] = deque()
        self._words, self._code = "", -9
        self.runs = False

    @property
    def next(self) -> Any:
        """Where the next answer will be; None if nothing was asked."""
        return self._answers[0] if self._answers else None

    def send(self, message: Message) -> None:
        """Send a message."""
        self._answers.append(self._actor.answer.remote(message))

    def receive(self) -> Reply:
        """The answer to the oldest message."""
        try:
            reply: Reply = self._ray.get(self._answers[0])
        except self._ray.exceptions.RayError as error:
            lines = [line.strip() for line in text_of(error).splitlines() if line.strip()]
            self._words = lines[-1] if lines else ""
            self._code = 1 if "creation task" in text_of(error) else -9
            self.end()
            raise EOFError from None
        self._answers.popleft()
        self.runs = True
        return reply

    def end(self) -> None:
        """Kill the actor."""
        if os.getpid() == self._owner:
            self._ray.kill(self._actor, no_restart=True)

    def free(self) -> None:
        """Kill the actor, and forget what it owes."""
        self.end()
        self._answers.clear()

    def wait_for_end(self, patience: float) -> int:
        """1 if it could not be created, else as if it had been killed."""
        return self._code

    def read_last_line(self) -> str:
        """What Ray says about its end."""
        return self._words if self._code > 0 else ""


class ActorLauncher:
    """Starts actors.

    Args:
        ray: The module.
        options: Of an actor: its resources, and how it is placed.
        mixed: Whether machines may give other bits than the first.
    """

    def __init__(self, ray: Any, options: dict[str, Any], *, mixed: bool) -> None:
        self._mixed = mixed
        self._first: dict[int, Message] = {}  # from a probe to its first answer
        self._ray, self._needed = ray, options
        self._kind = ray.remote(Actor).options(max_restarts=0, max_task_retries=0, **options)
        self._since: float | None = None  # no worker has run

    def start(self, patience: float | None) -> ActorProcess:
        """A new actor, which may have to wait for its resources."""
        path = [str(entry) or os.getcwd() for entry in sys.path]
        return ActorProcess(self._ray, self._kind.remote(path, os.getcwd()), self._compare)

    def wait(self, workers: Sequence[ActorProcess], patience: float | None) -> list[ActorProcess]:
        """Wait for answers; `EngineError` if no worker gets a place to run."""
        known = {worker.next: worker for worker in workers if worker.next is not None}
        while True:
            often = _OFTEN if patience is None else min(patience, _OFTEN)
            done, rest = self._ray.wait([*known], timeout=often)
            if done:
                self._since = None
                also = self._ray.wait(rest, num_returns=len(rest), timeout=0)[0] if rest else []
                return [known[answer] for answer in (*done, *also)]
            self._refuse_shortage(workers)
            if patience is not None:
                return []

    def _compare(self, reply: Message) -> None:
        """Refuse a worker whose machine gives other bits than the first one's."""
        if "probe" not in reply:
            return
        first = self._first.setdefault(reply["probe"], reply)
        one, other = first["machine"], reply["machine"]
        if reply["version"] != __version__:
            raise EngineError(
                f"{other} has mmfl {reply['version']}, and this machine has {__version__}: install "
                "the same version on all machines"
            )
        difference = describe_difference(first, reply)
        if difference is not None and not self._mixed:
            raise EngineError(
                f"{one} and {other} compute other bits ({difference or 'with the same versions'}), "
                "so that results would depend on which of them trains what: leave one out of the "
                "cluster, or set engine.mixed = true"
            )

    def _refuse_shortage(self, workers: Sequence[ActorProcess]) -> None:
        if any(worker.runs for worker in workers):
            self._since = None
            return
        now = calls.monotonic()
        self._since = now if self._since is None else self._since
        if now > self._since + START:
            names = {"num_cpus": "CPU", "num_gpus": "GPU"}
            wanted = [f"{self._needed[key]:g} {names[key]}" for key in names if self._needed[key]]
            free = self._ray.available_resources()
            left = [f"{free.get(name, 0):g} {name}" for name in names.values()]
            raise EngineError(
                f"no worker was given a place to run within {START:g} seconds: each needs "
                f"{' and '.join(wanted)}, and {' and '.join(left)} are free in the cluster"
            )
