"""A node that gives another bad reply in every round: python hostile_node.py ADDRESS NOTES [forged]

It takes the place of `mmfl.flower.node_worker` at a SuperNode. The reply of round t is the t-th of
`support.bad_replies`; it writes which that was. Some are made below Flower's own objects.
"""

from __future__ import annotations

import sys
from pathlib import Path

from flwr.app import Context, Message
from flwr.app.message import Array
from flwr.supercore.inflatable.inflatable_object import add_header_to_object_body

from mmfl.flower.client_app import NodeApp
from mmfl.flower.node_worker import NodeWorker
from support.bad_replies import BAD

NAMES = [name for name in BAD if name not in ("silence", "its node left")]
FORGED: list[str] = []


class Amplified(Array):
    """An array that names its only part a million times."""

    def deflate(self) -> bytes:
        body = super().deflate().partition(b"\x00")[2]
        body = body.replace(b"[0]", b"[" + b",".join([b"0"] * 1_000_000) + b"]")
        return add_header_to_object_body(object_body=body, obj=self)


class Unreadable(Array):
    """An array whose description is not JSON."""

    def deflate(self) -> bytes:
        return add_header_to_object_body(object_body=b"{", obj=self)


class Typed(Array):
    """An array that claims to be a type that does not exist."""

    def deflate(self) -> bytes:
        return super().deflate().replace(b"Array", b"Arrow", 1)


class Forged:
    """Below Flower's objects: what the server rebuilds."""

    def __init__(self, kind: type[Array]) -> None:
        self._kind = kind

    def __call__(self, message: Message, reply: Message) -> list[Message]:
        array = reply.content.array_records["delta"]["flat"]
        array.children  # noqa: B018  (is kept)
        array.__class__ = self._kind
        array.__dict__.pop("_object_id", None)
        return [reply]


for each in (Amplified, Unreadable, Typed):
    each.__name__ = each.__qualname__ = "Array"
    BAD[each.__doc__] = ("malformed", Forged(each))
    FORGED.append(each.__doc__)


class HostileApp(NodeApp):
    """Honest to queries, and hostile in training."""

    def __init__(self, notes: Path, names: list[str]) -> None:
        super().__init__()
        self._notes, self._names = notes, names

    def __call__(self, message: Message, context: Context) -> Message:
        reply = super().__call__(message, context)
        if message.metadata.message_type != "train":
            return reply
        number = int(message.metadata.group_id) - 1
        if number >= len(self._names):
            return reply
        name = self._names[number]
        with self._notes.open("a") as file:
            file.write(f"{name}\n")
        (bad,) = BAD[name][1](message, reply)
        return bad


def main() -> None:
    """Serve the SuperNode at that address."""
    worker = NodeWorker(sys.argv[1], None)
    worker._app = HostileApp(Path(sys.argv[2]), FORGED if "forged" in sys.argv else NAMES)
    worker.serve()


if __name__ == "__main__":
    main()
