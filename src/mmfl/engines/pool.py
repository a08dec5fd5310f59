"""A pool of worker processes that answer requests: dynamic dispatch, ordered delivery, no losses.

A worker is ``python -m mmfl.engines.worker`` at the other end of a socket pair (no fork, and no
surprise for scripts without a main guard). Requests and replies are JSON; large arrays travel
through mapped files. A worker that dies is replaced and its request is asked again; a request that
has cost three workers their lives, or that outlasts `timeout`, is answered with {"failed": why}. A
worker that is killed while it starts is to blame on nobody: ten in a row, and the pool gives up.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from mmfl.errors import EngineError
from mmfl.system import calls
from mmfl.system.child import Child, Message

__all__ = ["LATE", "Message", "Pool"]

LATE = "timed out"
"""Why a request failed that took longer than its timeout."""

LIVES = 3
STARTS = 10
PATIENCE = 5.0
"""Seconds that a worker whose socket is closed may take to end."""

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
    owed: deque[str] = field(default_factory=deque)  # greetings that it has not answered yet
    since: float = 0.0
    overdue: bool = False

    @property
    def ready(self) -> bool:
        """Whether it answers requests now: it has been greeted, and has answered that."""
        return self.greeted > 0 and not self.owed


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
                worker.owed.append(self.greetings[worker.greeted]["do"])
                worker.greeted += 1

    def greet(self, greeting: Message) -> None:
        """Tell every worker something, now and whenever one is replaced; it answers.

        A "setup" makes all that was said before it void.
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
        timeout: float | None = None,
    ) -> Generator[tuple[Message, bytes], None, None]:
        """Replies (with the bytes that belong to them) to requests 0, 1, ... in that order.

        Args:
            order: The numbers of all requests, in the order in which they are best begun: the
                longest first, or else everybody waits for it in the end.
            request: From a request's number to the message; asked once, when it is sent first.
            depth: How many requests a worker may have at a time: 2 hides the latency of short ones.
                Near the end it is one, so that nobody waits behind another while a worker is free.
            sizes: What each request occupies from when it is sent until its reply is delivered.
            room: How much requests may occupy together. When it is full, only a worker that has
                nothing to do gets a request, and only one of the next to be delivered.
            timeout: Seconds of wall clock after which a request is given up.
        """
        count = len(order)
        todo, messages = _Todo(order, sizes, room), dict[int, Message]()
        replies: dict[int, tuple[Message, bytes]] = {}
        deaths = [0] * count
        delivered, ahead = 0, self.size + (self.size + 1) // 2
        try:
            while delivered < count:
                self.start()
                for worker, number in self._dispatch(todo, depth, delivered + ahead):
                    self._give(worker, number, messages, request)
                for worker in self._answering(timeout):
                    try:
                        reply, frame = _receive(worker.child.connection)
                    except (EOFError, OSError):
                        self._bury(worker, todo, deaths, replies)
                        continue
                    if not worker.ready:
                        worker.owed.popleft()
                        if "error" in reply and "setup" not in worker.owed:  # else it is void
                            self.close()  # the others could not do it either
                            raise EngineError(reply["error"])
                        worker.since = calls.monotonic()
                        self._stillborn = 0
                        continue
                    number = worker.waiting.popleft()
                    worker.since = calls.monotonic()
                    replies[number] = (reply, frame)
                    messages.pop(number)
                for worker in self._overdue(timeout):
                    worker.child.process.kill()
                    worker.overdue = True
                while delivered in replies:
                    yield replies.pop(delivered)
                    todo.done(delivered)
                    delivered += 1
        finally:
            for worker in [worker for worker in self._workers if worker.waiting]:
                self._workers.remove(worker)
                worker.child.kill()

    def _dispatch(self, todo: _Todo, depth: int, near: int) -> Iterator[tuple[_Worker, int]]:
        """Who is to begin what now: first everybody gets one, then the next one to go on with."""
        for level in range(1, depth + 1):
            for worker in self._workers:
                if len(worker.waiting) < level and len(todo) > (level - 1) * self.size:
                    number = todo.take(0 if worker.waiting else near)
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
            worker.since = calls.monotonic()
        worker.waiting.append(number)
        worker.child.send(messages[number])

    def _answering(self, timeout: float | None) -> list[_Worker]:
        busy = {worker.child.connection: worker for worker in self._workers}
        patience = None if timeout is None else min(1.0, timeout / 4)
        try:
            heard = calls.wait(list(busy), patience)
        except OSError as error:
            raise EngineError(f"cannot wait for worker processes: {error}") from None
        return [busy[connection] for connection in heard]  # type: ignore[index]

    def _overdue(self, timeout: float | None) -> list[_Worker]:
        if timeout is None:
            return []
        limit = calls.monotonic() - timeout
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
            code, words = worker.child.ended(PATIENCE), worker.child.last_words()
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
                why = LATE if worker.overdue else f"ended {LIVES} worker processes"
                replies[blamed] = ({"failed": why}, b"")


class _Todo:
    """Requests that no worker has: begun in the best order, or by number if there is no room."""

    def __init__(self, order: Sequence[int], sizes: Sequence[int], room: int) -> None:
        self._ranked = deque(order)  # may name some that are begun already
        self._left = set(order)
        self._lowest = 0
        self._sizes, self._room = sizes, room
        self._held: set[int] = set()  # those that occupy room
        self._used = 0

    def __len__(self) -> int:
        return len(self._left)

    def take(self, near: int) -> int | None:
        """The best one; if there is no room for it, the lowest, but none from `near` on."""
        if not self._left:
            return None
        while self._ranked[0] not in self._left:
            self._ranked.popleft()
        number = self._ranked[0]
        if self._used + self._size(number) > self._room:
            while self._lowest not in self._left:
                self._lowest += 1
            number = self._lowest
            if number >= near:
                return None
        self._used += self._size(number)
        self._held.add(number)
        self._left.remove(number)
        return number

    def _size(self, number: int) -> int:
        """How much room a request takes, beyond what it has already."""
        return self._sizes[number] if self._sizes and number not in self._held else 0

    def done(self, number: int) -> None:
        """The reply to this one was delivered."""
        self._held.discard(number)
        self._used -= self._size(number)

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
    reply: Message = json.loads(calls.receive(connection))
    return reply, calls.receive(connection) if reply.get("frame") else b""
