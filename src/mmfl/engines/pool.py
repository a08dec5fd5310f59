"""A pool of worker processes that answer requests: dynamic dispatch, ordered delivery, no losses.

A worker is ``python -m mmfl.engines.worker`` at the other end of a socket pair (no fork, and no
surprise for scripts without a main guard). Requests and replies are JSON; large arrays travel
through mapped files. A worker that dies is replaced and its request is asked again; a request that
has cost three workers their lives, or that outlasts `timeout`, is answered with {"failed": why}. A
worker that is killed while it starts is to blame on nobody: ten in a row, and the pool gives up.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait

from mmfl.errors import EngineError
from mmfl.processes import Child, Message

__all__ = ["Message", "Pool"]

LIVES = 3
STARTS = 10

_KEEP_MEMORY = {  # else glibc gives each batch's memory back to the system, and asks for it again
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "1000000000",
    "MALLOC_TOP_PAD_": "100000000",
}


@dataclass(eq=False)
class _Worker:
    """A process, and the numbers of the requests it has not answered yet."""

    child: Child
    waiting: deque[int] = field(default_factory=deque)
    greeted: int = 0
    owes: int = 0  # answers to greetings; while there are any, it is not ready for requests
    since: float = 0.0
    overdue: bool = False

    @property
    def ready(self) -> bool:
        return self.greeted > 0 and self.owes == 0


class Pool:
    """Workers that share files and greetings."""

    def __init__(
        self,
        size: int,
        files: tuple[int, ...],
        greetings: Sequence[Message] = (),
    ) -> None:
        self.size = size
        self.greetings = list(greetings)
        self._files = files
        self._workers: list[_Worker] = []
        self._stillborn = 0

    def start(self) -> None:
        """Bring the pool to its size; new workers get all greetings so far."""
        while len(self._workers) < self.size:
            child = Child.start("mmfl.engines.worker", files=self._files, environment=_KEEP_MEMORY)
            self._workers.append(_Worker(child))
        for worker in self._workers:  # after all have been started: a long greeting makes one wait
            while worker.greeted < len(self.greetings):
                worker.child.send(self.greetings[worker.greeted])
                worker.owes += self.greetings[worker.greeted]["do"] == "setup"
                worker.greeted += 1

    def greet(self, greeting: Message) -> None:
        """Tell every worker something, now and whenever one is replaced.

        A "setup" makes all that was said before it void, and is answered; nothing else is.
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
        room: int | None = None,
        timeout: float | None = None,
    ) -> Generator[tuple[Message, bytes], None, None]:
        """Replies (with the bytes that belong to them) to requests 0, 1, ... in that order.

        Args:
            order: The numbers of all requests, in the order in which they are best begun: the
                longest first, or else everybody waits for it in the end.
            request: From a request's number to the message; asked once, when it is sent first.
            depth: How many requests a worker may have at a time: 2 hides the latency of short ones.
                Near the end it is one, so that nobody waits behind another while a worker is free.
            room: How many replies may wait for one before them; then the next ones to be delivered
                are begun next.
            timeout: Seconds of wall clock after which a request is given up.
        """
        count = len(order)
        todo, messages = _Todo(order), dict[int, Message]()
        replies: dict[int, tuple[Message, bytes]] = {}
        deaths = [0] * count
        delivered = 0
        near = max(8, 4 * depth * self.size)
        try:
            while delivered < count:
                self.start()
                full = room is not None and len(messages) + len(replies) >= room
                for worker, number in self._dispatch(
                    todo, depth, delivered + near if full else None
                ):
                    self._give(worker, number, messages, request)
                for worker in self._answering(timeout):
                    try:
                        reply, frame = _receive(worker.child.connection)
                    except (EOFError, OSError):
                        self._bury(worker, todo, deaths, replies)
                        continue
                    if not worker.ready:
                        worker.owes -= 1
                        if "error" in reply and worker.ready:  # else that setup is void by now
                            self.close()  # the others could not do it either
                            raise EngineError(reply["error"])
                        worker.since = time.monotonic()
                        self._stillborn = 0
                        continue
                    number = worker.waiting.popleft()
                    worker.since = time.monotonic()
                    replies[number] = (reply, frame)
                    messages.pop(number)
                for worker in self._overdue(timeout):
                    worker.child.process.kill()
                    worker.overdue = True
                while delivered in replies:
                    yield replies.pop(delivered)
                    delivered += 1
        finally:
            for worker in [worker for worker in self._workers if worker.waiting]:
                self._workers.remove(worker)
                worker.child.kill()

    def _dispatch(
        self, todo: _Todo, depth: int, below: int | None
    ) -> Iterator[tuple[_Worker, int]]:
        """Who is to begin what now: first everybody gets one, then the next one to go on with."""
        for level in range(1, depth + 1):
            for worker in self._workers:
                if len(worker.waiting) < level and len(todo) > (level - 1) * self.size:
                    number = todo.take(below)
                    if number is not None:
                        yield worker, number

    def apart(self) -> Pool:
        """A pool of one more worker with the same files and greetings, for a risky request."""
        return Pool(1, self._files, self.greetings)

    def close(self) -> None:
        """End all workers."""
        while self._workers:
            self._workers.pop().child.kill()

    def _give(
        self,
        worker: _Worker,
        number: int,
        messages: dict[int, Message],
        request: Callable[[int], Message],
    ) -> None:
        if number not in messages:
            messages[number] = request(number)
        if not worker.waiting:
            worker.since = time.monotonic()
        worker.waiting.append(number)
        worker.child.send(messages[number])

    def _answering(self, timeout: float | None) -> list[_Worker]:
        busy = {worker.child.connection: worker for worker in self._workers}
        patience = None if timeout is None else min(1.0, timeout / 4)
        return [busy[connection] for connection in wait(list(busy), patience)]  # type: ignore[index]

    def _overdue(self, timeout: float | None) -> list[_Worker]:
        if timeout is None:
            return []
        limit = time.monotonic() - timeout
        return [w for w in self._workers if w.ready and w.waiting and w.since < limit]

    def _bury(
        self,
        worker: _Worker,
        todo: _Todo,
        deaths: list[int],
        replies: dict[int, tuple[Message, bytes]],
    ) -> None:
        """Drop a dead worker; its first request is to blame, the others are simply asked again."""
        self._workers.remove(worker)
        if not worker.ready:
            code, words = worker.child.process.wait(), worker.child.last_words()
            self._stillborn += 1
            if code > 0 or self._stillborn >= STARTS:
                worker.child.kill()
                how = (
                    f"ended with exit code {code}"
                    if code > 0
                    else f"was killed by signal {-code}, {STARTS} times,"
                )
                said = f": {words}" if words else ""
                raise EngineError(f"a worker process {how} before it was ready{said}")
        worker.child.kill()
        todo.again(worker.waiting)
        if worker.ready and worker.waiting:
            blamed = worker.waiting[0]
            deaths[blamed] += 1
            if worker.overdue or deaths[blamed] >= LIVES:
                todo.drop(blamed)
                why = "timed out" if worker.overdue else f"ended {LIVES} worker processes"
                replies[blamed] = ({"failed": why}, b"")


class _Todo:
    """Requests that no worker has: begun in the best order, or by number where that is urgent."""

    def __init__(self, order: Sequence[int]) -> None:
        self._ranked = deque(order)  # may name some that are begun already
        self._left = set(order)
        self._lowest = 0

    def __len__(self) -> int:
        return len(self._left)

    def take(self, below: int | None) -> int | None:
        """The best one; with `below`, the lowest if it is below that, else none."""
        if not self._left:
            return None
        if below is None:
            number = self._ranked.popleft()
            while number not in self._left:
                number = self._ranked.popleft()
        else:
            while self._lowest not in self._left:
                self._lowest += 1
            number = self._lowest
            if number >= below:
                return None
        self._left.remove(number)
        return number

    def again(self, numbers: Iterable[int]) -> None:
        """These were begun in vain."""
        for number in reversed(tuple(numbers)):
            self._ranked.appendleft(number)
            self._left.add(number)
            self._lowest = min(self._lowest, number)

    def drop(self, number: int) -> None:
        """This one is given up."""
        self._left.discard(number)


def _receive(connection: Connection) -> tuple[Message, bytes]:
    reply: Message = json.loads(connection.recv_bytes())
    return reply, connection.recv_bytes() if reply.get("frame") else b""
