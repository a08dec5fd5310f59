"""Asks the dashboard without a server and without a browser."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx", reason="httpx is not installed")
pytest.importorskip("starlette", reason="starlette is not installed: pip install 'mmfl[dashboard]'")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'mmfl[dashboard]'")

from mmfl.dashboard import Access, Dashboard  # noqa: E402

TOKEN = "a token for tests, long enough"
HOST = "http://127.0.0.1:8765"


class Visitor:
    """A browser that remembers cookies, and asks a dashboard of its own.

    Attributes:
        dashboard: The dashboard.
        cookies: What it remembers.
    """

    def __init__(self, folder: Path, **access: Any) -> None:
        self.access = Access(**({"token": TOKEN, "port": 8765} | access))
        self.dashboard = Dashboard(folder, self.access)
        self.dashboard.library.poll()
        self.cookies: dict[str, str] = {}

    def get(self, path: str, **headers: str) -> Any:
        """Ask for a page."""
        return self.ask("GET", path, headers)

    def post(self, path: str, form: dict[str, str], **headers: str) -> Any:
        """Send a form, as one of our own pages does."""
        return self.ask("POST", path, {"origin": HOST} | headers, form)

    def ask(self, method: str, path: str, headers: dict[str, str], form: Any = None) -> Any:
        """Send a request, and take what it answers."""

        async def send() -> Any:
            transport = httpx.ASGITransport(self.dashboard.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=HOST) as client:
                known = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
                sent = {name.replace("_", "-"): value for name, value in headers.items()}
                sent |= {"cookie": known} if known else {}
                return await client.request(method, path, headers=sent, data=form)

        answer = asyncio.run(send())
        self.cookies |= dict(answer.cookies)
        return answer

    def unlock(self) -> None:
        """Show the token."""
        assert self.get(f"/?token={TOKEN.replace(' ', '%20')}").status_code == 303

    def poll(self) -> set[str]:
        """Have the dashboard look at its folder now."""
        return self.dashboard.library.poll(now=True)

    def find(self, name: str) -> str:
        """The id of a run, by a part of its path."""
        snapshot = self.dashboard.library.snapshot
        paths = {key: run.folder.relative_to(snapshot.root) for key, run in snapshot.runs.items()}
        (key,) = [key for key, path in paths.items() if name in str(path)]
        return key


def text_of(html: str) -> str:
    """What a person reads on a page."""
    html = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())
