"""One engine for several experiments: in threads, stored, and closed meanwhile."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from contextlib import closing
from threading import Thread
from typing import Any

import pytest

import mmfl
from mmfl.errors import EngineError
from mmfl.experiment import Inline, Local
from mmfl.runs import Run, stored_rounds
from support.calling import Calling
from support.helpers import one_line
from support.waiting import wait_until_done_or_held


@pytest.fixture
def calling(small):
    """An experiment in whose rounds something happens."""
    Calling.act[:] = [lambda: None]
    return dataclasses.replace(small, allocator=Calling(), rounds=2)


@pytest.fixture(params=[Inline(), Local(workers=1)], ids=["inline", "local"])
def engine(request, calling):
    with closing(request.param.open(calling, data_dir=None)) as engine:
        yield engine


def prints(rounds: Any) -> list[str]:
    return [state.fingerprint for state, _ in rounds]


def test_threads_take_turns_round_by_round(engine, calling, small):
    """In each of the first one's rounds the other thread tries to have one of its own."""
    other = dataclasses.replace(small, seed=7, rounds=2)
    alone = prints(mmfl.rounds(calling)), prints(mmfl.rounds(other))
    mine, theirs = (iter(mmfl.rounds(e, engine=engine)) for e in (calling, other))
    threads: list[Thread] = []
    found: tuple[list[str], list[str]] = ([], [])

    def start_other() -> None:
        threads.append(Thread(target=lambda: found[1].append(next(theirs)[0].fingerprint)))
        threads[-1].start()
        wait_until_done_or_held(threads[-1])

    Calling.act[:] = [start_other]
    for state, _ in mine:
        found[0].append(state.fingerprint)
        threads[-1].join()
    assert found == alone


def test_two_stored_runs_that_start_before_their_first_rounds_have_their_own_bits(small):
    other = dataclasses.replace(small, seed=7)
    with closing(small.engine.open(small, data_dir=None)) as engine:
        todo = [
            stored_rounds(e, name, engine=engine) for e, name in ((small, "one"), (other, "two"))
        ]
        for rounds in todo:
            rounds.start()
        for rounds in todo:
            list(rounds)
    for e, name in ((small, "one"), (other, "two")):
        assert Run.load(name).fingerprint == prints(mmfl.rounds(e))[-1]


def test_an_engine_that_another_thread_closes_finishes_its_round(calling):
    engine = Local(workers=1).open(calling, data_dir=None)
    rounds = mmfl.rounds(calling, engine=engine)
    closes = Thread(target=engine.close)

    def close() -> None:
        closes.start()
        wait_until_done_or_held(closes)

    Calling.act[:] = [close]
    state, _ = next(rounds)
    closes.join()
    Calling.act[:] = [lambda: None]
    assert one_line(EngineError, lambda: next(rounds)) == "the engine is closed; open a new one"
    assert state.fingerprint == prints(mmfl.rounds(calling))[0]


def test_an_error_in_a_round_leaves_the_engine_to_other_threads(engine, calling, small):
    def fail() -> None:
        raise ZeroDivisionError

    Calling.act[:] = [fail]
    with pytest.raises(EngineError, match="ZeroDivisionError"):
        next(mmfl.rounds(calling, engine=engine))
    found: list[str] = []
    thread = Thread(target=lambda: found.extend(prints(mmfl.rounds(small, engine=engine))))
    thread.start()
    thread.join()
    assert found == prints(mmfl.rounds(small))


@pytest.mark.parametrize("how", ["rounds", "stored"])
def test_a_run_within_a_round_needs_another_engine(engine, calling, small, how, tmp_path):
    """Otherwise the round would go on with what the inner one prepared."""
    alone = prints(mmfl.rounds(calling))
    said: list[str] = []

    def nest() -> None:
        other = dataclasses.replace(small, seed=7, rounds=1)
        if how == "rounds":
            begin = mmfl.rounds(other, engine=engine).__next__
        else:
            begin = stored_rounds(other, tmp_path / "inner", engine=engine).start
        said.append(one_line(EngineError, begin))

    Calling.act[:] = [nest]
    assert prints(mmfl.rounds(calling, engine=engine)) == alone
    assert set(said) == {
        "the engine is computing a round; code that runs within a round needs another engine"
    }
    assert not (tmp_path / "inner").exists()


@pytest.mark.cold
@pytest.mark.parametrize("begin", ["mmfl.rounds(made)", "stored_rounds(made, 'run')"])
def test_a_program_may_end_in_the_middle_of_a_run(small_toml, begin):
    """Also one that keeps the rounds in a variable: then Python would end them too late."""
    code = "import mmfl; from mmfl.runs import stored_rounds\n"
    code += f"made = mmfl.Experiment.from_toml({small_toml!r})\nkept = {begin}\nnext(kept)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    if "stored" in begin:
        assert (Run.load("run").status, Run.load("run").saved) == ("stopped", 1)
