"""The pictures of the dashboard in the documentation: `make pictures` writes them.

Without it, the same script looks at small runs, so that it cannot fall behind the pages.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import mmfl
from mmfl.dashboard.library import make_id
from mmfl.runs import stored_rounds
from support.experiments import write_small
from support.serving import serve

HOUSE = Path(__file__).parents[2]
SIZE = {"width": 1240, "height": 760}


def test_pictures_of_the_list_and_of_a_run_that_goes_on(visit, folders, tmp_path, monkeypatch):
    where = os.environ.get("MMFL_PICTURES")
    source = HOUSE / "runs/first_run-compare" if where else folders["plain"][0]
    text = (HOUSE / "experiments/first_run/first_run.toml").read_text()
    text = text if where else write_small("a", "b", top="rounds = 5")
    experiment = mmfl.Experiment.from_toml(text, sets=["engine.kind=inline"])
    monkeypatch.chdir(tmp_path)
    shutil.copytree(source, Path("runs") / source.name)
    root, folder = Path("runs"), Path("runs") / "first_try"
    with stored_rounds(experiment, folder) as rounds:
        for _ in range(24 if where else 2):
            next(rounds)
        with serve(root) as address:
            pictures = {
                "dashboard_list": f"{address}/",
                "dashboard_run": f"{address}/runs/{make_id(folder, root)}",
            }
            for name, page_address in pictures.items():
                watched = visit(f"{address}/", viewport=SIZE, color_scheme="light")
                watched.page.wait_for_selector("[data-line]")
                watched.page.goto(page_address)
                if name == "dashboard_run":
                    watched.page.locator("figure.chart .uplot").first.wait_for()
                else:
                    for variant in ("fed_fair", "uniform"):
                        watched.page.get_by_role("checkbox", name=f"Choose {variant}").check()
                watched.page.wait_for_timeout(300)
                path = Path(where or tmp_path) / f"{name}.png"
                watched.page.screenshot(path=path)
                assert watched.complaints == []
                assert path.stat().st_size > 10_000
