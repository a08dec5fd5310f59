"""The pages and forms that act; each needs the token."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from mmfl.dashboard.access import Access
from mmfl.dashboard.acting.forecasts import forecast, hold_auction
from mmfl.dashboard.acting.processes import Processes, check_name
from mmfl.dashboard.guard import read_form
from mmfl.dashboard.library import Library, make_id, refuse_outside
from mmfl.dashboard.rendering import Renderer
from mmfl.errors import ConfigError, MmflError
from mmfl.runs import Overview
from mmfl.system.files import SETTINGS, read_text

__all__ = ["ActingPages"]

_EXAMPLE = """\
rounds = 20

[clients]
count = 40
active = 0.1

[local]
epochs = 2
lr = 0.05

[allocator]
kind = "fed_fair"
alpha = 3.0

[[tasks]]
name = "fashion"
dataset = "fashion_mnist_small"
model = { kind = "cnn", channels = [8, 16], dense = 64 }

[[tasks]]
name = "letters"
dataset = "letters"
model = { kind = "mlp", hidden = [64] }
"""

Handler = Callable[[Request], Awaitable[Response]]


class ActingPages:
    """What a person who knows the token may do."""

    def __init__(self, library: Library, renderer: Renderer, access: Access) -> None:
        self._library = library
        self._renderer = renderer
        self._access = access
        self.processes = Processes()
        self._forecasting = threading.Lock()

    def routes(self) -> list[Route]:
        """Where they are."""
        return [
            Route("/new", self._lock(self.show_form), methods=["GET"]),
            Route("/new", self._lock(self.check_or_start), methods=["POST"]),
            Route("/jobs/{name}", self._lock(self.show_job), methods=["GET"]),
            Route("/runs/{id}/stop", self._lock(self.stop), methods=["POST"]),
            Route("/runs/{id}/resume", self._lock(self.resume), methods=["POST"]),
            Route("/runs/{id}/forecast", self._lock(self.forecast), methods=["POST"]),
            Route("/runs/{id}/auction/again", self._lock(self.hold_auction), methods=["POST"]),
        ]

    def _lock(self, handler: Handler) -> Handler:
        """Ask for the token first."""

        async def locked(request: Request) -> Response:
            if not self._access.is_known(request.cookies):
                page = self._renderer.page("unlock", here="", problem="")
                return HTMLResponse(page, 403)
            return await handler(request)

        return locked

    async def show_form(self, request: Request) -> Response:
        """The form for a new run; with ``from``, it holds the experiment of a run."""
        text, wanted = _EXAMPLE, request.query_params.get("from")
        if wanted is not None:
            run = self._find(wanted)
            path = run.folder / "experiment.toml"
            try:
                text = await run_in_threadpool(read_text, path, limit=SETTINGS)
            except (OSError, UnicodeError) as error:
                said = getattr(error, "strerror", None) or "it is not UTF-8"
                raise HTTPException(400, f"The experiment cannot be read: {said}.") from None
        return self._form(text, "")

    def _form(self, text: str, name: str, status: int = 200, **said: Any) -> Response:
        values = {"mistakes": (), "valid": "", "started": False} | said
        page = self._renderer.page("new", here="new", text=text, name=name, **values)
        return HTMLResponse(page, status)

    async def check_or_start(self, request: Request) -> Response:
        """Check an experiment, or start a run of it."""
        form = await read_form(request)
        text, name = form.get("text", "").replace("\r\n", "\n"), form.get("name", "").strip()
        try:
            folder = check_name(name, self._library.root)
            if form.get("do") == "start":
                await run_in_threadpool(self.processes.start, text, folder)
                return RedirectResponse(f"/jobs/{name}", 303)
            valid, said = await run_in_threadpool(self.processes.check, text)
        except ConfigError as error:
            return self._form(text, name, 400, mistakes=error.mistakes)
        except MmflError as error:
            return self._form(text, name, 400, mistakes=(str(error),))
        if not valid:
            return self._form(text, name, 400, mistakes=said.splitlines())
        return self._form(text, name, valid=said)

    async def show_job(self, request: Request) -> Response:
        """A run that is about to start; when it has started, its own page."""
        name = request.path_params["name"]
        folder = self._library.root / name
        job = self.processes.find(folder)
        if job is None:
            raise HTTPException(404, "No such run was started here.")
        await run_in_threadpool(self._library.poll, now=True)
        key = make_id(folder, self._library.root)
        run = self._library.snapshot.runs.get(key)
        there = run is not None and (run.rounds or job.ended)
        if there and not job.problem:
            return RedirectResponse(f"/runs/{key}", 303)
        page = self._renderer.page(
            "job", here="new", name=name, problem=job.problem, id=key if run is not None else ""
        )
        return HTMLResponse(page)

    async def stop(self, request: Request) -> Response:
        """Stop a run."""
        run = self._find(request.path_params["id"])
        await self._act(self.processes.stop, run)
        return await self._back(request, lambda now: now.state != "running")

    async def resume(self, request: Request) -> Response:
        """Resume a run."""
        run = self._find(request.path_params["id"])
        await self._act(self.processes.resume, run)
        job = self.processes.find(run.folder)

        def is_settled(now: Overview) -> bool:
            return now.state == "running" or job is None or job.ended

        answer = await self._back(request, is_settled)
        if job is not None and job.problem:
            raise HTTPException(400, f"This run cannot be resumed: {job.problem}.")
        return answer

    async def _act(self, act: Callable[[Any], object], run: Overview) -> None:
        try:
            refuse_outside(self._library.root, run.folder)
            await run_in_threadpool(act, run.folder)
        except MmflError as error:
            raise HTTPException(400, f"{_capitalize(str(error))}.") from None

    async def _back(self, request: Request, done: Callable[[Overview], bool]) -> Response:
        """The page of the run, once its state has changed; at most a few seconds later."""
        key = request.path_params["id"]
        for _ in range(40):
            await run_in_threadpool(self._library.poll, now=True)
            run = self._library.snapshot.runs.get(key)
            if run is None or done(run):
                break
            await asyncio.sleep(0.25)
        return RedirectResponse(f"/runs/{key}", 303)

    async def forecast(self, request: Request) -> Response:
        """The forecast for another alpha, as a part of the what-if page."""
        run = self._find(request.path_params["id"])
        form = await read_form(request)
        alpha = _read_number(form.get("alpha", ""))
        if not 1 <= alpha <= 100:
            raise HTTPException(400, "Alpha must be from 1 to 100.")
        if not self._forecasting.acquire(blocking=False):
            raise HTTPException(409, "Another forecast is being made. Try again in a moment.")
        try:
            made = await run_in_threadpool(forecast, run.folder, alpha)
        except MmflError as error:
            raise HTTPException(400, f"There is no forecast: {error}.") from None
        finally:
            self._forecasting.release()
        return HTMLResponse(self._renderer.part("what_if_parts", "forecast", made))

    async def hold_auction(self, request: Request) -> Response:
        """The auction's outcome with another budget, as a part of the what-if page."""
        run = self._find(request.path_params["id"])
        form = await read_form(request)
        try:
            budget = _read_number(form.get("budget", ""))
            outcome = await run_in_threadpool(hold_auction, run.folder, budget)
        except MmflError as error:
            raise HTTPException(400, f"There is no outcome: {error}.") from None
        return HTMLResponse(self._renderer.part("what_if_parts", "auction", outcome))

    def _find(self, key: str) -> Overview:
        run = self._library.snapshot.runs.get(key)
        if run is None:
            raise HTTPException(404, "This run does not exist, or it has been removed.")
        try:
            refuse_outside(self._library.root, run.folder)
        except MmflError as error:
            raise HTTPException(400, f"{_capitalize(str(error))}.") from None
        return run


def _read_number(text: str) -> float:
    try:
        return float(text) if len(text) < 40 else math.nan
    except ValueError:
        return math.nan


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
