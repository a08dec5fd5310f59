"""Several runs at the same time: the same bits, nothing lost, nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import sys
from contextlib import closing
from dataclasses import make_dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.comparison import Comparison, compare
from mmfl.comparison.pool import order_runs
from mmfl.errors import ComparisonError, InputError, MmflError, MmflWarning, ResourceError
from mmfl.runs import clear_unfinished
from mmfl.runs.directory.mark import write_mark
from mmfl.system.memory import Memory
from support.experiments import write_small
from support.helpers import one_line
from support.sweeping import TEXT, Quick
from support.warm import children

LOCAL = write_small(engine="workers = 2")


def made(*sets: str, text: str = TEXT) -> Experiment:
    return Experiment.from_toml(text, sets=sets, allow_imports=True)


def trouble(how: str, path: str = "flag") -> Experiment:
    return made(f"allocator.how={how}", f"allocator.path={path}")


def prints(found: dict[str, dict[int, mmfl.Run]]) -> dict[str, dict[int, str]]:
    return {name: {s: run.fingerprint for s, run in runs.items()} for name, runs in found.items()}


def stored(folder: Path) -> list[object]:
    """All that a run's directory holds, but times and processes."""
    with closing(sqlite3.connect(folder / "run.sqlite")) as database:
        tables = [
            database.execute(query).fetchall()
            for query in (
                "SELECT round, active, samples, fresh, chain, assignment FROM round",
                "SELECT * FROM round_task",
                "SELECT * FROM task",
                "SELECT * FROM meta WHERE key NOT IN "
                "('owner', 'seconds_checkpoints', 'seconds_setup', 'token', 'files', 'digest', "
                "'digest_tasks')",
            )
        ]
    models = {path.name: path.read_bytes() for path in (folder / "models").iterdir()}
    return [*tables, models, (folder / "experiment.toml").read_bytes()]


def test_two_at_a_time_are_the_same_runs_to_the_bit():
    given = {name: made(f"allocator={name}", text=LOCAL) for name in ("uniform", "round_robin")}
    plan = Comparison(given, [0, 1], "two")
    assert plan.jobs() == 2
    rounds: dict[str, list[int | None]] = {}
    for run, step in plan.go():
        rounds.setdefault(run.name, []).append(step and step.round)
    assert rounds == {run.name: [1, 2, None] for run in plan.runs}
    assert children() == []
    one = compare(given, [0, 1], "one", jobs=1)
    assert prints(plan.results()) == prints(one)
    for run in plan.runs:
        assert stored(run.folder) == stored(Path("one", *run.folder.parts[1:]))


def test_what_is_finished_is_kept_and_comes_first():
    given = {"x": made(), "y": made("rounds=2")}
    first = compare(given, [1], "out", jobs=1)
    plan = Comparison(given, [0, 1, 2], "out")
    events = [(run.name, step and step.round) for run, step in plan.go(2)]
    assert events[:2] == [("x, seed 1", None), ("y, seed 1", None)]
    assert len(events) == 2 + 2 * (4 + 3)
    found = plan.results()
    assert found["x"][1] == first["x"][1]
    assert prints(found) == prints(compare(given, [0, 1, 2], "other", jobs=1))


@pytest.mark.parametrize(
    ("engine", "asked", "seeds", "jobs"),
    [
        ('{kind="local", workers=3}', "auto", 9, 3),
        ('{kind="local", workers=3}', "auto", 2, 2),
        ('{kind="local", workers=2}', "auto", 15, 2),
        ('{kind="local", workers=8}', "auto", 9, 5),
        ('{kind="local", workers=8}', "auto", 17, 6),
        ('{kind="local", workers=3}', "auto", 1, 1),
        ('{kind="local", workers=1}', "auto", 9, 1),
        ("local", "auto", 2, min(2, len(os.sched_getaffinity(0)))),
        ("inline", "auto", 9, 1),
        ("support.sweeping:Quick", "auto", 9, 1),
        ("inline", 4, 9, 4),
        ("local", 9, 3, 3),
        ("local", 1, 3, 1),
    ],
)
def test_how_many_at_a_time(engine, asked, seeds, jobs):
    plan = Comparison({"x": made(f"engine={engine}", text=LOCAL)}, range(seeds), "out")
    assert plan.jobs(asked) == jobs


def test_more_processes_than_there_is_memory_for_are_refused(monkeypatch):
    monkeypatch.setattr(Memory, "now", classmethod(lambda cls: Memory(machine=10**9)))
    plan = Comparison({"x": made(text=LOCAL)}, range(9999), "out")
    message = one_line(ResourceError, lambda: plan.jobs(9999))
    assert message == (
        "jobs = 9,999 needs about 105 MB in each of 9,999 worker processes; 1.0 GB is free"
    )
    assert plan.jobs(3) == 3


