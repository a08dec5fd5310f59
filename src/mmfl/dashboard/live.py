"""Sends what changes to the pages that are open, as server-sent events.

The runs are looked at once a second, not once for each page. What a page of a run shows is read and
rendered once, and the same bytes go to all pages that show it. Every event is complete: a page that
was away, or whose server was restarted, needs only the next one.
"""

from __future__ import annotations

import asyncio
import json
import threading
import warnings
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mmfl.dashboard.comparison_page import describe_comparison
from mmfl.dashboard.history import History
from mmfl.dashboard.library import Library, Snapshot, make_id
from mmfl.dashboard.listing import describe_cells, mark_known
from mmfl.dashboard.rendering import Renderer
from mmfl.dashboard.run_page import describe_acts, describe_now
from mmfl.errors import MmflError, MmflWarning, one_line
from mmfl.runs import Overview
from mmfl.system import calls

__all__ = ["Hub"]

_EVERY = 1.0
"""Seconds between two looks at the runs."""

_ALIVE = 15.0
"""Seconds after which a silent stream says that it is alive."""

_WAITING = 50
"""So many events may wait for a page; a page that is slower is cut off, and asks again."""

_PAGES = 500
"""How many streams there may be."""

_RECENT = 30.0
"""Seconds; a page is not older than that when its stream begins."""

_RECENT = 30.0
"""Seconds; a page is not older than that when its stream begins."""

_Queue = asyncio.Queue[bytes | None]


class Hub:
    """The streams of all open pages, by channel: ``list``, or ``runs/ID``."""

    def __init__(self, library: Library, renderer: Renderer) -> None:
        self._library = library
        self._renderer = renderer
        self._streams: dict[str, set[_Queue]] = {}
        self._made: dict[str, tuple[Overview, bytes, History]] = {}
        self._making = threading.Lock()
        self._closed = False

    async def stream(self, request: Request) -> Response:
        """The stream of a channel."""
        channel = request.path_params["channel"]
        if sum(map(len, self._streams.values())) >= _PAGES:
            raise HTTPException(503, "Too many pages are open.")
        if await run_in_threadpool(self._make_event, channel) is None:
            raise HTTPException(404, "There is no such stream.")
        return StreamingResponse(
            self._send(channel),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    async def _send(self, channel: str) -> AsyncIterator[bytes]:
        queue: _Queue = asyncio.Queue(_WAITING)
        self._streams.setdefault(channel, set()).add(queue)
        try:
            yield b"retry: 1000\n\n"
            first = await run_in_threadpool(self._make_event, channel)
            yield first or _encode("gone", {})
            while not self._closed:
                try:
                    event = await asyncio.wait_for(queue.get(), _ALIVE)
                except TimeoutError:
                    yield b": alive\n\n"
                    continue
                if event is None:
                    return
                yield event
        finally:
            left = self._streams.get(channel, set())
            left.discard(queue)
            if not left:
                self._streams.pop(channel, None)
                self._made.pop(channel, None)

    async def poll_forever(self) -> None:
        """Look at the runs once a second, and send what has changed."""
        while True:
            try:
                changed = await run_in_threadpool(self._library.poll)
                if changed:
                    await self._publish(changed)
            except (MmflError, OSError) as error:
                warnings.warn(f"the runs cannot be read: {error}", MmflWarning, stacklevel=1)
            await asyncio.sleep(_EVERY)

    async def _publish(self, changed: set[str]) -> None:
        for channel in list(self._streams):
            key = channel.partition("/")[2]
            if channel != "list" and key not in changed and not self._is_part(key, changed):
                continue
            try:
                event = await run_in_threadpool(self._make_event, channel, changed)
            except Exception as error:  # one run must not end the streams of all others
                warnings.warn(f"{channel}: {one_line(error)}", MmflWarning, stacklevel=1)
                continue
            self._deliver(channel, event or _encode("gone", {}))

    def _is_part(self, key: str, changed: set[str]) -> bool:
        """Whether a run that has changed belongs to the comparison with this id."""
        snapshot = self._library.snapshot
        return any(make_id(run.folder, snapshot.root) in changed for run in snapshot.find(key))

    def _deliver(self, channel: str, event: bytes) -> None:
        for queue in self._streams.get(channel, ()):
            if queue.full():
                _empty(queue)
                queue.put_nowait(None)  # the stream ends, and its page asks again
            else:
                queue.put_nowait(event)

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        for queues in self._streams.values():
            for queue in queues:
                _empty(queue)
                queue.put_nowait(None)

    def _make_event(self, channel: str, changed: Collection[str] = ()) -> bytes | None:
        """What pages of a channel need to know now; None if there is nothing to show.

        Args:
            channel: Whose pages.
            changed: The runs that have changed; if there are none, those that did recently.
        """
        kind, _, key = channel.partition("/")
        snapshot = self._library.snapshot
        if channel == "list":
            return self._make_rows(snapshot, changed or _find_recent(snapshot))
        if kind == "runs" and key in snapshot.runs:
            with self._making:
                return self._make_run(channel, snapshot.runs[key])
        return self._make_comparison(snapshot, key) if kind == "comparisons" else None

    def _make_comparison(self, snapshot: Snapshot, key: str) -> bytes | None:
        """What the page of a comparison shows."""
        found = describe_comparison(snapshot, key)
        if found is None:
            return None
        content = found.pop("content")
        names = ("summary", "matrix")
        parts = {name: self._renderer.part("comparison_parts", name, found) for name in names}
        return _encode("page", {"parts": parts, "content": content})

    def _make_rows(self, snapshot: Snapshot, changed: Collection[str]) -> bytes:
        """The cells of the lines with runs that have changed."""
        rows, part = {}, self._renderer.part
        folders = {snapshot.runs[key].folder for key in changed if key in snapshot.runs}
        lines = [
            line for every in (False, True) for line in snapshot.lines(every=every, changed=changed)
        ]
        for line in lines:
            if folders.isdisjoint(run.folder for run in line.runs):
                continue
            cells = describe_cells(line)
            names = {"state": "state_cell", "rounds": "rounds_cell", "curve": "curve_cell"}
            html = {name: part("runs_parts", macro, cells) for name, macro in names.items()}
            texts = {"worst": cells["worst"], "mean": cells["mean"]}
            rows[make_id(line.folder, snapshot.root)] = html | texts
        known = mark_known(snapshot) if snapshot.complete else ""
        return _encode("rows", {"known": known, "rows": rows})

    def _make_run(self, channel: str, overview: Overview) -> bytes:
        """What the page of a run shows; made once for each state of the run."""
        known = self._made.get(channel)
        if known is not None and known[0] is overview:
            return known[1]
        history = known[2] if known is not None else History(overview.folder)
        run, content = describe_now(self._library.root, overview, history)
        names = ("summary", "table", "clients", "people", "failures")
        parts = {name: self._renderer.part("run_parts", name, run) for name in names}
        acts = describe_acts(overview)
        event = _encode("page", {"parts": parts, "content": content, "acts": acts})
        self._made[channel] = (overview, event, history)
        return event


def _find_recent(snapshot: Snapshot) -> list[str]:
    """The runs that may have changed since a page was made."""
    since = calls.now() - _RECENT
    return [
        key for key, run in snapshot.runs.items() if run.state == "running" or run.changed > since
    ]


def _encode(kind: str, about: Mapping[str, Any]) -> bytes:
    """An event; JSON has no line breaks."""
    text = json.dumps(about, separators=(",", ":"), allow_nan=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()


def _empty(queue: _Queue) -> None:
    while not queue.empty():
        queue.get_nowait()
