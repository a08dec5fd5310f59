"""The pages that read: right numbers, broken and foreign runs, empty folders, filters."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing, suppress

import pytest

import mmfl
from chaos.rehash import renew
from mmfl.report import number
from mmfl.runs import stored_rounds
from support.asking import Visitor, text_of
from support.experiments import write_small


def test_the_list_has_every_run_and_comparison_with_its_numbers(visitor, made):
    answer = visitor.get("/")
    assert answer.status_code == 200
    text = text_of(answer.text)
    done = mmfl.Run.load(made / "done")
    assert "7 runs" in text
    row = re.search(r'data-line="\w+">\s*<td class="pick">.*?done</a>.*?</tr>', answer.text, re.S)
    assert row is not None
    for value in (number(done.worst, 3), number(done.mean, 3), "finished"):
        assert value in text_of(row[0])
    assert '<svg class="spark"' in row[0]
    assert "uniform 2 seeds" in text


def test_a_run_shows_the_numbers_of_its_store(visitor, made):
    run = mmfl.Run.load(made / "rich")
    answer = visitor.get(f"/runs/{visitor.find('rich')}")
    assert answer.status_code == 200
    text = text_of(answer.text)
    assert f"round {run.rounds} of {run.planned}" in text
    assert f"Worst task {number(run.worst, 3)}" in text
    assert f"Mean over tasks {number(run.mean, 3)}" in text
    assert f"Failed turns {run.failed}" in text
    assert run.fingerprint in text
    curves = json.loads(re.search(r'id="content">(.*?)</script>', answer.text)[1])
    for place, values in enumerate(run.history.values()):
        assert curves["tasks"][place] == pytest.approx(values)
    assert curves["rounds"] == [1, 2, 3, 4]


def test_a_run_has_a_row_for_each_client_with_its_turns(visitor, made):
    run = mmfl.Run.load(made / "rich")
    page = visitor.get(f"/runs/{visitor.find('rich')}").text
    part = page[page.index('<div id="people">') :]
    rows = re.findall(r'<tr><th scope="row">(\d+).*?</th>(.*?)</tr>', part, re.S)
    found = {
        int(client): [int(n) for n in re.findall(r"<td>(\d+)</td>", cells)]
        for client, cells in rows
    }
    wanted: dict[int, list[int]] = {}
    for turn in run.turns():
        row = wanted.setdefault(turn.client, [0, 0, 0, 0])
        row[list(run.tasks).index(turn.task)] += 1
        row[2] += not turn.accepted
        row[3] = turn.round
    assert found == wanted


def test_chosen_runs_are_compared_as_a_report_does(visitor):
    keys = [visitor.find(f"both/uniform/seed-{seed}") for seed in (0, 1)]
    keys += [visitor.find("done")]
    answer = visitor.get(f"/compare?{'&'.join(f'id={key}' for key in keys)}")
    assert answer.status_code == 200
    text = text_of(answer.text)
    assert "Verdict" in text
    assert "uniform" in text
    assert "done" in text


def test_a_comparison_or_a_variant_is_chosen_as_a_whole(visitor):
    page = visitor.get("/").text
    variant = re.search(r'href="(/compare\?id=\w+)">uniform', page)[1]
    assert "Report" not in text_of(visitor.get(variant).text)
    assert "2 runs" in text_of(visitor.get(variant).text)


@pytest.mark.parametrize(
    ("query", "there", "missing"),
    [
        ("?q=DON", "done", "rich"),
        ("?state=stopped", "stopped", "done"),
        ("?q=uniform", "uniform", "script"),
        ("?every=1&q=seed-1", "both/uniform/seed-1", "seed-0"),
    ],
)
def test_the_list_is_filtered(visitor, query, there, missing):
    page = visitor.get(f"/{query}").text
    names = re.findall(r'<th scope="row"><a [^>]*>(.*?)</a>', page)
    assert any(there in name for name in names)
    assert not any(missing in name for name in names)


@pytest.mark.parametrize("query", ["?page=99", "?page=-1", "?page=x", "?order=x&state=x", "?q=%00"])
def test_a_query_that_makes_no_sense_is_a_list(visitor, query):
    assert visitor.get(f"/{query}").status_code == 200


def test_a_filter_that_nothing_matches_says_so(visitor):
    assert "No run matches" in visitor.get("/?q=zzz").text


def test_the_best_comes_first_if_it_is_asked_for(visitor, made):
    names = re.findall(
        r'<tr class="run".*?<a [^>]*>(.*?)</a>', visitor.get("/?order=worst").text, re.S
    )
    worst = {name: mmfl.Run.load(made / name).worst for name in names}
    assert names == sorted(names, key=lambda name: -worst[name])


def test_damaged_and_foreign_runs_are_listed_and_shown_as_such(runs):
    (runs / "done" / "run.sqlite").write_bytes(b"not a database, but long enough" * 100)
    with closing(sqlite3.connect(runs / "rich" / "run.sqlite")) as database:
        database.execute("DROP TABLE round_task")
    (runs / "foreign").mkdir()
    with closing(sqlite3.connect(runs / "foreign" / "run.sqlite")) as database:
        database.execute("CREATE TABLE mine (x)")
    visitor = Visitor(runs)
    text = text_of(visitor.get("/").text)
    assert "3 damaged or foreign runs" in text
    for name in ("done", "rich", "foreign"):
        answer = visitor.get(f"/runs/{visitor.find(name)}")
        assert answer.status_code == 200
        assert "This run is damaged" in answer.text
    answer = visitor.get(f"/compare?id={visitor.find('done')}")
    assert answer.status_code == 400
    assert "Traceback" not in answer.text


def test_an_empty_folder_says_what_to_do(tmp_path):
    assert "No runs yet" in Visitor(tmp_path).get("/").text


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    answer = Visitor(tmp_path / "none").get("/")
    assert answer.status_code == 200
    assert "does not exist" in text_of(answer.text)


def test_new_runs_appear_and_removed_ones_are_gone(runs):
    visitor = Visitor(runs)
    key = visitor.find("done")
    shutil.move(runs / "done", runs / "again")
    assert key in visitor.poll()
    assert visitor.get(f"/runs/{key}").status_code == 404
    assert visitor.get(f"/runs/{visitor.find('again')}").status_code == 200


def test_only_what_has_changed_is_read_again(runs):
    visitor = Visitor(runs)
    assert visitor.poll() == set()
    with closing(sqlite3.connect(runs / "done" / "run.sqlite")) as database:
        database.execute("UPDATE meta SET value = '4' WHERE key = 'rounds'")
        database.commit()
    assert visitor.poll() == {visitor.find("done")}
    assert "it is finished, but has 3 of 4 rounds" in text_of(visitor.get("/").text)


def test_a_list_that_is_still_read_says_so(made):
    visitor = Visitor(made)
    library = visitor.dashboard.library
    library.snapshot = type(library.snapshot)(made, {}, 7)
    page = visitor.get("/").text
    assert "Reading 0 of 7 runs" in page
    assert 'http-equiv="refresh"' in page


def test_runs_that_have_just_begun_have_a_page(runs):
    """With its first files only; with empty tables; before the first round."""
    (runs / "mark").mkdir()
    shutil.copy(runs / "done" / "mmfl-run.json", runs / "mark")
    (runs / "empty").mkdir()
    sqlite3.connect(runs / "empty" / "run.sqlite").close()
    small = mmfl.Experiment.from_toml(write_small("a", "b"))
    with stored_rounds(small, runs / "before") as rounds:
        rounds.start()
        visitor = Visitor(runs)
        for name in ("mark", "empty", "before"):
            for path in (f"/runs/{visitor.find(name)}", f"/what-if?run={visitor.find(name)}"):
                assert visitor.get(path).status_code == 200, (name, path)
            assert visitor.dashboard.hub._make_event(f"runs/{visitor.find(name)}")
        text = text_of(visitor.get(f"/runs/{visitor.find('before')}").text)
        assert "round 0 of 2" in text
        assert "damaged" not in text
        assert "damaged" not in text_of(visitor.get(f"/runs/{visitor.find('mark')}").text)


DAMAGE = {
    "a count that is text": "UPDATE round_task SET clients = x'00ff'",
    "a count that is too large": "UPDATE round_task SET clients = 1 << 62 WHERE round = 2",
    "a task that does not exist": "UPDATE failure SET task = x'00ff'",
    "a metric that is text": "UPDATE round_task SET metric = 'x' WHERE round = 4",
    "no assignment": "UPDATE round SET assignment = x'00'",
    "an infinite time": "UPDATE round SET seconds = 1e999",
    "no auction": "UPDATE meta SET value = '[]' WHERE key = 'auction'",
    "no bids": "UPDATE auction SET bids = x'00'",
    "no rounds": "UPDATE meta SET value = '' WHERE key = 'rounds'",
}


@pytest.mark.parametrize("forged", [False, True])
@pytest.mark.parametrize("statement", DAMAGE.values(), ids=DAMAGE)
def test_no_damage_ends_a_page_or_the_streams_of_others(runs, statement, forged):
    with closing(sqlite3.connect(runs / "rich" / "run.sqlite")) as database:
        database.execute(statement)
        with suppress(Exception):  # of some rows no digest can be made
            renew(database) if forged else None
        database.commit()
    visitor = Visitor(runs)
    visitor.unlock()
    key, hub = visitor.find("rich"), visitor.dashboard.hub
    pages = (f"/runs/{key}", f"/runs/{key}/auction", f"/what-if?run={key}", f"/compare?id={key}")
    for path in ("/", f"/new?from={key}", *pages):
        assert visitor.get(path).status_code in (200, 400), path
    assert forged or "damaged" in text_of(visitor.get(f"/runs/{key}").text)
    assert hub._make_event(f"runs/{key}")
    assert hub._make_event("list", [key])


@pytest.mark.parametrize(
    "content", [None, b"\xff", b"", b"tasks = 3", b"allocator = [1]\ntasks = [2]"]
)
def test_a_strange_experiment_ends_no_page(runs, content):
    path = runs / "done" / "experiment.toml"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    visitor = Visitor(runs)
    visitor.unlock()
    key = visitor.find("done")
    for page in (f"/runs/{key}", f"/what-if?run={key}", f"/compare?id={key}", f"/new?from={key}"):
        assert visitor.get(page).status_code in (200, 400), page
    assert visitor.post(f"/runs/{key}/forecast", {"alpha": "3"}).status_code == 400
