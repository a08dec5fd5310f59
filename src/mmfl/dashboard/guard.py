"""Stands before every page: refuses what `mmfl.dashboard.access` does not permit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mmfl.dashboard.access import HEADERS, Access
from mmfl.dashboard.rendering import Renderer

__all__ = ["Guard", "read_form"]

_PATIENCE = 0.3
"""Seconds before a wrong token is answered."""

_LONGEST = 1 << 20
"""The most bytes that a form may have."""


class Guard:
    """An application behind the rules of an `Access`."""

    def __init__(self, app: ASGIApp, access: Access, renderer: Renderer) -> None:
        self._app = app
        self._access = access
        self._renderer = renderer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        answer = await self._answer(Request(scope, receive))
        await (answer or self._app)(scope, receive, send_safely)

    async def _answer(self, request: Request) -> Response | None:
        """What is said instead of the application; None if the request is permitted."""
        refusal = self._access.refuse_foreign(request.method, request.headers.items())
        if refusal is not None:
            return PlainTextResponse(f"{refusal.text}\n", refusal.status)
        if request.method == "POST" and request.url.path == "/unlock":
            form = await read_form(request)
            return await self._unlock(form.get("token", ""), "/")
        if request.url.path == "/unlock":
            return self._ask("", 200)
        if request.method == "GET" and "token" in request.query_params:
            rest = [(k, v) for k, v in request.query_params.multi_items() if k != "token"]
            query = f"?{urlencode(rest)}" if rest else ""
            path = "/" + request.url.path.lstrip("/\\")  # never another host
            return await self._unlock(request.query_params["token"], path + query)
        shown = request.url.path.startswith("/files/")
        if self._access.guarded and not shown and not self._access.is_known(request.cookies):
            return self._ask("", 401)
        return None

    async def _unlock(self, token: str, where: str) -> Response:
        """Remember a browser that knows the token."""
        if not self._access.is_token(token):
            await asyncio.sleep(_PATIENCE)
            return self._ask("That is not the token.", 403)
        answer = RedirectResponse(where, 303)
        answer.set_cookie(
            self._access.cookie, self._access.session, httponly=True, samesite="strict"
        )
        return answer

    def _ask(self, problem: str, status: int) -> Response:
        return HTMLResponse(self._renderer.page("unlock", here="", problem=problem), status)


async def read_form(request: Request) -> Mapping[str, str]:
    """The fields of a form, the first of each name; nothing if it is not one, or is too long."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        return {}
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LONGEST:
            return {}
    found: dict[str, Any] = parse_qs(
        body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=100
    )
    return {name: values[0] for name, values in found.items()}
