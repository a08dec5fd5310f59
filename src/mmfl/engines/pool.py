"""A pool of workers that answer requests: dynamic dispatch, ordered delivery, no losses.

A `Launcher` starts them, wherever that is. Requests and replies are small; large arrays travel by a
`Transport`. On this machine a worker is ``python -m mmfl.engines.worker`` at the other end of a
socket pair (no fork, and no surprise for scripts without a main guard). A worker that dies is
replaced and its request is asked again; a request that has cost three workers their lives, or that
outlasts `timeout`, is answered with {"failed": why}. A reply carries the number of its request; a
worker whose reply has another is killed and replaced. A worker that dies while it starts is
replaced; after ten in a row the pool gives up. With a `timeout`, a worker that has not set itself
up in that time (two minutes at least) is killed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from mmfl.engines.processes import Launcher, WorkerProcess
from mmfl.engines.requests import LATE, Reply, Requests
from mmfl.errors import EngineError
from mmfl.system import calls
from mmfl.system.child import Message

__all__ = ["LATE", "Message", "Pool"]

STARTS = 10
PATIENCE = 5.0
"""Seconds that a worker whose socket is closed may take to end."""

SET_UP = 120.0
"""Seconds that a worker may take to start and to set itself up, or `timeout` if that is longer: how
long a turn takes says nothing about how long it takes to import torch."""


@dataclass(eq=False)
class _Worker:
    """A process, and the numbers of the requests it has not answered yet."""

    process: WorkerProcess
    waiting: deque[int] = field(default_factory=deque)
    greeted: int = 0
    sent: int = 0  # messages
    heard: int = 0  # their answers
    owed: deque[str] = field(default_factory=deque)  # greetings that it has not answered yet
    since: float = 0.0  # when it got the oldest of all these, or answered the one before
    overdue: bool = False

    @property
    def ready(self) -> bool:
        """Whether it answers requests now: it has been greeted, and has answered that."""
        return self.greeted > 0 and not self.owed

    @property
    def busy(self) -> bool:
        """Whether it owes an answer."""
        return bool(self.owed or self.waiting)

    def greet(self, greeting: Message) -> None:
        """Send the next greeting."""
        self._start_clock()
        self.owed.append(greeting["do"])
        self.greeted += 1
        self._send(greeting)

    def ask(self, number: int, message: Message) -> None:
        """Send a request."""
        self._start_clock()
        self.waiting.append(number)
        self._send(message)

    def receive(self) -> Reply:
        """The answer to the oldest message; `EOFError` if there will be none."""
        reply, frame = self.process.receive()
        if reply.get("number") != self.heard:
            self.process.end()
            raise EOFError
        self.heard += 1
        return reply, frame

    def _send(self, message: Message) -> None:
        self.process.send(message | {"number": self.sent})
        self.sent += 1

    def _start_clock(self) -> None:
        if not self.busy:
            self.since = calls.monotonic()


class Pool:
    """Workers that share greetings.

    Args:
        size: How many.
        launcher: Starts them.
        greetings: What every worker is sent first.
        timeout: Seconds of wall clock after which a request is given up.
    """

    def __init__(
        self,
        size: int,
        launcher: Launcher,
        greetings: Sequence[Message] = (),
        *,
        timeout: float | None = None,
    ) -> None:
        self.size = size
        self.greetings = list(greetings)
        self._launcher = launcher
        self._timeout = timeout
        self._set_up = None if timeout is None else max(timeout, SET_UP)
        self._workers: list[_Worker] = []
        self._failed_starts = 0
        self._owner = os.getpid()

    def start(self) -> None:
        """Bring the pool to its size; new workers get all greetings so far."""
        self.refuse_fork()
        while len(self._workers) < self.size:
            self._workers.append(_Worker(self._launcher.start(self._set_up)))
        for worker in self._workers:  # after all have been started: a long greeting makes one wait
            while worker.greeted < len(self.greetings):
                worker.greet(self.greetings[worker.greeted])

    def refuse_fork(self) -> None:
        """Raise `EngineError` in a process that was forked from the owner."""
        if os.getpid() != self._owner:
            raise EngineError(
                "an engine cannot be used in a fork of the process that opened it; open a new one"
            )

    def greet(self, greeting: Message) -> None:
        """Tell every worker something, now and whenever one is replaced; it answers.

        A "setup" replaces all earlier greetings.
        """
        if greeting["do"] == "setup":
            self.greetings = []
            for worker in self._workers:
                worker.greeted = 0
        self.greetings.append(greeting)
        if self._workers:
            self.start()

    def ask(
        self,
        order: Sequence[int],
        request: Callable[[int], Message],
        *,
        depth: int = 1,
        sizes: Sequence[int] = (),
        room: int = 0,
    ) -> Generator[Reply, None, None]:
        """Replies (with the bytes that belong to them) to requests 0, 1, ... in that order.

        Args:
            order: The numbers of all requests, in the order in which they should start: the longest
                first, so that nobody waits for it at the end.
            request: From a request's number to the message; asked once, when it is sent first.
            depth: How many requests a worker may have at a time: 2 hides the latency of short ones.
                Near the end it is one, so that nobody waits behind another while a worker is free.
            sizes: What each request occupies from when it is sent until its reply is delivered.
            room: How much requests may occupy together. When it is full, only a worker that has
                nothing to do gets a request, and only one of the next to be delivered.
        """
        requests = Requests(order, request, sizes, room)
        try:
            while not requests.all_delivered:
                self.start()
                self._dispatch(requests, depth)
                for worker in self._wait():
                    self._read_message(worker, requests)
                self._kill_overdue()
                yield from requests.deliver()
        finally:
            self._drop_waiting()

    def open_spare(self) -> Pool:
        """A pool of one more worker with the same greetings, for a risky request."""
        return Pool(1, self._launcher, self.greetings, timeout=self._timeout)

    def close(self) -> None:
        """End all workers; in a fork of this process, only forget them."""
        while self._workers:
            self._workers.pop().process.free()

    def _dispatch(self, requests: Requests, depth: int) -> None:
        """Send requests: first one to every worker, then one more to continue with."""
        near = requests.delivered + self.size + (self.size + 1) // 2
        for level in range(1, depth + 1):
            for worker in self._workers:
                free = worker.process.runs and len(worker.waiting) < level
                if free and len(requests) > (level - 1) * self.size:
                    number = requests.take(0 if worker.waiting else near)
                    if number is not None:
                        worker.ask(number, requests.write(number))

    def _wait(self) -> list[_Worker]:
        """Wait for workers; those that have sent something, or have ended."""
        known = {worker.process: worker for worker in self._workers}
        patience = None if self._timeout is None else min(1.0, self._timeout / 4)
        return [known[process] for process in self._launcher.wait(list(known), patience)]

    def _read_message(self, worker: _Worker, requests: Requests) -> None:
        """Take a worker's next message."""
        try:
            reply = worker.receive()
        except (EOFError, OSError):
            self._remove_dead(worker, requests)
            return
        worker.overdue = False  # it answered, if only at the last moment
        if worker.ready:
            requests.answer(worker.waiting.popleft(), reply)
        else:
            self._read_greeting_reply(worker, reply[0])
        worker.since = calls.monotonic()

    def _read_greeting_reply(self, worker: _Worker, reply: Message) -> None:
        """Take the answer to a greeting."""
        worker.owed.popleft()
        if "error" in reply and "setup" not in worker.owed:  # else it is void
            self.close()  # the others could not do it either
            raise EngineError(reply["error"])
        try:
            worker.process.check_greeting(reply)
        except EngineError:
            self.close()
            raise
        self._failed_starts = 0

    def _kill_overdue(self) -> None:
        """Kill workers that have not answered in time; `_remove_dead` then finds them."""
        if self._timeout is None or self._set_up is None:
            return
        now = calls.monotonic()
        for worker in self._workers:
            limit = self._timeout if worker.ready else self._set_up
            if worker.process.runs and worker.busy and worker.since < now - limit:
                worker.process.end()
                worker.overdue = True

    def _remove_dead(self, worker: _Worker, requests: Requests) -> None:
        """Drop a dead worker; its first request is to blame, the others are simply asked again."""
        self._workers.remove(worker)
        if not worker.ready:
            self._count_failed_start(worker)
        worker.process.free()
        requests.ask_again(worker.waiting)
        if worker.ready and worker.waiting:
            requests.blame(worker.waiting[0], late=worker.overdue)

    def _count_failed_start(self, worker: _Worker) -> None:
        """Give up if a worker could not start, or if ten in a row were killed before they could."""
        code, words = worker.process.wait_for_end(PATIENCE), worker.process.read_last_line()
        self._failed_starts += 1
        if code <= 0 and self._failed_starts < STARTS:
            return
        worker.process.free()
        how = f"ended with exit code {code}"
        if worker.overdue:
            how = f"took longer than {self._set_up:g} seconds, {STARTS} times,"
        elif code <= 0:
            how = f"was killed by signal {-code}, {STARTS} times,"
        said = f": {words}" if words else ""
        raise EngineError(f"a worker process {how} before it was ready{said}")

    def _drop_waiting(self) -> None:
        """End workers whose answers nobody waits for any more."""
        for worker in [worker for worker in self._workers if worker.waiting]:
            self._workers.remove(worker)
            worker.process.free()
