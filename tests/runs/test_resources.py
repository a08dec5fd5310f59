"""When the disk refuses: one sentence, what was there before stays, and the run can go on."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import mmfl
from mmfl import Experiment, Run
from mmfl.errors import EngineError, StoreError
from mmfl.experiment import Checkpoints
from support.helpers import one_line


@contextmanager
def file_size(limit: int) -> Iterator[None]:
    """No file may grow beyond so many bytes; Python turns the signal into an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def wide(small) -> Experiment:
    """Models of 300 kB, saved after every round."""
    text = small.to_toml()
    wide = Experiment.from_toml(text, sets=["tasks.dense.model.hidden=[256, 256]"])
    return replace(wide, rounds=4, checkpoints=Checkpoints(rounds=1))


@pytest.mark.slow
def test_a_limit_on_files_is_one_sentence_and_the_run_can_go_on(wide):
    straight = mmfl.run(wide, "straight")
    largest = max(path.stat().st_size for path in Path("straight").rglob("*"))
    begun = 0
    for number, limit in enumerate([0, 500, 3000, 20_000, 70_000, 150_000, largest - 1]):
        folder = Path(f"run-{number}")
        with file_size(limit):
            said = one_line(StoreError, lambda: mmfl.run(wide, folder))  # noqa: B023
        assert str(folder) in said
        begun += folder.exists()
        assert not list(Path().rglob("*.part"))
        assert mmfl.run(wide, folder, resume=True).fingerprint == straight.fingerprint
    assert begun > 1, "else nothing was ever there to go on with"


def test_a_run_that_cannot_be_begun_leaves_nothing(wide):
    with file_size(500):
        one_line(StoreError, lambda: mmfl.run(wide, "deep/run"))
    assert not Path("deep/run").exists()


def test_a_disk_that_fills_up_later_leaves_what_was_there(wide):
    with file_size(10**9):
        one = mmfl.run(replace(wide, rounds=2), "run")
    before = {path: path.read_bytes() for path in Path("run/checkpoints").iterdir()}
    with file_size(200_000):
        said = one_line(StoreError, lambda: mmfl.run(wide, "run", resume=True))
    assert "cannot write a checkpoint" in said
    assert all(path.read_bytes() == content for path, content in before.items())
    assert Run.load("run").status == "failed"
    assert mmfl.run(wide, "run", resume=True).fingerprint == mmfl.run(wide).fingerprint
    assert one.fingerprint != Run.load("run").fingerprint


@pytest.mark.parametrize("out", ["/proc/run", "/sys/run", "file/run"])
def test_a_folder_that_cannot_be_made_is_one_sentence(wide, out):
    Path("file").touch()
    assert out in one_line(StoreError, lambda: mmfl.run(wide, out))


def test_no_room_for_temporary_files_is_one_sentence(wide, monkeypatch):
    local = Experiment.from_toml(wide.to_toml(), sets=["engine.kind=local", "engine.workers=1"])

    def refuse(*_, **__):
        raise FileNotFoundError(2, "No usable temporary directory found")

    with monkeypatch.context() as patched:
        patched.setattr("tempfile.TemporaryFile", refuse)
        assert "TMPDIR" in one_line(EngineError, lambda: mmfl.run(local, "run"))
    with file_size(5000):
        assert "TMPDIR" in one_line(EngineError, lambda: mmfl.run(local, "run"))
    assert not Path("run").exists()
