"""The dashboard in a browser: no error, right numbers, live, by keyboard, usable by everybody."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

import pytest

import mmfl
from mmfl.dashboard.library import make_id
from mmfl.report.document import show
from mmfl.runs import stored_rounds
from support.asking import TOKEN
from support.experiments import write_small
from support.serving import serve

PAGES = (
    *("/", "/?every=1", "/runs/rich", "/runs/unfinished", "/runs/one_task", "/runs/damaged"),
    *("/comparisons/plain", "/compare?id=plain", "/compare?id=plain&id=one_task"),
    *("/runs/auction/auction", "/what-if?run=unfinished", "/new", "/unlock", "/?q=zzz"),
)


@pytest.fixture(scope="session")
def root(folders, tmp_path_factory) -> Path:
    """The folder of the scenes, with a run with an auction and a damaged one."""
    root = folders["plain"][0].parent
    shutil.copytree(next((root / "rich").glob("*/seed-2")), root / "auction")
    shutil.copytree(root / "one_task", root / "damaged")
    (root / "damaged" / "run.sqlite").write_bytes(b"x" * 5000)
    return root


@pytest.fixture(scope="session")
def address(root):
    with serve(root) as address:
        yield address


@pytest.fixture
def look(visit, address, root):
    """From a path with a run's name to its page, with the token."""

    def look(path: str, **options):
        def name(found: re.Match[str]) -> str:
            folder = root / found[2]
            folder = folder if found[2] != "rich" else next(folder.glob("*/seed-2"))
            return found[1] + make_id(folder, root)

        named = re.sub(r"(/runs/|/comparisons/|id=|run=)(\w+)", name, path)
        visit_options = {key: options.pop(key) for key in list(options)}
        watched = visit(f"{address}/?token={TOKEN.replace(' ', '%20')}", **visit_options)
        watched.page.goto(f"{address}{named}")
        return watched

    return look


def wait_for_text(locator, text: str) -> None:
    """Wait until a part of a page has this text; our policy forbids what playwright has for it."""
    limit = time.monotonic() + 20
    while locator.inner_text() != text:
        assert time.monotonic() < limit, locator.inner_text()
        time.sleep(0.05)


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_loads_without_complaint_and_asks_only_this_server(look, address, path, scheme):
    watched = look(path, color_scheme=scheme)
    watched.draw_all()
    page = watched.page
    assert page.locator("h1").count() == 1
    assert page.locator("figure.chart .uplot").count() == page.locator("figure.chart").count()
    assert watched.complaints == []
    assert [one for one in watched.requests if not one.startswith((address, "data:"))] == []
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 24, 28)")


@pytest.mark.parametrize("path", PAGES)
def test_it_fits_on_a_phone(look, path):
    watched = look(path, viewport={"width": 390, "height": 844}, has_touch=True)
    watched.draw_all()
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert watched.complaints == []


def test_a_known_run_has_its_numbers(look, root):
    run = mmfl.Run.load(root / "one_task")
    page = look("/").page
    row = page.locator("tr.run", has=page.get_by_role("link", name="one_task", exact=True))
    assert row.locator('[data-cell="worst"]').inner_text() == show(run.worst, "share")
    assert row.locator('[data-cell="rounds"]').inner_text() == "8/8"
    row.get_by_role("link").click()
    page.wait_for_url("**/runs/*")
    assert page.locator(".tile .value").first.inner_text() == show(run.worst, "share")
    figure = page.locator("figure.chart").first
    figure.locator(".uplot").wait_for()
    box = figure.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 40)
    tip = figure.locator(".tip").inner_text().split("\n")
    assert tip == ["round 8", f"■ only {show(run.history['only'][-1], 'share')}"]


def test_runs_are_chosen_and_compared_by_keyboard(look):
    page = look("/?q=plain").page
    button = page.get_by_role("button", name="Compare the chosen")
    assert button.is_disabled()
    page.locator('input[name="q"]').focus()
    names = []
    while len(names) < 40 and "Choose uniform" not in names:
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    page.keyboard.press("Space")
    assert page.locator("#chosen").inner_text() == "1 line is chosen."
    page.get_by_role("checkbox", name="Choose fed_fair").focus()
    page.keyboard.press("Space")
    assert page.locator("#chosen").inner_text() == "2 lines are chosen."
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?*")
    assert page.locator("h1").inner_text() == "fed_fair and uniform"
    assert page.locator(".verdict").is_visible()


