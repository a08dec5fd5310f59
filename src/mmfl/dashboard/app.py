"""The dashboard as an ASGI application, and the server that runs it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from mmfl.dashboard.access import Access
from mmfl.dashboard.acting import ActingPages
from mmfl.dashboard.guard import Guard
from mmfl.dashboard.library import Library
from mmfl.dashboard.live import Hub
from mmfl.dashboard.pages import Pages
from mmfl.dashboard.rendering import Renderer
from mmfl.errors import InputError, MmflError, printable

__all__ = ["Dashboard", "bind", "serve"]

_TITLES = {400: "That does not work", 403: "Not permitted", 404: "Nothing is here"}


class Dashboard:
    """The application.

    Attributes:
        library: The runs.
        hub: Sends what changes to the pages that are open.
        acting: What needs the token.
        app: As a server calls it.
    """

    def __init__(self, root: Path, access: Access) -> None:
        self.library = Library(root)
        renderer = Renderer(printable(str(root)))
        self.hub = Hub(self.library, renderer)
        pages = Pages(self.library, renderer, access)
        self.acting = acting = ActingPages(self.library, renderer, access)
        routes = [
            Route("/", pages.list),
            Route("/files/{name}", pages.file),
            Route("/runs/{id}", pages.run),
            Route("/runs/{id}/auction", pages.auction),
            Route("/runs/{id}/allocation", pages.allocation),
            Route("/comparisons/{id}", pages.comparison),
            Route("/compare", pages.compare),
            Route("/what-if", pages.what_if),
            *acting.routes(),
            Route("/events/{channel:path}", self.hub.stream),
        ]
        inner = Starlette(
            routes=routes,
            lifespan=self._live,
            exception_handlers={
                HTTPException: self._explain,
                MmflError: self._apologise,
                Exception: self._apologise,
            },
        )
        self._renderer = renderer
        self.app = Guard(inner, access, renderer)

    @asynccontextmanager
    async def _live(self, app: object) -> AsyncIterator[None]:
        """Poll the runs while the server is up."""
        task = asyncio.create_task(self.hub.poll_forever())
        try:
            yield
        finally:
            task.cancel()
            self.acting.processes.close()

    def _explain(self, request: Request, error: Exception) -> Response:
        """The page of a mistake."""
        assert isinstance(error, HTTPException)
        title = _TITLES.get(error.status_code, "That does not work")
        text = error.detail if error.status_code != 405 else "This address takes no such request."
        if request.headers.get("x-part"):  # a script asks, and shows it in its page
            return PlainTextResponse(text, error.status_code)
        return self._say(title, text, error.status_code)

    def _apologise(self, request: Request, error: Exception) -> Response:
        """The page of an error of ours, or of a run that cannot be read."""
        text = str(error) if isinstance(error, MmflError) else f"An error: {type(error).__name__}."
        return self._say("This page could not be made", text, 500)

    def _say(self, title: str, text: str, status: int) -> Response:
        page = self._renderer.page("message", here="", title=title, text=text)
        return HTMLResponse(page, status)


def bind(address: str, port: int | None, first: int = 8765) -> socket.socket:
    """A socket at an address; without a port, at the first free one of a few."""
    ports = [port] if port is not None else [*range(first, first + 20), 0]
    for number in ports:
        try:
            return socket.create_server(
                (address, number), family=socket.AF_INET6 if ":" in address else socket.AF_INET
            )
        except OSError as error:
            problem = error.strerror or str(error)
        except OverflowError:
            raise InputError(f"port must be between 0 and 65535, got {port}") from None
    raise InputError(f"host: cannot listen at {address}, port {port}: {problem}")


class _Server(uvicorn.Server):
    """A server that ends the streams of open pages before it waits for them."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        self._hub.close()
        await super().shutdown(sockets)


def serve(root: Path, access: Access, port: int | None, announce: Callable[[Access], None]) -> None:
    """Serve the dashboard until a signal ends it.

    Args:
        root: The folder of runs.
        access: Who may ask for what.
        port: Where to listen; None = a free one.
        announce: Called when the server is ready, with its port.
    """
    listener = bind(access.address, port)
    with listener:
        access = replace(access, port=listener.getsockname()[1])
        dashboard = Dashboard(root, access)
        config = uvicorn.Config(
            dashboard.app,
            access_log=False,
            log_level="error",
            server_header=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=2,
            limit_concurrency=1000,
        )
        announce(access)
        _Server(config, dashboard.hub).run([listener])
