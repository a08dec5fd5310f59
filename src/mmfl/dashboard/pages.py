"""The pages that only read: the list, a run, a comparison of chosen runs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from mmfl.dashboard.history import History
from mmfl.dashboard.library import Library, make_id, refuse_outside
from mmfl.dashboard.listing import ORDERS, Query, list_page, mark_known
from mmfl.dashboard.rendering import FILES, Renderer, read, version_of
from mmfl.dashboard.run_page import describe_now, describe_settings, make_chart
from mmfl.errors import MmflError, plural, printable
from mmfl.report.document import gather, make_json, render_body
from mmfl.runs import Overview, place_of

__all__ = ["Pages"]

_MOST = 200
"""How many runs are compared at most."""

_KEPT = 8
"""How many comparisons are remembered."""


class Pages:
    """What is shown, from a library of runs."""

    def __init__(self, library: Library, renderer: Renderer) -> None:
        self.library = library
        self.renderer = renderer
        self._compared: OrderedDict[object, dict[str, Any]] = OrderedDict()
        self._comparing = threading.Lock()

    def file(self, request: Request) -> Response:
        """One of the files that pages load."""
        name = request.path_params["name"]
        if name not in FILES:
            raise HTTPException(404, "This file does not exist.")
        fresh = request.query_params.get("v") == version_of(name)
        age = "max-age=31536000, immutable" if fresh else "no-cache"
        return Response(read(name), media_type=FILES[name], headers={"cache-control": age})

    def list(self, request: Request) -> Response:
        """The list of runs."""
        snapshot = self.library.snapshot
        query = Query.of(request.query_params)
        page = self.renderer.page(
            "runs",
            here="runs",
            loading=not snapshot.complete,
            done=len(snapshot.runs),
            total=snapshot.total,
            problem=snapshot.problem,
            known=mark_known(snapshot),
            orders=ORDERS,
            **list_page(snapshot, query),
        )
        return HTMLResponse(page)

    def run(self, request: Request) -> Response:
        """A run."""
        overview = self.find_run(request)
        root = self.library.root
        history = History(overview.folder)
        run, content = describe_now(root, overview, history)
        lines = {name: f"tasks.{s}" for s, name in enumerate(history.tasks)}
        kinds = sorted({kind.replace("_", " ") for kind in history.kinds})
        both = {"worst task": "worst", "mean over tasks": "mean"}
        page = self.renderer.page(
            "run",
            here="runs",
            id=make_id(overview.folder, root),
            name=printable(str(overview.folder.relative_to(root))).replace("/", " / "),
            path=printable(str(overview.folder)),
            comparison=self._find_comparison(overview),
            auction=history.auction,
            run=run,
            charts={
                "tasks": make_chart(content, ", ".join(kinds).capitalize(), "", lines, wide=True),
                "overall": make_chart(content, "Of all tasks", "higher is better", both),
            },
            settings=describe_settings(overview.folder) if history.tasks else {},
            json=make_json(content),
        )
        return HTMLResponse(page)

    def compare(self, request: Request) -> Response:
        """A report on the chosen runs."""
        snapshot = self.library.snapshot
        chosen: dict[str, Overview] = {}
        for key in request.query_params.getlist("id")[: 2 * _MOST]:
            for run in snapshot.find(key):
                chosen[make_id(run.folder, snapshot.root)] = run
        if not chosen:
            raise HTTPException(404, "Choose runs in the list, then press the button below it.")
        if len(chosen) > _MOST:
            raise HTTPException(
                400, f"{plural(len(chosen), 'run')} are too many; choose at most {_MOST}."
            )
        try:
            found = self._compare(list(chosen.values()))
        except MmflError as error:
            raise HTTPException(400, f"These runs cannot be compared: {error}.") from None
        return HTMLResponse(self.renderer.page("compare", here="runs", **found))

    def _compare(self, runs: Sequence[Overview]) -> dict[str, Any]:
        """The report's parts; made once as long as none of the runs changes."""
        key = tuple((run.folder, run.changed, run.state, run.rounds) for run in runs)
        with self._comparing:
            if key not in self._compared:
                for run in runs:
                    if run.state != "damaged":
                        refuse_outside(self.library.root, run.folder)
                content = gather([run.folder for run in runs if run.state != "damaged"])
                names = [v["name"] for c in content["chapters"] for v in c["results"]["variants"]]
                title = " and ".join(names) if len(names) < 3 else f"{len(names)} variants compared"
                self._compared[key] = {"heading": title} | render_body(content)
            self._compared.move_to_end(key)
            while len(self._compared) > _KEPT:
                self._compared.popitem(last=False)
            return self._compared[key]

    def find_run(self, request: Request) -> Overview:
        """The run that an address names."""
        found = self.library.snapshot.runs.get(request.path_params["id"])
        if found is None:
            raise HTTPException(404, "This run does not exist, or it has been removed.")
        return found

    def _find_comparison(self, run: Overview) -> dict[str, str] | None:
        """The comparison that a run belongs to."""
        place, root = place_of(run.folder), self.library.root
        if place is None or not (place.folder == root or root in place.folder.parents):
            return None
        name = str(place.folder.relative_to(root))
        shown = place.folder.resolve().name if name == "." else name
        return {"id": make_id(place.folder, root), "name": printable(shown)}
