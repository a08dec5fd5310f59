"""The page of a report: safe, whole without a network, and right for every state of a run."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import mmfl
from mmfl.errors import StoreError
from mmfl.report.document import gather, render_html, render_markdown
from mmfl.report.document.charts import draw_lines, make_ticks
from mmfl.report.document.numbers import find, show
from mmfl.report.document.settings import describe_value
from mmfl.runs import stored_rounds
from support.experiments import write_small
from support.reading_pages import Page
from support.reports import NASTY


def read(*folders: Path | str, **options) -> tuple[dict, Page]:
    content = gather([Path(folder) for folder in folders], **options)
    return content, Page(render_html(content))


def text_of(page: Page) -> str:
    (body,) = page.root.find_all("body")
    return " ".join(body.text("script", "style").split())


def test_scripts_and_styles_are_those_of_the_policy(content):
    page = Page(render_html(content))
    metas = {m.attributes.get("http-equiv"): m.attributes for m in page.root.find_all("meta")}
    policy = dict(
        part.strip().split(" ", 1)
        for part in metas["Content-Security-Policy"]["content"].split(";")
    )
    assert policy["default-src"] == "'none'"
    scripts = [s for s in page.root.find_all("script") if "type" not in s.attributes]
    assert set(policy["script-src"].split()) == {hash_of(one.text()) for one in scripts}
    (style,) = page.root.find_all("style")
    assert policy["style-src"] == hash_of(style.text())
    assert policy.keys() == {
        *("default-src", "script-src", "style-src", "img-src", "base-uri", "form-action"),
    }
    assert policy["img-src"] == "data:"


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def all_elements(page: Page) -> list:
    tags = set(re.findall(r"<([a-z][a-z0-9]*)", render_tags(page.root)))
    return page.root.find_all(*tags)


def render_tags(element) -> str:
    return "".join(f"<{e.tag}{render_tags(e)}" for e in element.inside if not isinstance(e, str))


def test_nothing_is_loaded_and_nothing_is_inline(content):
    elements = all_elements(Page(render_html(content)))
    assert len(elements) > 500
    for element in elements:
        for name, value in element.attributes.items():
            assert not name.startswith("on"), (element.tag, name)
            assert name != "style"
            if name in ("src", "href", "action", "data", "srcset", "xlink:href"):
                assert value.startswith(("#", "data:image/png;base64,")) or value == "data:,"
        assert element.tag not in ("iframe", "object", "embed", "base", "form")


def test_names_are_text_wherever_they_stand(content, rich):
    text = render_html(content)
    assert NASTY not in text
    page = Page(text)
    assert NASTY in text_of(page)
    assert page.root.find_all("b") == [b for b in page.root.find_all("b") if b.text() != '"x"']
    assert page.content["chapters"][0]["results"]["variants"][0]["name"] == NASTY
    for figure in page.root.find_all("figure"):
        names = figure.attributes.get("data-names")
        assert names is None or json.loads(names)[-1] in (NASTY, "uniform")
    assert "<b>" not in render_markdown(content).replace("\\<b\\>", "")


def test_a_detail_that_a_client_sent_is_text(small):
    run = mmfl.run(small, "run")
    evil = "<img src=x onerror=alert(1)>"
    content = gather([run.folder])
    content["chapters"][0]["troubles"][0] |= {
        "failed": 1,
        "reasons": [{"task": evil, "reason": evil, "count": 1, "example": evil}],
        "faults": {evil: dict.fromkeys(("injected", "lost", "refused", "accepted"), 1)},
    }
    content["chapters"][0]["config"]["text"] = evil
    content["left_out"] = [{"folder": evil, "why": evil}]
    content["title"] = evil
    page = Page(render_html(content))
    assert page.root.find_all("img") == [
        figure.find_all("img")[0]
        for figure in page.root.find_all("figure")
        if figure.find_all("img")
    ]
    assert text_of(page).count(evil) >= 7


def test_one_run_of_one_task(plain):
    _, page = read(plain)
    said = text_of(page)
    assert "Report on plain" in said
    assert "the accuracy of only is" in said
    assert "There was no auction" in said
    assert "turns failed, and no fault was injected" in said
    titles = [f.find_all("b")[0].text() for f in page.root.find_all("figure")]
    assert titles == ["only", "Accuracy", "plain", "plain", "Seconds per round"]
    assert "Part 1" not in said


def test_ten_tasks_with_other_metrics():
    names = [f"task{n}" for n in range(10)]
    text = write_small(*names)
    run = mmfl.run(mmfl.Experiment.from_toml(text), "ten")
    _, page = read(run.folder)
    rows = [row.text() for row in page.root.find_all("tr")]
    for name, task in run.tasks.items():
        assert any(name in row and show(task["metric"], "share") in row for row in rows)
    assert len(page.root.find_all("button")) == 10


def test_a_lower_metric_is_said_to_be_lower():
    text = write_small("a", "b") + 'metric = "loss"\n'
    run = mmfl.run(mmfl.Experiment.from_toml(text), "mixed")
    content, page = read(run.folder)
    said = text_of(page)
    assert "b ↓" in said
    assert "are of merits: 1 - metric where lower is better" in said
    assert "loss (lower is better)" in said
    assert find(content, "chapters.0.tasks.1.better") == "lower"
    assert page.root.find_all("button") == []


def test_an_unfinished_run_is_reported_as_such(small):
    with stored_rounds(small, "run") as rounds:
        next(rounds)
        assert "running" in text_of(read("run")[1])
    content, page = read("run")
    said = text_of(page)
    assert "After 1 round the worst of 2 tasks" in said
    assert "! run: the run with seed 1 is stopped: 1 of 3 rounds are done" in said
    assert "1/3" in said
    assert content["left_out"] == []


def test_runs_that_cannot_be_used_are_left_out_and_named(small, plain):
    shutil.copytree(plain, "damaged")
    with closing(sqlite3.connect("damaged/run.sqlite")) as database, database:
        database.execute("UPDATE round SET samples = samples + 1 WHERE round = 2")
    run = mmfl.run(small, "good")
    content, page = read(run.folder, "damaged")
    why = "it is damaged: round 2 does not match its hash"
    assert content["left_out"] == [{"folder": "damaged", "why": why}]
    assert f"damaged: {why}" in text_of(page)
    with pytest.raises(
        StoreError, match="there is no run that can be used: damaged: it is damaged"
    ):
        read("damaged")


def test_a_finished_run_is_not_compared_with_an_unfinished_one(small):
    mmfl.run(small, "done")
    with stored_rounds(dataclasses.replace(small, seed=8), "part") as rounds:
        next(rounds)
    content, _ = read("done", "part")
    assert [run["folder"] for run in content["chapters"][0]["runs"]] == ["done"]
    assert content["left_out"] == [{"folder": "part", "why": "it is stopped after round 1 of 3"}]


def test_runs_of_other_lengths_are_compared_as_they_are(small):
    mmfl.run(small, "short")
    mmfl.run(dataclasses.replace(small, rounds=5), "long")
    content, page = read("short", "long")
    (chapter,) = content["chapters"]
    assert chapter["curves"]["rounds"] == [1, 2, 3, 4, 5]
    assert chapter["times"][0]["by_round"][3:] == [None, None]
    worst = chapter["curves"]["measures"]["worst"][0]["mean"]
    assert worst[3] == worst[4] == worst[2]
    assert "the runs have from 3 to 5 rounds" in text_of(page)


def test_other_tasks_are_another_part(small, plain):
    run = mmfl.run(small, "run")
    content, page = read(run.folder, plain)
    assert [chapter["name"] for chapter in content["chapters"]] == ["dense, image", "only"]
    headings = [h.text() for h in page.root.find_all("h2")]
    assert "Part 1: dense, image" in headings
    assert "Part 2: only" in headings
    anchors = [e.attributes["id"] for e in page.root.find_all("section")]
    assert len(set(anchors)) == len(anchors) == 18
    links = [a.attributes["href"].removeprefix("#") for a in page.root.find_all("a")]
    ids = {e.attributes.get("id") for e in page.root.find_all("section", "article")}
    assert set(links) <= ids
    assert "# Part 2: only" in render_markdown(content)


def test_the_verdict_says_who_is_ahead_and_how_sure(content):
    sentences = [
        "".join(p if isinstance(p, str) else show(find(content, p["at"]), p["style"]) for p in one)
        for one in content["chapters"][0]["verdict"]
    ]
    assert len(sentences) == 3
    (first, second, third) = sentences
    lead = content["chapters"][0]["lead"]
    assert first.startswith(
        (f"With {lead['best']} the worst task is best off: after 4 rounds", "No")
    )
    assert f"Its lead over {lead['over']}, seed by seed, is" in second
    assert "95% interval" in second
    assert "The mean over tasks is" in third


def test_bold_is_what_is_best_and_what_chance_would_hardly_do(content):
    page = Page(render_html(content))
    results, differences = page.content["chapters"][0]["results"], 0
    for row in page.root.find_all("tr"):
        numbers = row.find_all("data")
        at = numbers[0].attributes["data-at"] if numbers else ""
        if ".differences." in at:
            differences += 1
            low, high = find(content, at.removesuffix(".mean"))["interval"] or (-1, 1)
            cells = [c.attributes.get("class") == "best" for c in row.find_all("td")]
            assert cells == [not low <= 0 <= high, False, False, False]
    assert differences == len(results["tasks"]) + 5
    worst = [variant["worst"]["mean"] for variant in results["variants"]]
    for v, variant in enumerate(worst):
        cell = next(
            c
            for c in page.root.find_all("td")
            if c.find_all("data")
            and c.find_all("data")[0].attributes["data-at"].endswith(f"variants.{v}.worst.mean")
        )
        bold = round(variant, 3) == round(max(worst), 3) != round(min(worst), 3)
        assert (cell.attributes.get("class") == "best") == bold


def test_equal_variants_are_said_to_be_equal(plain):
    shutil.copytree(plain, "twin")
    _, page = read(plain, "twin")
    assert "No variant is ahead: after 2 rounds" in text_of(page)


def test_values_of_an_experiment_are_lines():
    assert describe_value({"kind": "cnn", "channels": [8, 16], "dense": 64}) == (
        "cnn (channels 8, 16; dense 64)"
    )
    assert describe_value([]) == ""
    assert describe_value("x\ny\x1b") == "x y\\x1b"
    assert len(describe_value("y" * 10_000)) < 301


def test_lines_have_gaps_where_nothing_is_known():
    svg = draw_lines([1, 2, 3, 4, 5], [{"mean": [None, 1.0, 2.0, None, 4.0]}], 'a "title"')
    assert svg.count("<polyline") == 1
    assert svg.count("<circle") == 1
    assert 'aria-label="a &quot;title&quot;"' in svg
    assert "nothing was measured" in draw_lines([1], [{"mean": [None]}], "x")
    assert make_ticks(0.07, 0.66) == [0.2, 0.4, 0.6]
    assert make_ticks(1.0, 1.0) == [1.0]


def test_it_is_small(content):
    assert len(render_html(content)) < 300_000
