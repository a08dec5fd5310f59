"""Fetches replies from a SuperLink, so that no reply can harm the others.

Flower's `pull_messages` rebuilds all replies that are there, one after the other. One that cannot
be rebuilt raises an error, and the replies before it are lost; one whose parts never arrive makes
all others wait; and a few bytes can name the same part a million times. Here each reply is fetched
by itself as its parts arrive, up to a limit, and who sent it is what the SuperLink says, not what
the reply says.

Other Grids, such as that of Flower's simulation, are asked for their messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx
from flwr.app import Message
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import (
    get_object_children_ids_from_object_content,
    get_object_type_from_object_content,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectUnavailableError,
    inflate_object_from_contents,
)
from flwr.superlink.grid import HttpGrid

from mmfl.errors import InputError, one_line, shorten
from mmfl.system.user_code import pass_on

__all__ = ["Arrival", "Broken", "Puller"]

_PARTS = 64
"""A reply has at most this many parts; an array has one for every 5 MiB, and one for itself."""

_AT_ONCE = 8
"""Parts that are fetched at the same time."""


@dataclass(frozen=True)
class Broken:
    """Why a reply cannot be read."""

    detail: str


class Arrival(NamedTuple):
    """A reply: to which message, from which node, and what it is."""

    replied: str
    sender: int
    message: Message | Broken


@dataclass
class _Parts:
    """A reply whose parts are arriving."""

    replied: str
    sender: int
    root: str
    names: list[str]
    limit: int
    contents: dict[str, bytes] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The parts that are not here yet."""
        return [name for name in self.names if name not in self.contents]


class Puller:
    """Fetches the replies to some messages, by and by.

    Args:
        grid: Flower's.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._arriving: dict[str, _Parts] = {}

    def pull(self, limits: Mapping[str, int]) -> Iterator[Arrival]:
        """What has arrived by now.

        Args:
            limits: From the id of each message that waits for a reply to the largest one, in bytes.
        """
        if not isinstance(self._grid, HttpGrid):
            for message in self._grid.pull_messages(list(limits)):
                metadata = message.metadata
                yield Arrival(metadata.reply_to_message_id, metadata.src_node_id, message)
            return
        client: Any = self._grid._runtime_client
        ids = [one for one in limits if one not in self._arriving]
        if ids:
            found = client.PullMessages(PullAppMessagesRequest(message_ids=ids))
            pairs = zip(found.messages_list, found.message_object_trees, strict=True)
            for message, tree in pairs:
                metadata = message.metadata
                replied = metadata.reply_to_message_id
                names = [part.object_id for part in iterate_object_tree(tree)]
                limit = limits.get(replied, 0)
                parts = _Parts(replied, metadata.src_node_id, metadata.message_id, names, limit)
                self._arriving[replied] = parts
        yield from self._finish(client)

    def _finish(self, client: Any) -> Iterator[Arrival]:
        """Fetch what is missing; the replies that are complete, or that never will be."""
        run: Any = self._grid.run
        node = getattr(self._grid, "node")  # noqa: B009
        fetch = make_pull_object_fn_protobuf(client.PullObject, node, run.run_id)
        arriving = list(self._arriving.values())
        if not arriving:
            return
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            states = list(pool.map(lambda parts: _fetch_parts(parts, fetch), arriving))
        for parts, state in zip(arriving, states, strict=True):
            if state is None:
                continue
            del self._arriving[parts.replied]
            request = ConfirmMessageReceivedRequest(
                node=node, run_id=run.run_id, message_object_id=parts.root
            )
            client.ConfirmMessageReceived(request)
            yield Arrival(parts.replied, parts.sender, state)


def _fetch_parts(parts: _Parts, fetch: Callable[[str], bytes]) -> Message | Broken | None:
    """The reply if it is complete or broken; None if it has to wait."""
    try:
        if len(parts.names) > _PARTS:
            raise InputError(f"the reply has {len(parts.names):,} parts, more than {_PARTS}")
        for name in parts.missing:
            parts.contents[name] = fetch(name)
            _check_size(parts)
        return _rebuild(parts)
    except (ObjectUnavailableError, httpx.HTTPError):
        return None
    except Exception as error:  # whatever the node has made of its reply
        pass_on(error)
        said = one_line(error) if isinstance(error, InputError) else type(error).__name__
        return Broken(shorten(f"the reply cannot be read: {said}", 300))


def _check_size(parts: _Parts) -> None:
    size = sum(map(len, parts.contents.values()))
    if size > parts.limit:
        raise InputError(f"it has more than {parts.limit:,} bytes")


def _rebuild(parts: _Parts) -> Message:
    """The reply from its parts; refused if it would be larger than they are."""
    for content in parts.contents.values():
        if get_object_type_from_object_content(content) == "Array":
            _check_chunks(content, parts.contents, parts.limit)
    message = inflate_object_from_contents(parts.root, dict(parts.contents))
    if not isinstance(message, Message):
        raise InputError(f"it is {type(message).__name__}, not a message")
    return message


def _check_chunks(content: bytes, contents: Mapping[str, bytes], limit: int) -> None:
    """An array names its chunks by number, and may name one any number of times."""
    chunks: Sequence[str] = get_object_children_ids_from_object_content(content)
    named = json.loads(content.partition(b"\x00")[2])["arraychunk_ids"]
    sizes = [len(contents[chunk]) for chunk in chunks]
    if sum(sizes[number] for number in named) > limit:
        raise InputError(f"an array of it has more than {limit:,} bytes")
