"""What acts: only behind the token; start, stop and resume; forecasts and auctions."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mmfl
from mmfl.dashboard.acting.processes import Processes, check_name
from mmfl.dashboard.library import make_id
from mmfl.errors import InputError, StoreError
from mmfl.planning import plan
from mmfl.report.document import show
from mmfl.runs import find_owner, stored_rounds
from support.asking import TOKEN, Visitor, text_of
from support.experiments import LEAST_INLINE, write_small

LONG = write_small("a", "b", top="rounds = 100000", local="epochs = 1")


@pytest.mark.parametrize(
    "path",
    ["/new", "/runs/ID/stop", "/runs/ID/resume", "/runs/ID/forecast", "/runs/ID/auction/again"],
)
def test_nothing_acts_without_the_token(visitor, path):
    path = path.replace("ID", visitor.find("rich"))
    form = {"alpha": "3", "budget": "3", "name": "x", "text": LEAST_INLINE, "do": "start"}
    answer = visitor.post(path, form)
    assert answer.status_code == 403
    assert "needs the token" in text_of(answer.text)
    visitor.cookies = {"mmfl-8765": visitor.access.token}  # the token itself is not the cookie
    assert visitor.post(path, form).status_code == 403


@pytest.mark.parametrize("path", ["/runs/ID/stop", "/runs/ID/resume", "/runs/ID/forecast"])
def test_a_link_cannot_act(visitor, path):
    visitor.unlock()
    assert visitor.get(path.replace("ID", visitor.find("rich"))).status_code == 405


def test_buttons_are_there_only_for_those_who_know_the_token(visitor):
    path = f"/runs/{visitor.find('stopped')}"
    assert "/resume" not in visitor.get(path).text
    visitor.unlock()
    assert "/resume" in visitor.get(path).text


@pytest.mark.parametrize(
    "name", ["", "..", ".", "a/b", "/etc", "a\\b", "-x", ".x", "a" * 65, "é", "a\n", "a b", "~"]
)
def test_a_name_is_never_a_path(tmp_path, name):
    with pytest.raises(InputError, match="name must be"):
        check_name(name, tmp_path)


def test_a_run_does_not_replace_anything(visitor, runs):
    visitor = Visitor(runs)
    visitor.unlock()
    before = (runs / "done" / "run.sqlite").read_bytes()
    (runs / "dangling").symlink_to(runs / "nowhere")
    for name in ("done", "dangling"):
        answer = visitor.post("/new", {"name": name, "text": LEAST_INLINE, "do": "start"})
        assert answer.status_code == 400
        assert f"{name} is there already" in text_of(answer.text)
    assert (runs / "done" / "run.sqlite").read_bytes() == before


def test_mistakes_are_sentences_and_what_was_typed_is_kept(tmp_path):
    visitor = Visitor(tmp_path)
    visitor.unlock()
    bad = "rounds = 0\nclients = 3\n</textarea><b>x</b>"
    answer = visitor.post("/new", {"name": "x", "text": bad, "do": "start"})
    assert answer.status_code == 400
    assert "<b>x</b>" not in answer.text
    assert "</textarea><b>x</b>" in text_of(answer.text)
    bad = LEAST_INLINE.replace("rounds = 1", "rounds = 0")
    for do in ("start", "check"):
        answer = visitor.post("/new", {"name": "x", "text": bad, "do": do})
        assert "rounds must be" in text_of(answer.text)
    assert list(tmp_path.iterdir()) == []


def test_an_experiment_cannot_import_code(tmp_path):
    visitor = Visitor(tmp_path)
    visitor.unlock()
    text = LEAST_INLINE + 'model = "os:system"\n'
    answer = visitor.post("/new", {"name": "x", "text": text, "do": "start"})
    assert answer.status_code == 400
    assert "import" in text_of(answer.text)


def test_the_form_can_begin_with_the_experiment_of_a_run(visitor, made):
    visitor.unlock()
    page = visitor.get(f"/new?from={visitor.find('rich')}").text
    assert "max_min_fair" in page
    assert visitor.get("/new?from=../../etc").status_code == 404


def end_all(visitor):
    """End all that was started."""
    processes = visitor.dashboard.acting.processes
    for job in processes._jobs.values():
        job.process.kill()
        job.process.wait()
    processes.close()


def wait_for(condition, patience=60.0):
    limit = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < limit
        time.sleep(0.05)
    return found


@pytest.mark.cold
def test_a_run_is_started_stopped_and_resumed(tmp_path):
    visitor = Visitor(tmp_path)
    visitor.unlock()
    pages = visitor.dashboard.acting
    try:
        answer = visitor.post("/new", {"name": "mine", "text": LONG, "do": "start"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/jobs/mine")
        assert "mine is starting" in text_of(visitor.get("/jobs/mine").text)
        key = make_id(tmp_path / "mine", tmp_path)
        wait_for(lambda: visitor.get("/jobs/mine").headers.get("location") == f"/runs/{key}")
        assert "running" in text_of(visitor.get(f"/runs/{key}").text)
        assert visitor.post(f"/runs/{key}/resume", {}).status_code == 400
        assert visitor.post(f"/runs/{key}/stop", {}).headers["location"] == f"/runs/{key}"
        stopped = mmfl.Run.load(tmp_path / "mine")
        assert stopped.status == "stopped"
        assert stopped.saved == stopped.rounds > 0
        assert visitor.post(f"/runs/{key}/stop", {}).status_code == 400
        wait_for(lambda: pages.processes.find(tmp_path / "mine").ended)
        assert visitor.post(f"/runs/{key}/resume", {}).status_code == 303
        wait_for(lambda: mmfl.Run.load(tmp_path / "mine").rounds > stopped.rounds)
    finally:
        end_all(visitor)


@pytest.mark.cold
def test_a_run_that_cannot_start_says_why(tmp_path):
    visitor = Visitor(tmp_path)
    visitor.unlock()
    text = LEAST_INLINE.replace(
        'kind = "synthetic", train = 40, test = 10', 'kind = "npz", path = "x.npz"'
    )
    assert visitor.post("/new", {"name": "x", "text": text, "do": "start"}).status_code == 303
    job = visitor.dashboard.acting.processes.find(tmp_path / "x")
    job.process.wait()
    page = text_of(visitor.get("/jobs/x").text)
    end_all(visitor)
    assert "x.npz" in page
    assert list(Path(tmp_path).iterdir()) == []


def test_only_a_process_that_has_the_run_open_is_stopped(runs):
    """A lease that names another process, even if somebody holds the folder's lock."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    small = mmfl.Experiment.from_toml(write_small("a", "b", top="rounds = 9"))
    try:
        with stored_rounds(small, runs / "mine") as rounds:
            next(rounds)
            assert find_owner(runs / "mine") == os.getpid()
            with pytest.raises(StoreError, match="the dashboard's own process"):
                Processes().stop(runs / "mine")
            (lease,) = (runs / "mine").glob("lease-*.json")
            text = re.sub(r'"pid": \d+', f'"pid": {other.pid}', lease.read_text())
            lease.write_text(text)
            assert find_owner(runs / "mine") is None
            with pytest.raises(StoreError, match="not running on this machine"):
                Processes().stop(runs / "mine")
            for pid in ("1", "0", "-1", '"x"', "true", "1e3"):
                lease.write_text(re.sub(r'"pid": [^,]+', f'"pid": {pid}', text))
                assert find_owner(runs / "mine") is None
        assert other.poll() is None
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()


