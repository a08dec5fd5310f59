"""The report in a browser: no error, no request, the right numbers, and usable by everybody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mmfl.report import collect
from mmfl.report.document.numbers import show
from support.reading_pages import decode_png

SCENES = (*("rich", "plain", "one_task", "ten_tasks", "mixed", "one_round", "unfinished", "parts"),)


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("look", ["light", "dark"])
def test_it_loads_without_complaint_and_without_a_request(visit, reports, name, look):
    watched = visit(reports[name], color_scheme=look, offline=True)
    watched.draw_all()
    page = watched.page
    assert page.locator("figure.chart .uplot").count() == page.locator("figure.chart").count() > 0
    assert watched.complaints == []
    assert watched.requests == [reports[name].as_uri()]
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if look == "light" else "rgb(21, 24, 28)")


@pytest.mark.parametrize("name", SCENES)
def test_it_fits_on_a_phone(visit, reports, name):
    watched = visit(reports[name], viewport={"width": 390, "height": 844}, has_touch=True)
    watched.draw_all()
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert watched.complaints == []


def test_numbers_are_there_without_scripts(visit, reports, folders):
    page = visit(reports["plain"], java_script_enabled=False).page
    table = page.locator("#results table").first.inner_text()
    for variant in collect(folders["plain"]).variants:
        worst = [run.worst[-1] for run in variant.runs.values()]
        assert show(sum(worst) / len(worst), "share") in table
    assert page.locator("figure.chart svg").first.is_visible()
    assert not page.locator(".hint").first.is_visible()


def test_a_pointer_over_a_curve_reads_its_values(visit, reports, folders):
    watched = visit(reports["plain"])
    watched.draw_all()
    figure = watched.page.locator("figure.chart").first
    figure.scroll_into_view_if_needed()
    box = figure.locator(".u-over").bounding_box()
    variants = collect(folders["plain"]).variants
    for t in (1, 6, 12):
        x = box["x"] + 1 + (box["width"] - 2) * (t - 1) / 11
        watched.page.mouse.move(x, box["y"] + 40)
        tip = figure.locator(".tip").inner_text().split("\n")
        assert tip[0] == f"round {t}"
        for line, variant in zip(tip[1:], variants, strict=True):
            values = [run.worst[t - 1] for run in variant.runs.values()]
            assert line == f"■ {variant.name} {show(sum(values) / len(values), 'share')}"
    twin = watched.page.locator("figure.chart").nth(1)
    assert twin.locator(".tip").inner_text().startswith("round 12")


def scale(figure) -> list[str]:
    """The rounds below a chart that a pointer at its edges is over."""
    box = figure.locator(".u-over").bounding_box()
    found = []
    for x in (2, box["width"] - 2):
        figure.page.mouse.move(box["x"] + x, box["y"] + 40)
        found.append(figure.locator(".tip b").inner_text())
    return found


def test_dragging_zooms_and_a_double_click_returns(visit, reports):
    watched = visit(reports["plain"])
    watched.draw_all()
    figure = watched.page.locator("figure.chart").first
    figure.scroll_into_view_if_needed()
    assert scale(figure) == ["round 1", "round 12"]
    box = figure.locator(".u-over").bounding_box()
    mouse = watched.page.mouse
    mouse.move(box["x"] + box["width"] * 0.35, box["y"] + 40)
    mouse.down()
    mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 60, steps=4)
    mouse.up()
    first, last = scale(figure)
    assert (first, last) not in (("round 1", "round 12"), ("round 1", last), (first, "round 12"))
    mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + 40)
    assert scale(figure) == ["round 1", "round 12"]
    assert watched.complaints == []


def test_a_variant_is_hidden_by_keyboard_in_all_charts(visit, reports):
    watched = visit(reports["plain"])
    watched.draw_all()
    page = watched.page
    buttons = page.locator(".toggles").first.locator("button")
    button, (name, other) = buttons.nth(1), (buttons.nth(n).inner_text() for n in (1, 2))
    button.focus()
    page.keyboard.press("Space")
    pressed = [b.get_attribute("aria-pressed") for b in page.locator(".toggles button").all()]
    assert pressed == ["true", "false", "true"] * 2
    for figure in page.locator("figure.chart").all():
        figure.scroll_into_view_if_needed()
        box = figure.locator(".u-over").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
        assert name not in figure.locator(".tip").inner_text()
        assert other in figure.locator(".tip").inner_text()
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"


def test_every_section_can_be_reached_by_keyboard(visit, reports):
    page = visit(reports["plain"]).page
    names = []
    for _ in range(9):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent"))
    assert names == [
        *("Verdict", "What was run", "Results", "Tasks", "Clients", "Auction", "Failures", "Time"),
        "Runs",
    ]
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash === '#runs'")


def test_the_map_says_who_trained_what(visit, reports, folders):
    watched = visit(reports["rich"])
    page = watched.page
    figure = page.locator("figure.map").first
    figure.scroll_into_view_if_needed()
    run = next(iter(collect(folders["rich"]).runs["b-x-y-script"].values()))
    content = page.evaluate("JSON.parse(document.getElementById('content').textContent)")
    map_ = content["chapters"][0]["turns"][0]["map"]
    pixels, _ = decode_png(map_["image"])
    assert pixels.shape == (len(map_["clients"]), run.curves.rounds)
    names = {0: "no turn", 1: "c.mean", 2: "c", 4: "a failed turn"}
    box = figure.locator("img").bounding_box()
    for row, column in ((0, 0), (1, 2), (pixels.shape[0] - 1, pixels.shape[1] - 1)):
        x = box["x"] + box["width"] * (column + 0.5) / pixels.shape[1]
        y = box["y"] + box["height"] * (row + 0.5) / pixels.shape[0]
        page.mouse.move(x, y)
        said = figure.locator(".said").inner_text()
        what = names[int(pixels[row, column])]
        assert said == f"client {map_['clients'][row]}, round {column + 1}: {what}"
    assert watched.complaints == []


def test_print_has_the_curves_as_drawings(visit, reports):
    watched = visit(reports["plain"], color_scheme="dark")
    watched.draw_all()
    page = watched.page
    page.emulate_media(media="print")
    assert page.locator("figure.chart svg").first.is_visible()
    assert not page.locator("figure.chart .uplot").first.is_visible()
    assert not page.locator("nav").first.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_charts_follow_a_change_from_light_to_dark(visit, reports):
    watched = visit(reports["plain"], color_scheme="light")
    watched.draw_all()
    watched.page.emulate_media(color_scheme="dark")
    watched.page.wait_for_timeout(200)
    figures = watched.page.locator("figure.chart")
    assert figures.locator(".uplot").count() == figures.count()
    assert watched.complaints == []


@pytest.mark.parametrize("look", ["light", "dark"])
@pytest.mark.parametrize("name", ["rich", "plain", "ten_tasks", "parts"])
def test_an_accessibility_check_finds_nothing_serious(visit, reports, name, look):
    script = Path(os.environ.get("MMFL_AXE", "axe.min.js"))
    if not script.is_file():
        pytest.skip("axe-core is not there; `make test-browser` downloads it")
    watched = visit(reports[name], color_scheme=look)
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
