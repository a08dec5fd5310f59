"""Streams: a round is seen soon after its end, restarts, the end of runs, slow and many pages."""

from __future__ import annotations

import asyncio
import shutil
import time

import mmfl
from mmfl.dashboard.library import make_id
from mmfl.dashboard.live import Hub
from mmfl.runs import stored_rounds
from support.asking import Visitor, httpx, text_of
from support.experiments import write_small
from support.serving import Stream, serve


def test_a_round_is_seen_within_two_seconds_of_its_end(tmp_path):
    experiment = mmfl.Experiment.from_toml(write_small("a", "b", top="rounds = 5"))
    folder = tmp_path / "runs" / "one"
    delays = []
    with stored_rounds(experiment, folder) as rounds, serve(folder.parent) as address:
        next(rounds)
        key = make_id(folder, folder.parent)
        wait_for(lambda: httpx.get(f"{address}/runs/{key}").status_code == 200)
        stream = Stream(f"{address}/events/runs/{key}")
        kind, data = stream.next()
        assert (kind, data["content"]["rounds"]) == ("page", [1])
        for t in (2, 3, 4):
            next(rounds)
            began = time.monotonic()
            while len(data["content"]["rounds"]) < t:
                kind, data = stream.next()
            delays.append(time.monotonic() - began)
        assert "running" in data["parts"]["summary"]
        assert data["acts"]["stop"]
    assert max(delays) < 2.0, delays


def wait_for(condition, patience=10.0):
    limit = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_the_end_of_a_run_is_seen_in_the_list_and_on_its_page(tmp_path):
    experiment = mmfl.Experiment.from_toml(write_small("a", "b", top="rounds = 2"))
    folder = tmp_path / "runs" / "one"
    with stored_rounds(experiment, folder) as rounds, serve(folder.parent) as address:
        next(rounds)
        key = make_id(folder, folder.parent)
        wait_for(lambda: httpx.get(f"{address}/runs/{key}").status_code == 200)
        lines, page = Stream(f"{address}/events/list"), Stream(f"{address}/events/runs/{key}")
        for _ in rounds:
            pass
        run = mmfl.Run.load(folder)
        while "finished" not in (rows := lines.next()[1]["rows"]).get(key, {}).get("state", ""):
            pass
        assert f"{run.worst:.3f}"[1:] in rows[key]["worst"]
        assert "2" in text_of(rows[key]["rounds"])
        while "finished" not in (data := page.next()[1])["parts"]["summary"]:
            pass
        assert data["content"]["rounds"] == [1, 2]
        assert data["acts"] == {"stop": False, "resume": False, "again": True}


def test_a_page_gets_everything_from_a_server_that_was_restarted(runs):
    key = make_id(runs / "done", runs)
    with serve(runs) as address:
        wait_for(lambda: httpx.get(f"{address}/runs/{key}").status_code == 200)
        stream = Stream(f"{address}/events/runs/{key}")
        _, before = stream.next()
    assert stream.next() is None  # the server ends its streams, and does not wait for them
    port = int(address.rpartition(":")[2])
    with serve(runs, port) as address:
        wait_for(lambda: httpx.get(f"{address}/runs/{key}").status_code == 200)
        assert Stream(f"{address}/events/runs/{key}").next() == ("page", before)


def test_a_run_that_goes_back_to_a_checkpoint_is_read_again(tmp_path):
    text = write_small("a", "b", top="rounds = 6")
    experiment = mmfl.Experiment.from_toml(text)
    folder = tmp_path / "runs" / "one"
    with stored_rounds(experiment, folder) as rounds:
        for _ in range(3):
            next(rounds)
    visitor = Visitor(folder.parent)
    hub, key = visitor.dashboard.hub, make_id(folder, folder.parent)
    assert b'"rounds":[1,2,3]' in hub._make_event(f"runs/{key}")
    shutil.rmtree(folder)
    other = mmfl.Experiment.from_toml(text, sets=["seed=7"])
    with stored_rounds(other, folder) as rounds:
        for _ in range(2):
            next(rounds)
    visitor.poll()
    event = hub._make_event(f"runs/{key}")
    assert b'"rounds":[1,2]' in event


def test_a_removed_run_says_so_to_its_page(runs):
    visitor = Visitor(runs)
    key = visitor.find("done")
    assert visitor.dashboard.hub._make_event(f"runs/{key}")
    shutil.rmtree(runs / "done")
    visitor.poll()
    assert visitor.dashboard.hub._make_event(f"runs/{key}") is None


def test_all_pages_of_a_run_get_the_same_bytes_made_once(visitor):
    hub, key = visitor.dashboard.hub, visitor.find("rich")
    first = hub._make_event(f"runs/{key}")
    assert hub._make_event(f"runs/{key}") is first


def test_a_page_that_is_too_slow_is_cut_off(visitor):
    hub: Hub = visitor.dashboard.hub

    async def fall_behind() -> list[bytes | None]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(3)
        hub._streams["list"] = {queue}
        for number in range(5):
            hub._deliver("list", b"%d" % number)
        return [queue.get_nowait() for _ in range(queue.qsize())]

    events = asyncio.run(fall_behind())
    assert None in events
    assert len(events) <= 3


def test_a_comparison_is_a_stream_too(visitor, made):
    key = make_id(made / "both", made)
    event = visitor.dashboard.hub._make_event(f"comparisons/{key}")
    assert b"matrix" in event
    assert visitor.dashboard.hub._make_event(f"comparisons/{visitor.find('done')}") is None
