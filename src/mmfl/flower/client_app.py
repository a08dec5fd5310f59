"""The ClientApp: answers what the server asks, with what the node's own configuration names.

A SuperNode loads it in a new process for every message. `mmfl.flower.node_worker` answers with the
same code from one process that stays.
"""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from mmfl.engines.flower import Node, NodeSettings, describe_mistake
from mmfl.errors import InputError

__all__ = ["NodeApp", "app"]

app = ClientApp()


class NodeApp:
    """Answers the messages of one node."""

    def __init__(self) -> None:
        self._node: Node | None = None

    def __call__(self, message: Message, context: Context) -> Message:
        """The reply to a message."""
        kind = message.metadata.message_type.partition(".")[0]
        try:
            if self._node is None:
                self._node = Node(NodeSettings.of(context.node_config))
            content = self._node.answer(kind, message.content)
        except InputError as error:
            content = describe_mistake(str(error))
        return Message(content, reply_to=message)


_answer = NodeApp()
app.query()(_answer)
app.train()(_answer)
app.evaluate()(_answer)