@pytest.mark.parametrize("jobs", [0, -1, 1.5, True, "all"])
def test_other_numbers_are_refused(jobs):
    message = one_line(InputError, lambda: compare({"x": made()}, [0], "out", jobs=jobs))
    assert message == f'jobs must be a whole number >= 1 or "auto", got {jobs!r}'


def test_of_a_seed_the_longest_are_first():
    given = {name: made(f"rounds={n}") for name, n in (("a", 1), ("b", 9), ("c", 5))}
    order = [run.name for run in order_runs(Comparison(given, [3, 1], "out").runs)]
    assert order == [f"{name}, seed {seed}" for seed in (3, 1) for name in "bca"]


@pytest.mark.parametrize("module", ["__main__", "sweeping"])
def test_parts_that_other_processes_cannot_find_are_run_here(module):
    own = make_dataclass("Own", [], frozen=True, namespace={"allocate": None})
    own.__module__ = module
    local = made(text=LOCAL)
    plan = Comparison({"x": local, "y": replace(local, allocator=own())}, [0], "out")
    assert plan.jobs("auto") == 1
    assert plan.jobs(1) == 1
    message = one_line(InputError, lambda: plan.jobs(2))
    assert "in_memory:Own-" in message
    assert message.endswith("move it into a module, or use jobs=1")


def test_data_in_memory_is_not_sent_to_other_processes(tmp_path):
    x = np.arange(24.0).reshape(12, 2)
    data = (x, np.arange(12) % 2, x, np.arange(12) % 2)
    task = mmfl.Task(name="kept", data=data, model={"kind": "mlp", "hidden": [2]})
    kept = Experiment(tasks=(task,), clients=2, rounds=1, engine={"kind": "local", "workers": 2})
    comparison = Comparison({"kept": kept}, [0, 1], tmp_path / "out")
    assert comparison.jobs() == 1
    message = one_line(InputError, lambda: comparison.jobs(2))
    said = "the data of task 'kept' exists only in this program; move it into a module, or "
    assert message == f"{said}use jobs=1"


def test_a_process_that_is_killed_is_replaced_and_the_result_is_the_same():
    calm = compare({"x": made()}, [0, 1, 2], "calm", jobs=1)
    found = compare({"x": trouble("dies once")}, [0, 1, 2], "out", jobs=2)
    assert Path("flag").exists()
    assert prints(found) == prints(calm)
    assert {run.status for run in found["x"].values()} == {"finished"}


def test_a_process_that_is_killed_between_two_runs_is_replaced_and_blamed_on_none(monkeypatch):
    monkeypatch.setattr("mmfl.comparison.pool.LIVES", 1)
    plan = Comparison({"x": made()}, [0, 1, 2], "out")
    killed = 0
    for run, step in plan.go(2):
        if step is None and not killed:
            (lease,) = run.folder.glob("lease-*")
            killed = json.loads(lease.read_text())["pid"]
            os.kill(killed, signal.SIGKILL)
            os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
    assert killed
    assert {run.status for run in plan.results()["x"].values()} == {"finished"}


@pytest.mark.parametrize(
    ("how", "lives", "end"),
    [("dies", 3, "was killed by signal 9"), ("exits", 2, "ended with exit code 5 (that was all)")],
)
def test_a_run_that_costs_three_processes_is_given_up(how, lives, end, monkeypatch):
    monkeypatch.setattr("mmfl.comparison.pool.LIVES", lives)
    given = {"calm": made(), "x": trouble(how)}
    message = one_line(ComparisonError, lambda: compare(given, [0, 1], "out", jobs=2))
    whose = [f"x, seed {s}: its process died {lives} times; the last one {end}" for s in (0, 1)]
    assert message in [f"2 of 4 runs failed: {'; '.join(said)}" for said in (whose, whose[::-1])]
    assert [mmfl.Run.load(f"out/calm/seed-{s}").status for s in (0, 1)] == ["finished"] * 2
    assert children() == []


def test_what_a_process_left_that_died_in_its_first_moment_is_not_in_the_way():
    folder = Path("out/x/seed-0")
    folder.mkdir(parents=True)
    first = {"experiment.toml": b"rounds = 1", "environment.json": b"{}"}
    write_mark(folder, first)
    (folder / "experiment.toml").write_bytes(first["experiment.toml"])
    sqlite3.connect(folder / "run.sqlite").close()
    clear_unfinished(folder)
    assert not folder.exists()
    clear_unfinished(folder)
    run = compare({"x": made()}, [0], "out", jobs=1)["x"][0]
    clear_unfinished(folder)
    assert mmfl.Run.load(folder) == run
    (folder.parent / "thesis.txt").touch()
    clear_unfinished(folder.parent)
    assert folder.exists()


