"""Pages in a real browser: Chromium, driven by playwright. Only `make test-browser` runs these."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import mmfl
from mmfl.report.document import BROWSERS, gather, render_html
from mmfl.runs import stored_rounds
from support.experiments import write_small
from support.reports import NASTY, RICH

LOCAL = "epochs = 2\nlr = 0.05\nbatch_size = 8"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@dataclass
class Watched:
    """A page, and all that it complained about or asked for.

    Attributes:
        page: The page.
        complaints: What it wrote to the console, and its errors.
        requests: The addresses that it asked for.
    """

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def draw_all(self) -> None:
        """Scroll to every chart, so that all are drawn."""
        for figure in self.page.locator("figure.chart").all():
            figure.scroll_into_view_if_needed()
            figure.locator(".uplot").wait_for()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        path = next(filter(None, map(shutil.which, BROWSERS)), None)
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser) -> Iterator[Callable[..., Watched]]:
    """From a file or an address to its page, watched; options are those of playwright."""
    contexts = []

    def visit(path: Path | str, **options: Any) -> Watched:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        contexts.append(context)
        watched = Watched(context.new_page())
        watched.page.on("console", lambda m: watched.complaints.append(f"{m.type}: {m.text}"))
        watched.page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        watched.page.on("request", lambda request: watched.requests.append(request.url))
        watched.page.goto(path if isinstance(path, str) else path.as_uri())
        return watched

    yield visit
    for context in contexts:
        context.close()


def _write(folder: Path, name: str, *runs: Path) -> Path:
    path = folder / f"{name}.html"
    path.write_text(render_html(gather(runs)))
    return path


def _experiment(*tasks: str, rounds: int = 8, extra: str = "") -> mmfl.Experiment:
    clients = "count = 12\nactive = 0.5"
    text = write_small(*tasks, top=f"rounds = {rounds}", clients=clients, local=LOCAL)
    return mmfl.Experiment.from_toml(text + extra)


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> dict[str, list[Path]]:
    """Runs of every kind that a report must show well, by what they are."""
    folder = tmp_path_factory.mktemp("scenes")
    rich = mmfl.Experiment.from_toml(RICH)
    even = mmfl.Experiment.from_toml(RICH, sets=["allocator.kind=uniform", "local.lr=0.03"])
    mmfl.compare({NASTY: rich, "uniform": even}, [2, 3], folder / "rich", jobs=1)
    three = _experiment("a", "b", "c", rounds=12)
    variants = {
        kind: mmfl.Experiment.from_toml(three.to_toml(), sets=[f"allocator.kind={kind}"])
        for kind in ("fed_fair", "uniform", "round_robin")
    }
    mmfl.compare(variants, [0, 1, 2], folder / "plain", jobs=1)
    mmfl.run(_experiment("only"), folder / "one_task")
    mmfl.run(_experiment(*(f"task_{n}" for n in range(10))), folder / "ten_tasks")
    mmfl.run(_experiment("a", "b", extra='metric = "loss"\n'), folder / "mixed")
    mmfl.run(_experiment("a", "b", rounds=1), folder / "one_round")
    with stored_rounds(_experiment("a", "b"), folder / "unfinished") as rounds:
        next(rounds)
        next(rounds)
    found = {path.name: [path] for path in sorted(folder.iterdir())}
    return found | {"parts": [folder / "plain", folder / "one_task"]}


@pytest.fixture(scope="session")
def reports(folders, tmp_path_factory) -> dict[str, Path]:
    """A report on each of them."""
    folder = tmp_path_factory.mktemp("reports")
    return {name: _write(folder, name, *runs) for name, runs in folders.items()}
