"""Keeps track of requests: which have to be sent, and which replies are due."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from mmfl.system.child import Message

__all__ = ["LATE", "LIVES", "Reply", "Requests"]

LATE = "timed out"
"""Why a request failed that took longer than its timeout."""

LIVES = 3
"""How many workers a request may cost before it is given up."""

Reply = tuple[Message, Any]
"""A reply, and the bytes or the array that belong to it."""


class Requests:
    """Requests 0, 1, ...: sent in the best order, delivered in this one.

    Args:
        order: The numbers of all requests, in the order in which they should start.
        request: From a request's number to the message.
        sizes: What each request occupies from when it is sent until its reply is delivered.
        room: How much requests may occupy together.
    """

    def __init__(
        self,
        order: Sequence[int],
        request: Callable[[int], Message],
        sizes: Sequence[int],
        room: int,
    ) -> None:
        self.delivered = 0
        self._todo = _Todo(order, sizes, room)
        self._request = request
        self._messages: dict[int, Message] = {}
        self._replies: dict[int, Reply] = {}
        self._deaths = [0] * len(order)

    def __len__(self) -> int:
        """How many requests no worker has."""
        return len(self._todo)

    @property
    def all_delivered(self) -> bool:
        """Whether nothing is left to be done."""
        return self.delivered == len(self._deaths)

    def take(self, near: int) -> int | None:
        """The best one to send now; if there is no room for it, one that is due before `near`."""
        return self._todo.take(near)

    def write(self, number: int) -> Message:
        """A request's message, made when it is sent first."""
        if number not in self._messages:
            self._messages[number] = self._request(number)
        return self._messages[number]

    def answer(self, number: int, reply: Reply) -> None:
        """A request has its reply."""
        self._replies[number] = reply
        self._messages.pop(number)

    def ask_again(self, numbers: Iterable[int]) -> None:
        """Put these back: their worker cannot answer them."""
        self._todo.again(numbers)

    def blame(self, number: int, *, late: bool) -> None:
        """Blame a request that ended its worker or took too long; in the end, give it up."""
        self._deaths[number] += 1
        if late or self._deaths[number] >= LIVES:
            self._todo.drop(number)
            why = LATE if late else f"ended {LIVES} worker processes"
            self._replies[number] = ({"failed": why}, b"")

    def deliver(self) -> Iterator[Reply]:
        """The replies that are due; what one occupies is free when the next is asked for."""
        while self.delivered in self._replies:
            yield self._replies.pop(self.delivered)
            self._todo.done(self.delivered)
            self.delivered += 1


class _Todo:
    """Requests that no worker has: sent in the best order, or by number if there is no room."""

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
        """Put these back."""
        for number in reversed(tuple(numbers)):
            self._ranked.appendleft(number)
            self._left.add(number)
            self._lowest = min(self._lowest, number)

    def drop(self, number: int) -> None:
        """This one is given up."""
        self._left.discard(number)
