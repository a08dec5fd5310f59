"""The pages that only read: the list, a run, a comparison of chosen runs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from mmfl.dashboard.access import Access
from mmfl.dashboard.auction_page import describe_auction
from mmfl.dashboard.comparison_page import describe_comparison
from mmfl.dashboard.history import History, read_history
from mmfl.dashboard.library import Library, make_id, refuse_outside
from mmfl.dashboard.listing import ORDERS, Query, list_page, mark_known
from mmfl.dashboard.rendering import FILES, Renderer, read, version_of
from mmfl.dashboard.run_page import describe_acts, describe_now, describe_settings, make_chart
from mmfl.dashboard.what_if import HIGHEST, allocate, list_choices, read_alpha, read_rule
from mmfl.errors import MmflError, plural, printable
from mmfl.report.document import gather, make_json, render_body
from mmfl.runs import Overview, place_of
from mmfl.system import calls

__all__ = ["Pages"]

_PATIENCE = 0.5
"""Seconds for which the list waits until all runs are known."""

_MOST = 200
"""How many runs are compared at most."""

_KEPT = 8
"""How many comparisons are remembered."""


class Pages:
    """What is shown, from a library of runs."""

    def __init__(self, library: Library, renderer: Renderer, access: Access) -> None:
        self.library = library
        self.renderer = renderer
        self._access = access
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
        """The list of runs; of many runs, those that are known by now."""
        limit = calls.monotonic() + _PATIENCE
        while not self.library.snapshot.complete and calls.monotonic() < limit:
            calls.sleep(0.02)
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
            name=self._name(overview),
            path=printable(str(overview.folder)),
            comparison=self._find_comparison(overview),
            auction=history.auction,
            run=run,
            acts=describe_acts(overview),
            **self._describe_token(request),
            charts={
                "tasks": make_chart(content, ", ".join(kinds).capitalize(), "", lines, wide=True),
                "overall": make_chart(content, "Of all tasks", "higher is better", both),
            },
            settings=describe_settings(overview.folder) if not run["damage"] else {},
            json=make_json(content),
        )
        return HTMLResponse(page)

    def comparison(self, request: Request) -> Response:
        """A comparison."""
        key = request.path_params["id"]
        found = describe_comparison(self.library.snapshot, key)
        if found is None:
            raise HTTPException(404, "This comparison does not exist, or it has been removed.")
        content = found.pop("content")
        lines = {one["name"]: f"variants.{v}" for v, one in enumerate(found["variants"])}
        note = "mean over the seeds that have got so far; bands: lowest and highest"
        page = self.renderer.page(
            "comparison",
            here="runs",
            id=key,
            comparison=found,
            drawn=make_chart(content, "Worst task", note, lines, wide=True),
            json=make_json(content),
        )
        return HTMLResponse(page)

    def auction(self, request: Request) -> Response:
        """The auction of a run."""
        run = self.find_run(request)
        found = None
        try:
            refuse_outside(self.library.root, run.folder)
            found = describe_auction(run.folder)
        except MmflError as error:
            raise HTTPException(400, f"This auction cannot be shown: {error}.") from None
        if found is None:
            raise HTTPException(404, "This run had no auction.")
        budget = read_rule(run.folder)["budget"]
        page = self.renderer.page(
            "auction",
            here="runs",
            id=request.path_params["id"],
            name=self._name(run),
            auction=found,
            budget=budget,
            **self._describe_token(request),
        )
        return HTMLResponse(page)

    def what_if(self, request: Request) -> Response:
        """What another alpha would do to a run."""
        snapshot = self.library.snapshot
        choices = list_choices(snapshot)
        wanted = request.query_params.get("run", "")
        run = snapshot.runs.get(wanted) or (choices[0] if choices and not wanted else None)
        if wanted and run is None:
            raise HTTPException(404, "This run does not exist, or it has been removed.")
        values: dict[str, Any] = {"rows": [], "problem": "", "rule": {}, "alpha": 3.0}
        if run is not None:
            values |= self._allocate(run, request.query_params.get("alpha", ""))
        page = self.renderer.page(
            "what_if",
            here="what-if",
            choices=[(make_id(r.folder, snapshot.root), self._name(r)) for r in choices[:500]],
            id="" if run is None else make_id(run.folder, snapshot.root),
            highest=HIGHEST,
            **values,
            **self._describe_token(request),
        )
        return HTMLResponse(page)

    def allocation(self, request: Request) -> Response:
        """The same as JSON, for the slider."""
        found = self._allocate(self.find_run(request), request.query_params.get("alpha", ""))
        return JSONResponse({"rows": found["rows"], "alpha": found["alpha"]})

    def _allocate(self, run: Overview, alpha: str) -> dict[str, Any]:
        """The allocation vector for a run's difficulties, with an alpha and with its own."""
        rule = read_rule(run.folder)
        chosen = read_alpha(alpha, rule["alpha"] or 3.0)
        found: dict[str, Any] = {"rule": rule, "alpha": chosen, "rows": [], "problem": ""}
        history = History(run.folder)
        try:
            read_history(self.library.root, history)
            found["rows"] = allocate(history, rule["weights"], chosen)
            if rule["alpha"] is not None:
                own = allocate(history, rule["weights"], rule["alpha"])
                for row, before in zip(found["rows"], own, strict=True):
                    row["own"], row["own_percent"] = before["share"], before["percent"]
        except MmflError as error:
            found["problem"] = str(error)
        return found | {"rounds": history.rounds, "planned": run.planned}

    def _describe_token(self, request: Request) -> dict[str, bool]:
        """Whether this browser may act."""
        return {"unlocked": self._access.is_known(request.cookies)}

    def _name(self, run: Overview) -> str:
        return printable(str(run.folder.relative_to(self.library.root))).replace("/", " / ")

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
