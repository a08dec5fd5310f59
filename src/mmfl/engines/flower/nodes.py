"""Asks nodes over a Grid, and collects what they answer until a deadline.

A node that does not answer, leaves or sends an error is a `Silence`: a value, never an exception.
While the SuperLink cannot be reached, requests are repeated until the deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from mmfl.engines.flower.pulling import Arrival, Broken, Puller
from mmfl.errors import one_line, shorten
from mmfl.system import calls
from mmfl.system.user_code import pass_on

__all__ = ["Answer", "Nodes", "Pending", "Reply", "Request", "Silence", "Surplus"]

POLL = 0.2
"""Seconds between two looks for replies; Flower's own `send_and_receive` waits 3."""

_PUSHED = 256
"""Messages that are sent with one request to the SuperLink."""

_SPARE = 60.0
"""Seconds that a message stays valid after its deadline."""

_UNAVAILABLE = (3, 4, 5)
"""Errors that the SuperLink itself reports: a message, a reply or a node is not available."""


@dataclass(frozen=True, eq=False)
class Request:
    """What one node is asked.

    Attributes:
        node: Its id in Flower.
        kind: "query", "train" or "evaluate".
        content: Makes the content when it is sent.
        limit: The largest answer, in bytes.
    """

    node: int
    kind: str
    content: Callable[[], RecordDict]
    limit: int


@dataclass(frozen=True, eq=False)
class Answer:
    """What a node answered."""

    content: RecordDict


@dataclass(frozen=True)
class Silence:
    """Why there is no answer."""

    reason: str
    detail: str


@dataclass(frozen=True)
class Surplus:
    """What a node sent beyond its answer."""

    detail: str


Reply = Answer | Silence | Surplus


class Nodes:
    """The nodes of a Grid."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def ids(self) -> list[int] | None:
        """Those that are connected, ascending; None if the SuperLink cannot be reached."""
        try:
            return sorted(map(int, self._grid.get_node_ids()))
        except Exception as error:  # of the network, in whatever library Flower uses for it
            pass_on(error)
            return None

    def ask(
        self, requests: Sequence[Request], timeout: float, *, group: str = ""
    ) -> Iterator[tuple[int, Reply]]:
        """(number of a request, reply) as they arrive: one answer or silence for each request."""
        pending = Pending(self._grid, timeout)
        yield from pending.send(requests, group)
        while pending.waiting:
            found = list(pending.pull())
            yield from found
            left = pending.deadline - calls.monotonic()
            if pending.waiting and not found and left <= 0:
                yield from pending.give_up()
            elif pending.waiting and not found:
                calls.sleep(min(POLL, left))

    def start(self, requests: Sequence[Request], timeout: float) -> Pending:
        """The same without waiting: the replies are pulled later."""
        pending = Pending(self._grid, timeout)
        for _ in pending.send(requests):
            pass
        return pending


class Pending:
    """Requests on their way.

    Attributes:
        deadline: When the last reply may come, in seconds of `calls.monotonic`.
    """

    def __init__(self, grid: Grid, timeout: float) -> None:
        self._grid = grid
        self._timeout = timeout
        self.deadline = calls.monotonic() + timeout
        self._puller = Puller(grid)
        self._waiting: dict[str, int] = {}  # from a message's id to its request's number
        self._limit: dict[str, int] = {}
        self._answered: dict[str, int] = {}
        self._node: dict[int, int] = {}  # from a request's number to its node
        self._last: dict[int, int] = {}  # from a node to its last request

    @property
    def waiting(self) -> bool:
        """Whether any request has no reply yet."""
        return bool(self._waiting)

    def send(self, requests: Sequence[Request], group: str = "") -> Iterator[tuple[int, Reply]]:
        """Send them; yields the silence of those that cannot be sent."""
        ttl = self._timeout + _SPARE
        for start in range(0, len(requests), _PUSHED):
            some = requests[start : start + _PUSHED]
            messages = [
                Message(one.content(), one.node, one.kind, ttl=ttl, group_id=group) for one in some
            ]
            ids = self._push(messages)
            for number, (request, message_id) in enumerate(zip(some, ids, strict=True), start):
                if message_id:
                    self._waiting[message_id] = self._last[request.node] = number
                    self._node[number] = request.node
                    self._limit[message_id] = request.limit
                else:
                    yield number, Silence("dropout", "its node could not be sent the message")
        self.deadline = calls.monotonic() + self._timeout

    def pull(self) -> Iterator[tuple[int, Reply]]:
        """What has arrived."""
        limits = {message_id: self._limit[message_id] for message_id in self._waiting}
        try:
            arrivals = list(self._puller.pull(limits))
        except Exception as error:
            pass_on(error)
            return
        for arrival in arrivals:
            found = self._sort(arrival)
            if found is not None:
                yield found

    def give_up(self) -> Iterator[tuple[int, Reply]]:
        """The silence of all that are left."""
        why = f"no answer within engine.timeout = {self._timeout:g} seconds"
        for number in sorted(self._waiting.values()):
            yield number, Silence("timeout", why)
        self._waiting.clear()

    def _push(self, messages: Sequence[Message]) -> list[str | None]:
        """The ids of the messages; None for those that were not sent."""
        wait = 0.2
        while True:
            try:
                ids: list[Any] = list(self._grid.push_messages(messages))
                return ids if len(ids) == len(messages) else [None] * len(messages)
            except Exception as error:
                pass_on(error)
                if calls.monotonic() + wait > self.deadline:
                    return [None] * len(messages)
            calls.sleep(wait)
            wait = min(2 * wait, 5.0)

    def _sort(self, arrival: Arrival) -> tuple[int, Reply] | None:
        """Which request a reply answers, and how; None if its node was not asked anything."""
        replied, sender, message = arrival
        number = self._waiting.get(replied)
        flowers = isinstance(message, Message) and _is_of_superlink(message)
        if number is not None and (flowers or self._node[number] == sender):
            del self._waiting[replied]
            self._answered[replied] = number
            return number, _read(message)
        before = self._answered.get(replied)
        if before is not None and self._node[before] == sender:
            return before, Surplus("the turn was already answered")
        if sender in self._last:
            return self._last[sender], Surplus("it answers a message that it was not sent")
        return None


def _is_of_superlink(message: Message) -> bool:
    """Whether the SuperLink reports that a node or a reply is not available."""
    return message.has_error() and message.error.code in _UNAVAILABLE


def _read(message: Message | Broken) -> Answer | Silence:
    if isinstance(message, Broken):
        return Silence("malformed", message.detail)
    if not message.has_error():
        return Answer(message.content)
    error = message.error
    said = shorten(one_line(error.reason or f"error {error.code} of Flower"), 300)
    return Silence("dropout" if _is_of_superlink(message) else "raised", said)
