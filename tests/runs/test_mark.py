"""Only what carries our own mark is removed or replaced, wherever a run is killed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import mmfl
from mmfl import Experiment, Run
from mmfl.comparison import compare
from mmfl.errors import MmflWarning, StoreError
from mmfl.experiment import Checkpoints
from mmfl.runs import RunStore, clear_unfinished, stored_rounds
from mmfl.runs.directory.mark import MARK, is_marked, read_mark
from mmfl.runs.resume import find_resumable
from mmfl.system.calls import intercept
from support.helpers import one_line


def snapshot(folder: Path | str) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "names",
    [
        ["experiment.toml"],
        ["experiment.toml", "environment.json"],
        ["run.sqlite"],
        ["run.sqlite-wal"],
        ["thesis.txt"],
        [MARK],
        [MARK, "experiment.toml"],
    ],
)
def test_a_folder_of_the_users_is_refused_and_left_alone(small, names):
    Path("mine").mkdir()
    for name in names:
        Path("mine", name).write_text("# my comment\nrounds = 1\n")
    before = snapshot("mine")
    assert "'mine'" in one_line(StoreError, lambda: mmfl.run(small, "mine", resume=True))
    assert snapshot("mine") == before
    clear_unfinished(Path("mine"))
    assert snapshot("mine") == before


def test_a_folder_of_the_users_is_no_place_for_a_comparison(small):
    folder = Path("out/x/seed-0")
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(small.to_toml())
    os.utime(folder, (0, 0))
    assert "is not a run directory" in one_line(
        StoreError, lambda: compare({"x": small}, [0], "out")
    )
    assert snapshot("out") == {folder / "experiment.toml": small.to_toml().encode()}


def test_an_empty_folder_of_the_users_stays(small):
    Path("mine").mkdir()
    missing = Experiment.from_toml(small.to_toml(), sets=["tasks.dense.dataset=nowhere"])
    with pytest.raises(mmfl.errors.MmflError):
        mmfl.run(missing, "mine", resume=True)
    clear_unfinished(Path("mine"))
    assert Path("mine").is_dir()
    assert mmfl.run(small, "mine", resume=True).status == "finished"


def killed(stop: int, act: Callable[[], object]) -> bool:
    """Do something in a process that is gone at its n-th system call; whether it got that far."""
    child = os.fork()
    if child == 0:
        count = 0

        def step(name, function, args, options):
            nonlocal count
            count += 1
            if count > stop:
                os._exit(9)
            return function(*args, **options)

        try:
            with intercept(step):
                act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_killed_at_any_call_while_it_is_made_the_folder_is_ours_and_starts_over(small):
    resolved = small.resolved()
    states = set()
    for stop in range(0, 200, 6):  # chaos/calls kills at every one
        folder = Path(f"begun-{stop}")
        gone = killed(stop, lambda: RunStore.create(folder, resolved).close())  # noqa: B023
        states.add(frozenset(os.listdir(folder)) if folder.exists() else None)
        again = Path(f"again-{stop}")
        if folder.exists() and stop % 12 == 0:
            shutil.copytree(folder, again)
            killed(stop // 12 % 5, lambda: clear_unfinished(again))  # noqa: B023  # while it is cleared
            clear_unfinished(again)
            assert not again.exists() or not is_marked(again) or Run.load(again).rounds == 0
        found = find_resumable(folder, small)
        if found is None:
            assert not folder.exists() or not list(folder.iterdir())
            RunStore.create(folder, resolved).close()
        else:
            found.close()
        assert Run.load(folder).rounds == 0
        if not gone:
            assert len(states) > 5
            return
    pytest.fail("it never came to the end")


DEBRIS = bytes(range(100, 256))  # what a disk may show where nothing was written yet


@pytest.mark.parametrize("content", [b"", b'{"mmfl": "run dir', b'{"mmfl"' + bytes(40), DEBRIS])
def test_a_mark_that_was_cut_short_is_ours_if_it_is_alone(small, content):
    for name in ("alone", "not alone"):
        Path(name).mkdir()
        Path(name, MARK).write_bytes(content)
        assert is_marked(Path(name))
        assert read_mark(Path(name)) is None
    Path("not alone/experiment.toml").write_text("rounds = 1")
    assert not is_marked(Path("not alone"))
    with pytest.raises(StoreError, match="'not alone' is not a run directory"):
        mmfl.run(small, "not alone", resume=True)
    assert Path("not alone/experiment.toml").exists()
    assert mmfl.run(small, "alone", resume=True).status == "finished"


def test_a_file_that_was_put_into_a_folder_that_was_left_in_its_first_moment_stays(small):
    for stop in range(100):
        shutil.rmtree("run", ignore_errors=True)
        killed(stop, lambda: RunStore.create(Path("run"), small.resolved()))
        if is_marked(Path("run")) and read_mark(Path("run")):
            break
    assert not Path("run/experiment.toml").exists()
    Path("run/experiment.toml").write_text("# my own")
    said = one_line(StoreError, lambda: mmfl.run(small, "run", resume=True))
    assert said.startswith("'run/experiment.toml' was not written by mmfl")
    assert Path("run/experiment.toml").read_text() == "# my own"


def test_files_of_the_users_among_checkpoints_stay(small):
    experiment = replace(small, rounds=5, checkpoints=Checkpoints(rounds=1, keep=1))
    with stored_rounds(experiment, "run") as rounds:
        next(rounds)
        mine = Path("run/checkpoints")
        for name in (
            *("notes.json", "best.safetensors", "download.part", "round-00000001.json"),
            *("model-dense.0123456789abcdef.safetensors", "round-00000000.0123456789abcdef.json"),
        ):
            (mine / name).write_bytes(b"precious")
        (mine / "clients.0123456789abcdef.safetensors").mkdir()
        before = {p.name for p in mine.iterdir() if p.is_dir() or p.read_bytes() == b"precious"}
        next(rounds)
    run = mmfl.run(experiment, "run", resume=True)
    assert run.status == "finished"
    assert before <= {path.name for path in mine.iterdir()}
    assert len(before) == 7
    assert len([n for n in os.listdir(mine) if n.startswith("round-0000000")]) == 3


def test_a_file_of_absurd_size_among_checkpoints_is_not_read(small):
    experiment = replace(small, checkpoints=Checkpoints(rounds=1, keep=1))
    with stored_rounds(experiment, "run") as rounds:
        next(rounds)
    (model,) = Path("run/checkpoints").glob("model-dense.*")
    os.truncate(model, 1 << 42)  # it would take an hour
    with pytest.warns(MmflWarning, match="from the start"):
        assert mmfl.run(experiment, "run", resume=True).status == "finished"


@pytest.mark.parametrize(
    "name", ["experiment.toml", "environment.json", "models/dense.safetensors"]
)
def test_a_file_that_was_changed_since_is_not_replaced(small, name):
    mmfl.run(small, "run")
    with Path("run", name).open("ab") as file:
        file.write(b"\n# mine")
    before = snapshot("run")
    said = one_line(StoreError, lambda: mmfl.run(replace(small, rounds=4), "run", resume=True))
    assert f"{name} does not match its hash" in said
    assert snapshot("run") == before


@pytest.mark.slow
def test_a_kill_while_files_are_replaced_leaves_a_run_that_goes_on(small):
    experiment = replace(small, rounds=2, checkpoints=Checkpoints(rounds=1))
    longer = replace(experiment, rounds=3)
    mmfl.run(experiment, "made")
    straight = mmfl.run(longer, "straight").fingerprint

    def go_on(folder: str) -> Callable[[], object]:
        return lambda: next(iter(stored_rounds(longer, folder, resume=True)))

    done = 0
    for stop in range(20, 1000, 46):
        folder = f"run-{stop}"
        shutil.copytree("made", folder)
        if not killed(stop, go_on(folder)):
            break
        done += 1
        if done % 3 == 0:
            assert mmfl.run(longer, folder, resume=True).fingerprint == straight
        else:
            found = find_resumable(Path(folder), longer)
            assert found is not None
            found.close()
    assert done > 2