def test_a_run_of_a_comparison_is_not_stopped_by_itself(runs):
    with pytest.raises(StoreError, match="belongs to a comparison"):
        Processes().stop(runs / "both" / "uniform" / "seed-0")


def test_a_finished_run_is_not_stopped(runs):
    with pytest.raises(StoreError, match="not running"):
        Processes().stop(runs / "done")


def test_alpha_moves_the_allocation_as_the_rule_does(visitor, made):
    key = visitor.find("done")
    store = mmfl.Run.load(made / "done").table("metrics")
    hard = [row.difficulty for row in store if row.round == 3]
    for alpha in (1.0, 2.5, 7.0):
        rows = visitor.get(f"/runs/{key}/allocation?alpha={alpha}").json()["rows"]
        wanted = mmfl.allocate.FedFair(alpha=alpha).probabilities(hard)
        assert [row["share"] / 100 for row in rows] == pytest.approx(list(wanted), abs=1e-4)
    page = text_of(visitor.get(f"/what-if?run={key}").text)
    assert "(3 in this run)" in page
    assert show(hard[0], "share") in page


@pytest.mark.parametrize("alpha", ["", "x", "0", "-1", "nan", "inf", "1e999", "9" * 50])
def test_an_alpha_that_makes_no_sense_is_the_runs_own(visitor, alpha):
    key = visitor.find("done")
    assert visitor.get(f"/runs/{key}/allocation?alpha={alpha}").json()["alpha"] == 3.0


