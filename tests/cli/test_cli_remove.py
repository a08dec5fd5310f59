"""``mmfl remove``: it asks, and removes only what mmfl wrote."""

from __future__ import annotations

import io
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

import mmfl
from mmfl.runs import is_marked, remove_run, stored_rounds
from mmfl.system.calls import intercept
from support.experiments import write_small


@pytest.fixture(scope="module")
def made(tmp_path_factory, small_toml) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    mmfl.run(mmfl.Experiment.from_toml(small_toml), folder / "one")
    return folder


@pytest.fixture(autouse=True)
def run(made) -> Path:
    shutil.copytree(made, "runs")
    return Path("runs/one")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_asks_and_removes_the_run(call, monkeypatch, run):
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    code, out, _ = call("remove", run)
    assert (code, run.exists()) == (1, True)
    assert out.startswith("runs/one: 1 run, finished, 3 of 3 rounds\nRemove 1 run (")
    assert out.endswith("nothing was removed\n")
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert call("remove", run)[0] == 0
    assert not run.exists()


def test_without_a_terminal_it_needs_yes(call, monkeypatch, run):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    code, _, err = call("remove", run)
    assert (code, run.exists()) == (2, True)
    assert err == "mmfl: nothing is removed without an answer; use --yes where nobody can answer\n"
    assert call("remove", run, "--yes")[0] == 0
    assert not run.exists()


def names(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda run: (run / "mine.txt").touch(), "it holds 'mine.txt', which mmfl did not write"),
        (lambda run: (run / "models/mine.pt").touch(), "it holds 'models/mine.pt', which mmfl did"),
        (lambda run: (run / "checkpoints/mine").mkdir(), "it holds 'checkpoints/mine', which mmf"),
        (lambda run: (run / "mmfl-run.json").unlink(), "has no mmfl-run.json, so it may be yours"),
        (lambda run: (run / "mmfl-run.json").write_text("{}"), "has no mmfl-run.json, so it may"),
        (
            lambda run: swap(run / "models"),
            "'runs/one/models' is a link that does not belong to th",
        ),
    ],
)
def test_what_mmfl_did_not_write_stays(call, run, spoil, said):
    spoil(run)
    before = names(Path())
    code, _, err = call("remove", run, "--yes")
    assert (code, err.count("\n")) == (2, 1)
    assert said in err
    assert names(Path()) == before


def swap(folder: Path) -> None:
    folder.rename("elsewhere")
    folder.symlink_to(Path("elsewhere").resolve())


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("gone", "'gone' does not exist"),
        ("file", "'file' is a file, not a run directory"),
        ("mine", "'mine' is not a run directory (it has no mmfl-run.json)"),
        ("runs", "'runs' is not a run directory (it has no mmfl-run.json)"),
        ("link", "'link' is a link; name the run directory itself"),
    ],
)
def test_what_is_no_run_is_refused(call, run, name, sentence):
    Path("file").touch()
    Path("mine").mkdir()
    Path("link").symlink_to(run)
    before = names(Path())
    assert call("remove", run, name, "--yes") == (2, "", f"mmfl: {sentence}\n")
    assert names(Path()) == before


def test_a_run_in_use_is_refused(call, small):
    with stored_rounds(small, "live") as rounds:
        next(rounds)
        code, _, err = call("remove", "live", "--yes")
        assert (code, err) == (2, "mmfl: 'live' is in use by another process; stop it first\n")
        with pytest.raises(mmfl.errors.StoreError, match="'live' is in use by another process"):
            remove_run(Path("live"))
        next(rounds)
    assert call("remove", "live", "--yes")[0] == 0
    assert not Path("live").exists()


def test_a_comparison_is_removed_with_its_tables_but_not_with_files_of_the_user(call):
    Path("e.toml").write_text(write_small())
    vary = ("--vary", "allocator.kind=fed_fair,uniform", "--seeds", "0", "--jobs", "1")
    assert call("compare", "e.toml", *vary, "--out", "both", "-q")[0] == 0
    before = names(Path("both"))
    for mine in (Path("both/uniform/notes.txt"), Path("both/comparison.md")):
        kept = mine.read_bytes() if mine.exists() else None
        mine.write_text("mine")
        code, _, err = call("remove", "both", "--yes")
        said = f"it holds {str(mine.relative_to('both'))!r}, which mmfl did not write"
        assert (code, said in err) == (2, True)
        mine.unlink() if kept is None else mine.write_bytes(kept)
    assert names(Path("both")) == before
    code, out, _ = call("remove", "both", "--yes")
    assert (code, Path("both").exists()) == (0, False)
    assert out.startswith("both: 2 runs, finished, 4 of 4 rounds\nremoved 2 runs, ")


def test_a_removal_that_was_cut_short_can_be_done_again(run):
    left = 0
    while run.exists():
        left += 1
        count = 0

        def fail(name, act, args, kwargs, most=left):
            nonlocal count
            count += name in ("unlink", "rmdir")
            if count > most:
                raise OSError(5, os.strerror(5))
            return act(*args, **kwargs)

        with intercept(fail), suppress(mmfl.errors.StoreError):
            remove_run(run)
        assert is_marked(run) or not names(run)
        if run.exists() and not names(run):  # all but the folder itself
            run.rmdir()
    assert left > 1