def _without_place(error: Exception) -> str:
    return re.sub(
        r"the allocator Trouble[^)]*\) failed: | \(sweeping.py, line .*?now\"\)\)", "", str(error)
    )


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("how", "said"), [("refuses", "not this one"), ("raises", "ZeroDivisionError: what now")]
)
def test_a_run_that_fails_is_named_and_the_others_are_finished(jobs, how, said):
    given = {"bad": trouble(how), "calm": made()}
    plan = Comparison(given, [0, 1], "out")
    events = []
    with pytest.raises(ComparisonError) as caught:
        events.extend((run.name, event) for run, event in plan.go(jobs))
    whose = [f"bad, seed {seed}: {said}" for seed in (0, 1)]
    assert _without_place(caught.value) in [
        f"2 of 4 runs failed: {'; '.join(x)}" for x in (whose, whose[::-1])
    ]
    assert [_without_place(plan.failed["bad", seed]) for seed in (0, 1)] == whose
    assert [mmfl.Run.load(f"out/bad/seed-{seed}").status for seed in (0, 1)] == ["failed"] * 2
    found = plan.results()
    assert found["bad"] == {}
    assert prints(found)["calm"] == prints(compare({"c": made()}, [0, 1], "alone", jobs=1))["c"]
    assert children() == []
    again = Comparison(given, [0, 1], "out")
    assert [run.done for run in again.runs] == [False, True, False, True]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_changes_the_current_folder_changes_it_for_no_other(jobs, tmp_path):
    given = {"leaves": trouble("leaves"), "calm": made()}
    found = compare(given, [0, 1, 2], "out", jobs=jobs)
    assert Path.cwd() == tmp_path
    assert prints(found)["leaves"] == prints(found)["calm"]
    assert {run.folder for runs in found.values() for run in runs.values()} == {
        Path("out", name, f"seed-{seed}") for name in given for seed in (0, 1, 2)
    }


def test_after_a_run_that_fails_the_next_one_gets_another_engine(monkeypatch):
    opened = []
    real = Quick.open
    monkeypatch.setattr(
        Quick, "open", lambda *args, **given: opened.append(real(*args, **given)) or opened[-1]
    )
    with pytest.raises(ComparisonError):
        compare({"bad": trouble("refuses"), "calm": made()}, [0], "out", jobs=1)
    assert len(opened) == 2


def test_an_interruption_stops_all_runs(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("support.sweeping.Trouble.make", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compare({"x": made(), "y": made()}, [0], "out", jobs=1)
    assert [path.name for path in Path("out").iterdir()] == ["x"]


def test_a_mistake_in_a_later_variant_is_found_before_any_is_run():
    given = {
        "good": made(),
        "bad": made("clients.active=0.01"),
        "worse": made("clients.active=0.02"),
    }
    message = one_line(MmflError, lambda: compare(given, [0], "out", jobs=2))
    assert message.startswith("bad, seed 0: clients.active = 0.01")
    assert not Path("out").exists()


def test_an_error_that_is_none_of_ours_comes_with_its_traceback():
    given = {"x": made("engine.kind=support.sweeping:Broken")}
    with pytest.raises(ComparisonError, match=r"x, seed .: TypeError: math.sqrt") as caught:
        compare(given, [0, 1], "out", jobs=2)
    assert "return (self.turn(job, " in "".join(caught.value.__notes__)


def test_warnings_come_through():
    with pytest.warns(MmflWarning, match="^beware$"):
        compare({"x": trouble("warns")}, [0, 1], "out", jobs=2)


def test_a_process_computes_with_one_thread_and_says_what_was_typed(tmp_path):
    found = compare({"x": trouble("notes", str(tmp_path / "note"))}, [0, 1], "out", jobs=2)
    assert (tmp_path / "note").read_text() == "11"
    text = (found["x"][1].folder / "environment.json").read_text()
    assert Path(sys.argv[0]).name in text
    assert "sweeper" not in text


def test_broken_off_it_goes_on_where_it_was():
    given = {"x": made("rounds=2000"), "y": made("rounds=3")}
    with closing(Comparison(given, [0, 1], "out").go(2)) as steps:
        for run, step in steps:
            if run.name == "x, seed 0" and step:
                break
    assert mmfl.Run.load("out/x/seed-0").status == "stopped"
    assert children() == []
    plan = Comparison(given, [0, 1], "out")
    assert not plan.runs[0].done


def test_a_fork_of_a_process_that_does_runs_ends_and_nobody_hears_of_it():
    seen = compare({"calm": trouble("none"), "forks": trouble("forks")}, [0], "out", jobs=2)
    assert Path("flag").read_text() == "0"
    assert [run.status for runs in seen.values() for run in runs.values()] == ["finished"] * 2
    calm, forks = (stored(Path("out", name, "seed-0"))[:2] for name in ("calm", "forks"))
    assert calm == forks