def test_a_forecast_is_that_of_a_plan(visitor, made):
    visitor.unlock()
    key = visitor.find("done")
    answer = visitor.post(f"/runs/{key}/forecast", {"alpha": "5"}, x_part="1")
    assert answer.status_code == 200
    made_plan = plan(
        mmfl.Experiment.load(made / "done" / "experiment.toml"),
        alphas=[3, 5], runs=[made / "done"], draws=10,
    )  # fmt: skip
    text = text_of(answer.text)
    for alpha in (3, 5):
        for task in made_plan.at(alpha, None).tasks.values():
            assert f"{show(task.metric.mean, 'share')}" in text
            assert f"{task.clients.mean:.1f}" in text


@pytest.mark.parametrize("alpha", ["", "0", "nan", "inf", "1000"])
def test_a_forecast_for_no_alpha_is_a_sentence(visitor, alpha):
    visitor.unlock()
    answer = visitor.post(f"/runs/{visitor.find('done')}/forecast", {"alpha": alpha}, x_part="1")
    assert (answer.status_code, answer.text) == (400, "Alpha must be from 1 to 100.")


def test_an_auction_with_the_same_budget_has_the_same_outcome(visitor, made):
    visitor.unlock()
    stored = mmfl.Run.load(made / "rich").recruitment
    path = f"/runs/{visitor.find('rich')}/auction/again"
    text = text_of(visitor.post(path, {"budget": str(stored.budget)}).text)
    assert f"{show(stored.spent, 'money')} would be promised" in text
    for task in stored.tasks.values():
        assert show(task.take_up, "count") in text
    more = text_of(visitor.post(path, {"budget": str(2 * stored.budget)}).text)
    assert more != text
    for budget in ("", "0", "-3", "nan", "inf", "x"):
        answer = visitor.post(path, {"budget": budget}, x_part="1")
        assert (answer.status_code, answer.headers["content-type"][:10]) == (400, "text/plain")


def test_the_auction_page_has_the_numbers_of_the_store(visitor, made):
    run = mmfl.Run.load(made / "rich")
    text = text_of(visitor.get(f"/runs/{visitor.find('rich')}/auction").text)
    assert f"Promised {show(run.recruitment.spent, 'money')}" in text
    for award in run.awards():
        assert show(award.payment, "money") in text
    assert visitor.get(f"/runs/{visitor.find('done')}/auction").status_code == 404


def test_a_comparison_page_has_every_run(visitor, made):
    page = visitor.get(f"/comparisons/{make_id(made / 'both', made)}").text
    for seed in (0, 1):
        run = mmfl.Run.load(made / "both" / "uniform" / f"seed-{seed}")
        assert f"{run.worst:.3f}"[1:] in text_of(page)
        assert make_id(run.folder, made) in page
    assert visitor.get(f"/comparisons/{visitor.find('done')}").status_code == 404


def test_the_token_is_asked_for_and_remembered(visitor):
    assert visitor.get("/new").status_code == 403
    assert visitor.get("/unlock").status_code == 200
    assert visitor.post("/unlock", {"token": "wrong"}).status_code == 403
    assert visitor.post("/unlock", {"token": TOKEN}).status_code == 303
    assert visitor.get("/new").status_code == 200
