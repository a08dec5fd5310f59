"""A pipe, a device or a folder in the place of any file of a run is one sentence, never a wait."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import mmfl
from mmfl import Run
from mmfl.cli import main
from mmfl.comparison.planned import Hashes, load_finished
from mmfl.errors import MmflError, MmflWarning
from mmfl.experiment import Checkpoints
from mmfl.runs import stored_rounds, verify
from support.helpers import one_line
from support.marks import slow
from support.rewriting import make_older

NAMES = [
    *("run.sqlite", "run.sqlite-wal", "run.sqlite-shm", "run.sqlite-journal", "mmfl-run.json"),
    *("experiment.toml", "environment.json", "models", "models/dense.safetensors"),
    *("checkpoints", "checkpoints/round-*.json", "checkpoints/model-dense.*.safetensors"),
]


class _WaitsError(BaseException):
    """Not an `OSError`, which might be taken for one of the file's."""


@pytest.fixture(autouse=True)
def _no_wait() -> Iterator[None]:
    """What waits for a pipe is interrupted after a while."""

    def wake(*_: object) -> None:
        raise _WaitsError

    before = signal.signal(signal.SIGALRM, wake)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def made(small_toml, tmp_path_factory) -> Path:
    experiment = mmfl.Experiment.from_toml(small_toml, sets=["checkpoints.keep=1"])
    return mmfl.run(experiment, tmp_path_factory.mktemp("made") / "run").folder


def replaced(folder: Path, name: str, kind: str) -> None:
    path = next(iter(folder.glob(name)), folder / name)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_a_file_is_one_sentence(made, small, name, kind):
    shutil.copytree(made, "run")
    replaced(Path("run"), name, kind)
    if name.startswith(("run.sqlite", "environment.json", "experiment.toml")):
        assert "'run'" in one_line(MmflError, lambda: Run.load("run"))
    else:
        assert Run.load("run").status == "finished"
    if name not in ("checkpoints", "models") or kind != "folder":
        assert verify("run").damaged
    for act in (
        lambda: load_finished(Path("run"), small, Hashes(None)),
        lambda: mmfl.run(replace(small, rounds=4), "run", resume=True),
    ):
        try:
            act()
        except MmflError as error:
            assert "\n" not in str(error)  # noqa: PT017
        except MmflWarning:
            pass


@pytest.fixture(scope="module")
def unfinished(small_toml, tmp_path_factory) -> Path:
    experiment = mmfl.Experiment.from_toml(small_toml, sets=["checkpoints.keep=1"])
    folder = tmp_path_factory.mktemp("unfinished") / "run"
    with stored_rounds(experiment, folder) as rounds:
        next(rounds)
    return folder


@pytest.mark.parametrize("older", [False, slow(True)])
@pytest.mark.parametrize("kind", ["pipe", slow("device"), slow("folder")])
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("models")])
def test_the_same_in_an_unfinished_run(unfinished, small, monkeypatch, capsys, name, kind, older):
    shutil.copytree(unfinished, "run")
    if older:
        make_older("run")
    replaced(Path("run"), name, kind)
    monkeypatch.setattr("sys.argv", ["mmfl", "status", "run"])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    if ended.value.code:
        assert len(err.splitlines()) == 1
    else:
        assert "resume after round 1 with" in out
    for act in (
        lambda: verify("run"),
        lambda: load_finished(Path("run"), small, Hashes(None)),
        lambda: mmfl.run(small, "run", resume=True),
    ):
        try:
            act()
        except MmflError as error:
            assert "\n" not in str(error)  # noqa: PT017
        except MmflWarning:
            pass


def test_an_unfinished_file_that_is_a_pipe_is_in_the_way_and_says_so(small):
    experiment = replace(small, checkpoints=Checkpoints(rounds=1))
    with stored_rounds(experiment, "run") as rounds:
        next(rounds)
    os.mkfifo("run/environment.json.part")
    said = one_line(MmflError, lambda: mmfl.run(experiment, "run", resume=True))
    assert "environment.json.part exists and is not a regular file" in said
    os.unlink("run/environment.json.part")
    assert mmfl.run(experiment, "run", resume=True).status == "finished"


def test_nothing_is_written_through_a_link(small):
    Path("precious").write_text("precious")
    mmfl.run(small, "run")
    Path("run/experiment.toml.part").symlink_to(Path("precious").resolve())
    one_line(MmflError, lambda: mmfl.run(replace(small, rounds=4), "run", resume=True))
    assert Path("precious").read_text() == "precious"
