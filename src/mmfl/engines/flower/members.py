"""Who is there: nodes come and go, and each serves one client.

Every node that appears is asked once which client it is, how many examples it holds of each task,
and what it asks for its work. Between two rounds the federation follows what is known by then.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import RecordDict

from mmfl.config import short
from mmfl.engines.flower.nodes import Answer, Nodes, Pending, Request, Silence
from mmfl.engines.flower.records import unpack_table
from mmfl.errors import EngineError, InputError, MmflWarning, plural, shorten
from mmfl.system import calls
from mmfl.system.user_code import pass_on

__all__ = ["FlowerFederation", "Member", "Members"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_QUERY = 60.0
"""Seconds that a node has to say who it is, before it is asked again."""

_ROOM = 1 << 20
"""The largest answer to a query, in bytes."""

_LOOK = 0.5
"""Seconds between two looks at who is there, before round one."""


@dataclass(frozen=True)
class Member:
    """A node that serves a client.

    Attributes:
        client: Which.
        holds: How many examples it holds, by task.
        bids: What it asks, by task; tasks that it does not name are missing.
    """

    client: int
    holds: Mapping[str, int]
    bids: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class FlowerFederation:
    """The clients whose nodes are connected, with what they reported; see `Federation`.

    Attributes:
        tasks: The tasks' names.
        clients: All ids that a node may serve.
        sums: See `Federation`.
        held: (K, S) examples; 0 of a client without a node.
        bids: (K, S) what they ask; NaN where a node does not say.
        names: None are known.
    """

    tasks: tuple[str, ...]
    clients: range
    sums: Mapping[str, tuple[int, ...]]
    held: Ints
    bids: Floats
    names: tuple[str, ...] = ()

    def sizes(self, clients: Ints) -> Ints:
        """(n, S) examples that each of these clients reported."""
        return self.held[clients]

    def able(self, task: str | None = None) -> Ints | None:
        """Places of those that hold data of the task, or of any; None = all do."""
        held = self.held.any(axis=1) if task is None else self.held[:, self.tasks.index(task)] > 0
        return None if held.all() else np.flatnonzero(held)


class Members:
    """The nodes and their clients.

    Args:
        nodes: Who is asked.
        query: Makes the question to a node.
        count: How many clients there may be.
        tasks: The tasks' names.
        most: No client counts with more examples of a task than this.
    """

    def __init__(
        self,
        nodes: Nodes,
        query: Callable[[], RecordDict],
        count: int,
        tasks: Sequence[str],
        most: int,
    ) -> None:
        self._nodes, self._query = nodes, query
        self._count, self._tasks, self._most = count, tuple(tasks), most
        self._members: dict[int, Member] = {}
        self._clients: dict[int, int] = {}  # from client to node
        self._asked: list[tuple[Pending, list[int]]] = []
        self._refused: dict[int, str] = {}
        self.changed = True

    def nodes_by_client(self) -> dict[int, int]:
        """From client to node."""
        return dict(self._clients)

    def wait(self, wanted: int, seconds: float) -> None:
        """Wait for this many clients; `EngineError` if they do not come in time."""
        until = calls.monotonic() + seconds
        while True:
            self.look()
            if len(self._members) >= wanted:
                return
            if calls.monotonic() >= until:
                here = plural(len(self._members), "client")
                why = f"; {next(iter(self._refused.values()))}" if self._refused else ""
                raise EngineError(
                    f"only {here} of the {wanted} that engine.nodes asks for connected within "
                    f"engine.patience = {seconds:g} seconds{why}"
                )
            calls.sleep(min(_LOOK, max(0.0, until - calls.monotonic())))

    def look(self) -> None:
        """Take note of who has come, answered or left by now; does not wait."""
        for pending, nodes in self._asked:
            for number, reply in pending.pull():
                if isinstance(reply, Answer | Silence):
                    self._hear(nodes[number], reply)
        here = self._nodes.ids()
        if here is None:  # nobody knows
            return
        present = set(here)
        for node in self._members.keys() - present:
            del self._clients[self._members.pop(node).client]
            self.changed = True
        for node in self._refused.keys() - present:
            del self._refused[node]
        now = calls.monotonic()
        self._asked = [one for one in self._asked if one[0].waiting and now < one[0].deadline]
        known = {node for _, nodes in self._asked for node in nodes}
        known |= self._members.keys() | self._refused.keys()
        new = [node for node in here if node not in known]
        if new:
            requests = [Request(node, "query", self._query, _ROOM) for node in new]
            self._asked.append((self._nodes.start(requests, _QUERY), new))

    def federation(self, sums: Mapping[str, tuple[int, ...]]) -> FlowerFederation:
        """The clients as they are now."""
        shape = self._count, len(self._tasks)
        held, bids = np.zeros(shape, np.int64), np.full(shape, np.nan)
        for member in self._members.values():
            for column, task in enumerate(self._tasks):
                held[member.client, column] = min(member.holds.get(task, 0), self._most)
                bids[member.client, column] = member.bids.get(task, math.nan)
        held.flags.writeable = bids.flags.writeable = False
        self.changed = False
        return FlowerFederation(self._tasks, range(self._count), sums, held, bids)

    def _hear(self, node: int, reply: Answer | Silence) -> None:
        try:
            if isinstance(reply, Silence):
                raise InputError(reply.detail)
            member = self._read(unpack_table(reply.content))
        except Exception as error:  # whatever a node sends
            pass_on(error)
            self._refuse(node, shorten(str(error), 300))
            return
        taken = self._clients.get(member.client)
        if taken is not None:
            self._refuse(node, f"client {member.client} is served by node {taken} already")
            return
        self._members[node], self._clients[member.client] = member, node
        self.changed = True

    def _refuse(self, node: int, why: str) -> None:
        self._refused[node] = why = f"node {node} is left out: {why}"
        warnings.warn(why, MmflWarning, stacklevel=2)

    def _read(self, table: Mapping[str, Any]) -> Member:
        """What a node says of itself, checked."""
        if "failed" in table:
            raise InputError(str(table["failed"][-1]))
        client, holds, bids = table.get("client"), table.get("holds"), table.get("bids")
        if type(client) is not int or not 0 <= client < self._count:
            raise InputError(
                f"it claims to be client {short(client)}, but there are 0 to {self._count - 1}"
            )
        if not isinstance(holds, dict) or not isinstance(bids, dict):
            raise InputError("it does not say what it holds")
        for task, size in holds.items():
            if task not in self._tasks or type(size) is not int or size < 0:
                raise InputError(f"it claims {short(size)} examples of task {short(task)}")
        for task, bid in bids.items():
            if task not in self._tasks or not isinstance(bid, float | int) or not bid > 0:
                raise InputError(f"it bids {short(bid)} for task {short(task)}")
        return Member(client, holds, {task: float(bid) for task, bid in bids.items()})
