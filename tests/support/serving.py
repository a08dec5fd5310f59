"""A real server of the dashboard, in a thread of this process or in a process of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import uvicorn

from mmfl.dashboard import Access, Dashboard
from mmfl.dashboard.app import bind
from support.asking import TOKEN, httpx


@contextmanager
def serve(folder: Path, port: int = 0) -> Iterator[str]:
    """A dashboard of a folder, up in this block; yields its address."""
    listener = bind("127.0.0.1", port)
    access = Access(token=TOKEN, port=listener.getsockname()[1])
    dashboard = Dashboard(folder, access)
    config = uvicorn.Config(
        dashboard.app, log_level="error", ws="none", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{access.port}"
    finally:
        dashboard.hub.close()
        server.should_exit = True
        thread.join()
        listener.close()


class Stream:
    """The events of a channel, as they come."""

    def __init__(self, address: str) -> None:
        self._events: SimpleQueue[tuple[str, Any] | None] = SimpleQueue()
        self._address = address
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        kind = ""
        try:
            with httpx.stream("GET", self._address, timeout=30) as answer:
                for line in answer.iter_lines():
                    name, _, value = line.partition(": ")
                    if name == "event":
                        kind = value
                    elif name == "data":
                        self._events.put((kind, json.loads(value)))
        except httpx.HTTPError:
            pass
        self._events.put(None)

    def next(self, patience: float = 20.0) -> tuple[str, Any] | None:
        """The next event; None at the end."""
        return self._events.get(timeout=patience)
