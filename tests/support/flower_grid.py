"""A Flower federation in this process: a Grid whose nodes are functions, for fast tests."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flwr.app import Error, Message
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from mmfl.engines.flower import FlowerEngine, Node, NodeSettings
from mmfl.experiment import Experiment, Flower

__all__ = ["FakeGrid", "open_flower"]


class FakeGrid(Grid):
    """Nodes that answer at once, in a random but fixed order.

    Args:
        clients: How many nodes there are, as clients 0, 1, ...
        change: From a node's number to what it does with a message and its honest reply.
        configs: From a node's number to its own configuration, besides its client.
    """

    def __init__(
        self,
        clients: int,
        *,
        change: Mapping[int, Callable[[Message, Message], list[Message]]] | None = None,
        configs: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self.change = dict(change or {})
        self.nodes: dict[int, Node | Callable[[Message], Message]] = {}
        self.sent: list[Message] = []
        self.online = True
        self._answers: dict[str, list[Message]] = {}  # by the id of the message that caused them
        self._random = random.Random(0)
        self._numbers = itertools.count(1)
        for client in range(clients):
            self.join(client, **(configs or {}).get(client, {}))

    def join(self, client: int, node: int | None = None, **config: Any) -> int:
        """A node joins; returns its id."""
        node = 100 + client if node is None else node
        self.nodes[node] = Node(NodeSettings.of({"partition-id": client, **config}))
        return node

    def leave(self, client: int) -> None:
        """A node leaves."""
        del self.nodes[100 + client]

    def set_run(self, run: object) -> None:
        """There is one run."""

    @property
    def run(self) -> Any:
        """There is one run."""
        return None

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        ids = list(self.push_messages(messages))
        found: list[Message] = []
        while some := list(self.pull_messages(ids)):
            found += some
        return found

    def get_node_ids(self) -> Iterable[int]:
        self._check()
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        self._check()
        ids = []
        for message in messages:
            identity = f"message {next(self._numbers)}"
            message.metadata.__dict__["_message_id"] = identity
            self.sent.append(message)
            ids.append(identity)
            node = self.nodes.get(message.metadata.dst_node_id)
            if node is None:
                gone = Message(Error(5, "Node Unavailable"), reply_to=message)
                self._answers[identity] = [gone]
                continue
            if isinstance(node, Node):
                content = node.answer(message.metadata.message_type, message.content)
                reply = Message(content, reply_to=message)
            else:
                reply = node(message)
            change = self.change.get(message.metadata.dst_node_id - 100)
            asked = message.metadata.message_type == "query"
            sent = [reply] if asked or change is None else change(message, reply)
            self._answers[identity] = sent
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        self._check()
        here = [identity for identity in message_ids if identity in self._answers]
        self._random.shuffle(here)
        return [
            one for identity in here[: len(here) // 2 + 1] for one in self._answers.pop(identity)
        ]

    def _check(self) -> None:
        if not self.online:
            raise ConnectionError("the SuperLink is away")


def open_flower(experiment: Experiment, grid: FakeGrid, **settings: Any) -> FlowerEngine:
    """An engine over a fake Grid, which does not wait long."""
    return FlowerEngine(
        experiment, None, grid, Flower(**({"patience": 5.0, "timeout": 2.0} | settings))
    )