def test_the_first_tab_leads_to_the_content(look):
    page = look("/").page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_pages_follow_a_run_and_survive_a_restart_of_the_server(visit, tmp_path):
    experiment = mmfl.Experiment.from_toml(write_small("a", "b", top="rounds = 9"))
    folder = tmp_path / "runs" / "live"
    with stored_rounds(experiment, folder) as rounds:
        next(rounds)
        with serve(folder.parent) as address:
            lines = visit(f"{address}/")
            lines.page.wait_for_selector(f'[data-line="{make_id(folder, folder.parent)}"]')
            run = visit(f"{address}/runs/{make_id(folder, folder.parent)}")
            assert run.page.locator(".count").inner_text() == "round 1 of 9"
            for t in (2, 3, 4):
                next(rounds)
                wait_for_text(run.page.locator(".count"), f"round {t} of 9")
                wait_for_text(lines.page.locator("[data-cell=rounds]"), f"{t}/9")
            figure = run.page.locator("figure.chart").first
            box = figure.locator(".u-over").bounding_box()
            run.page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 40)
            assert figure.locator(".tip b").inner_text() == "round 4"
            assert run.complaints == lines.complaints == []
            assert "running" in run.page.locator("#summary").inner_text()
        run.page.get_by_text("No connection to the dashboard").wait_for()
        next(rounds)
        with serve(folder.parent, int(address.rpartition(":")[2])):
            wait_for_text(run.page.locator(".count"), "round 5 of 9")
            assert not run.page.locator("#line").is_visible()
            for _ in rounds:
                pass
            wait_for_text(run.page.locator("#summary .state"), "finished")


def test_a_new_run_is_announced_in_the_list(visit, tmp_path):
    small = mmfl.Experiment.from_toml(write_small("a", "b", top="rounds = 1"))
    mmfl.run(small, tmp_path / "runs" / "first")
    with serve(tmp_path / "runs") as address:
        page = visit(f"{address}/").page
        page.wait_for_selector("[data-line]")
        page.wait_for_timeout(500)
        mmfl.run(small, tmp_path / "runs" / "second")
        page.get_by_text("The list has changed").wait_for()
        page.get_by_text("The list has changed").click()
        page.get_by_role("link", name="second").wait_for()


def test_the_slider_moves_the_allocation_by_keyboard(look, root):
    watched = look("/what-if?run=unfinished")
    page = watched.page
    before = page.locator("[data-percent]").all_inner_texts()
    page.get_by_role("slider", name="Alpha").focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    assert page.get_by_role("spinbutton").input_value() == "6"
    run = mmfl.Run.load(root / "unfinished")
    hard = [row.difficulty for row in run.table("metrics") if row.round == run.rounds]
    wanted = mmfl.allocate.FedFair(alpha=6.0).probabilities(hard)
    assert [f"{p:.0%}" for p in wanted] != before
    for place, p in enumerate(wanted):
        wait_for_text(page.locator("[data-percent]").nth(place), f"{p:.0%}")
    page.get_by_role("button", name="Forecast").click()
    page.locator("#forecast table").wait_for()
    assert "6 chosen" in page.locator("#forecast").inner_text()
    assert watched.complaints == []


def test_another_budget_holds_the_auction_again(look):
    watched = look("/runs/auction/auction")
    page = watched.page
    page.get_by_role("spinbutton").fill("2")
    page.get_by_role("button", name="Hold the auction again").click()
    page.locator("#outcome table").wait_for()
    assert "With a budget of 2" in page.locator("#outcome").inner_text()
    page.get_by_role("spinbutton").evaluate("field => { field.min = ''; field.value = '-1'; }")
    page.get_by_role("button", name="Hold the auction again").click()
    page.locator("#outcome .bad").wait_for()
    assert "budget must be a number above 0" in page.locator("#outcome").inner_text()


def test_a_run_is_checked_started_stopped_and_resumed(visit, tmp_path):
    (tmp_path / "runs").mkdir()
    text = write_small("a", "b", top="rounds = 100000")
    with serve(tmp_path / "runs") as address:
        page = visit(f"{address}/?token={TOKEN.replace(' ', '%20')}").page
        page.get_by_role("link", name="Start a run here").click()
        page.get_by_role("textbox", name="Name").fill("mine")
        page.get_by_role("textbox", name="Experiment").fill(text.replace("rounds", "round"))
        page.get_by_role("button", name="Check").click()
        page.get_by_role("alert").wait_for()
        assert "round" in page.get_by_role("alert").inner_text()
        page.get_by_role("textbox", name="Experiment").fill(text)
        page.get_by_role("button", name="Check").click()
        page.get_by_text("It is valid.").wait_for()
        page.get_by_role("button", name="Start the run").click()
        page.wait_for_url("**/runs/*", timeout=60_000)
        page.get_by_role("button", name="Stop").click()
        page.get_by_role("button", name="Resume").wait_for()
        assert mmfl.Run.load(tmp_path / "runs" / "mine").status == "stopped"
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("button", name="Stop").wait_for(timeout=60_000)
        page.get_by_role("button", name="Stop").click()
        page.get_by_role("button", name="Resume").wait_for()


def test_the_list_and_a_run_are_there_without_scripts(visit, address, root):
    page = visit(f"{address}/", java_script_enabled=False).page
    page.get_by_role("link", name="one_task", exact=True).click()
    assert page.locator("figure.chart svg").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_an_accessibility_check_finds_nothing_serious(look, path, scheme):
    script = Path(os.environ.get("MMFL_AXE", "axe.min.js"))
    if not script.is_file():
        pytest.skip("axe-core is not there; `make test-browser` downloads it")
    watched = look(path, color_scheme=scheme, bypass_csp=True)
    watched.draw_all()
    watched.page.evaluate(script.read_text())
    found = watched.page.evaluate("axe.run()")
    serious = [
        (one["id"], [node["html"][:200] for node in one["nodes"]][:3])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert found["passes"]
