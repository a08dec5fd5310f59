"""A few of the failing calls of ``make chaos``."""

from __future__ import annotations

import random
import re
import threading
from collections import Counter

import pytest

from chaos.calls.injector import FAILURES, Call, Injector, read_log
from chaos.calls.run import Harness, plan_cases, warm_up
from chaos.calls.scenarios import SCENARIOS, run_command
from mmfl.system import calls

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def some_calls(*names: str, thread: str = "") -> list[Call]:
    return [Call(number, name, thread) for number, name in enumerate(names, 1)]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Harness:
    warm_up()
    return Harness(BY_NAME["run"], tmp_path_factory.mktemp("run"))


def test_every_call_that_there_is_can_be_made_to_fail():
    assert set(FAILURES) == set(calls.NAMES)


def test_each_call_gets_its_failures_and_a_kill():
    known = some_calls("open", "write", "now")
    cases = plan_cases(known, None, random.Random(0))
    assert {how for call, how in cases if call.number == 1} == {*FAILURES["open"], "kill"}
    assert [*dict.fromkeys(call for call, _ in cases)] == known
    once = plan_cases(known, 1, random.Random(0))
    assert [call.number for call, _ in once] == [1, 1, 2, 2, 3, 3]


def test_few_calls_of_each_name_may_be_taken_in_each_thread():
    known = some_calls("open", "write", "open", "write", "write", "now")
    known += some_calls("write", "write", "write", thread="lease")
    cases = plan_cases(known, 1, random.Random(0), few=2)
    taken = Counter((call.thread, call.name) for call, how in cases if how == "kill")
    counts = {("", "open"): 2, ("", "write"): 2, ("", "now"): 1, ("lease", "write"): 2}
    assert taken == counts
    assert len(cases) == 2 * sum(counts.values())


def test_the_injector_strikes_once_or_for_good(tmp_path):
    with calls.intercept(Injector(2, "EIO")):
        calls.perf_counter()
        with pytest.raises(OSError, match="Input/output error"):
            calls.status(tmp_path)
        calls.status(tmp_path)
    with calls.intercept(Injector(1, "EACCES+")):
        for _ in range(2):
            with pytest.raises(PermissionError):
                calls.status(tmp_path)
        calls.list_folder(tmp_path)
    before = calls.now()
    with calls.intercept(Injector(1, "back")):
        assert calls.now() < before - 80_000
        assert calls.now() < before - 80_000


def test_the_injector_strikes_in_the_thread_that_is_named(tmp_path):
    failed = []

    def work() -> None:
        for number in (1, 2, 3):
            try:
                calls.status(tmp_path)
            except OSError:
                failed.append((threading.current_thread().name, number))

    def start(name: str) -> None:
        thread = threading.Thread(target=work, name=name)
        thread.start()
        thread.join()

    mark, log = tmp_path / "mark", tmp_path / "log"
    with calls.intercept(Injector(2, "EIO", str(log), thread="beat #2", mark=str(mark))):
        start("beat")
        work()
        assert not mark.exists()
        start("beat")
    assert failed == [("beat", 2)]
    assert mark.exists()
    threads = ("", "beat", "beat #2")
    assert read_log(log) == [
        call for thread in threads for call in some_calls(*["stat"] * 3, thread=thread)
    ]


def test_a_call_that_does_not_come_is_not_reached(run):
    broken, outcome = run.examine(Call(10_000, "pwrite", "mmfl-lease"), "kill")
    assert (broken, outcome.code, outcome.reached) == ([], 0, False)


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        ("models/first.safetensors", "models/first.safetensors: damaged"),
        ("checkpoints/**/*.*", "checkpoints/.*: damaged"),
        ("experiment.toml", "experiment.toml: damaged"),
    ],
)
def test_damage_that_no_row_shows_is_found(run, damaged, said, tmp_path):
    (tmp_path / "small.toml").write_text((run.prepared / "small.toml").read_text())
    assert run_command(run.scenario, tmp_path).code == 0
    assert [*run.find_damage(tmp_path)] == []
    for path in (tmp_path / "out").glob(damaged):
        path.write_bytes(path.read_bytes()[:-1])
    (tmp_path / "out/left.part").touch()
    found = "\n".join(run.find_damage(tmp_path))
    assert "an unfinished file: left.part" in found
    assert re.search(said, found), found


def test_a_run_keeps_its_promises_whatever_call_fails(run):
    examine(run, plan_cases(run.calls, 1, random.Random(3)), 6)


def test_a_run_keeps_its_promises_whatever_call_of_another_thread_fails(run):
    others = [call for call in run.calls if call.thread]
    assert {call.thread for call in others} == {"mmfl-lease"}
    examine(run, plan_cases(others, 1, random.Random(3)), 2)


def test_a_run_keeps_its_promises_whatever_file_cannot_be_read(tmp_path):
    warm_up()
    harness = Harness(BY_NAME["run, from files"], tmp_path)
    reads = [call for call in harness.calls if call.name in {"read", "readinto"}]
    examine(harness, plan_cases(reads, 1, random.Random(3)), 3)


@pytest.mark.slow
@pytest.mark.cold
def test_a_run_with_workers_keeps_its_promises(tmp_path):
    warm_up()
    harness = Harness(BY_NAME["run in a thread, with workers"], tmp_path)
    assert {"program", "start processes", "watch child"} <= {c.thread for c in harness.calls}
    some = [c for c in harness.calls if c.name in {"spawn", "send", "receive", "mmap", "wait"}]
    examine(harness, plan_cases(some, 1, random.Random(3), few=1), 6)


def examine(harness: Harness, cases: list[tuple[Call, str]], count: int) -> None:
    """Run some of the cases; none may break a promise."""
    for call, how in random.Random(3).sample(cases, count):
        broken, outcome = harness.examine(call, how)
        assert not broken, (call, how, outcome)
