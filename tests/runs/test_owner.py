"""Whose a run directory is, while others move it, remove its files, fork or start at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from torch import nn

import mmfl
from mmfl import Run
from mmfl.allocate import Uniform
from mmfl.errors import MmflWarning, StoreError
from mmfl.runs import RunStore, clear_unfinished, database, is_owned, stored_rounds, verify
from mmfl.runs.directory.lock import Lease
from mmfl.runs.directory.mark import read_mark, remove_beginning, write_mark
from mmfl.system.calls import intercept
from support.forking import fork_and_wait
from support.helpers import one_line

FIRST = {"experiment.toml": b"rounds = 1", "environment.json": b"{}"}


def inodes(folder: str) -> dict[str, int]:
    """From the names of the database's files to what they stand for."""
    return {path.name: path.stat().st_ino for path in Path(folder).glob("run.sqlite*")}


@pytest.mark.parametrize("how", ["goes on", "is closed"])
def test_a_run_that_was_moved_leaves_a_new_one_at_its_old_path_alone(small, how):
    straight = mmfl.run(small, "straight").fingerprint
    old = stored_rounds(small, "run")
    next(old)
    os.rename("run", "moved")
    with stored_rounds(small, "run") as new:
        next(new)
        before = inodes("run")
        assert set(before) == {"run.sqlite", "run.sqlite-wal", "run.sqlite-shm"}
        if how == "goes on":
            said = one_line(StoreError, lambda: next(old))
            assert said.startswith("'run' was moved or removed during the run; move it back")
        else:
            with pytest.warns(MmflWarning, match="checkpoint is missing: 'run' was moved"):
                old.close()
        assert inodes("run") == before
        list(new)
    assert Run.load("run").fingerprint == straight
    assert mmfl.run(small, "moved", resume=True).fingerprint == straight


@pytest.mark.parametrize("done", [0, 1])
def test_a_run_stays_where_it_was_asked_for_whatever_the_current_folder_is(small, tmp_path, done):
    Path("elsewhere").mkdir()
    with stored_rounds(small, "run") as rounds:
        assert rounds.folder == Path("run")
        for _ in range(done):
            next(rounds)
        os.chdir("elsewhere")
        assert len(list(rounds)) == small.rounds - done
    assert os.listdir() == []
    assert rounds.folder == tmp_path / "run"
    run = Run.load(rounds.folder)
    assert (run.status, run.saved) == ("finished", small.rounds)
    assert (tmp_path / "run/models/dense.safetensors").exists()


def test_messages_show_the_folder_as_it_was_given_when_the_current_one_has_changed(small):
    Path("elsewhere").mkdir()
    with closing(RunStore.create(Path("run"), small.resolved())) as store:
        os.chdir("elsewhere")
        store.note(reason="this is stored")
        shutil.rmtree("../run")
        said = one_line(StoreError, lambda: store.note(reason="this is not"))
    assert said.startswith("'run' was moved or removed")


def test_a_run_whose_database_has_another_hard_link_is_not_written(small):
    with stored_rounds(small, "run") as rounds:
        next(rounds)
    shutil.copytree("run", "linked", copy_function=os.link)
    content = Path("run/run.sqlite").read_bytes()
    for folder in ("run", "linked"):
        said = one_line(StoreError, lambda f=folder: mmfl.run(small, f, resume=True))
        assert "run.sqlite has another hard link" in said
        assert "copy the run with cp -r" in said
    assert Path("run/run.sqlite").read_bytes() == content
    shutil.copytree("linked", "copied")
    assert mmfl.run(small, "copied", resume=True).status == "finished"


def test_a_run_whose_database_is_a_symbolic_link_is_not_written(small):
    mmfl.run(small, "run")
    shutil.copytree("run", "linked", copy_function=lambda a, b: os.symlink(Path(a).resolve(), b))
    more = replace(small, rounds=small.rounds + 1)
    said = one_line(StoreError, lambda: mmfl.run(more, "linked", resume=True))
    assert "run.sqlite is a symbolic link, so another run would change with it" in said
    assert "copy the run with cp -rL" in said
    assert not verify("run").damaged
    shutil.copytree("linked", "copied")
    assert mmfl.run(more, "copied", resume=True).status == "finished"
    Path("dangling").mkdir()
    Path("dangling/run.sqlite").symlink_to("elsewhere")
    one_line(StoreError, lambda: mmfl.run(small, "dangling", resume=True))
    assert not Path("dangling/elsewhere").exists()


FORKS = """
import os, sys
from pathlib import Path
from mmfl import Experiment, Run
from mmfl.errors import StoreError
from mmfl.runs import is_owned, stored_rounds
experiment = Experiment.from_toml(Path("small.toml").read_text())
ended, end = os.pipe()
with stored_rounds(experiment, "run") as rounds:
    next(rounds)
    # To read the database here drops SQLite's locks on it: nothing keeps the child from closing it.
    before = {path.name: path.read_bytes() for path in Path("run").glob("*") if path.is_file()}
    child = os.fork()
    if not child:
        try:
            next(rounds)
        except StoreError as error:
            print(error, flush=True)
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    lease = next(name for name in before if name.startswith("lease"))
    del before[lease]  # its counter may have advanced
    assert b'"released": false' in Path("run", lease).read_bytes()
    assert {name: Path("run", name).read_bytes() for name in before} == before
    assert not Path("run/checkpoints").exists()
    waits = os.fork()
    if not waits:
        os.close(end)
        os.read(ended, 1)  # until the other end is closed
        os._exit(0)
    assert is_owned(Path("run"))
    assert len(list(rounds)) == 2
assert not is_owned(Path("run")), "the second child holds the lock"
os.close(end)
os.waitpid(waits, 0)
print(os.getpid(), Run.load("run").fingerprint)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_from_the_owner_is_not_an_owner(small, small_toml):
    Path("small.toml").write_text(small_toml)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    said, last = done.stdout.splitlines()
    owner, fingerprint = last.split()
    assert said.startswith(f"the run in 'run' belongs to process {owner}, and this process was")
    assert fingerprint == mmfl.run(small, "straight").fingerprint


def test_what_a_forked_process_has_of_a_store_does_nothing(small, monkeypatch):
    owner = os.getpid()
    store = RunStore.create(Path("run"), small.resolved())
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: owner + 1)
        for act in (store.meta, store.seal, store.check_owner, lambda: store.note(reason="no")):
            assert f"'run' belongs to process {owner}" in one_line(StoreError, act)
        assert store.inherited
    assert "reason" not in store.meta()
    store.close()
    assert not is_owned(Path("run"))


def test_a_beginning_that_another_process_owns_is_not_cleared():
    folder = Path("run")
    folder.mkdir()
    write_mark(folder, FIRST)
    with closing(Lease(folder).take()):
        before = sorted(os.listdir(folder))
        clear_unfinished(folder)
        assert sorted(os.listdir(folder)) == before
    clear_unfinished(folder)
    assert not folder.exists()


@pytest.mark.parametrize("how", ["cleared", "resumed"])
def test_a_beginning_with_a_file_of_the_users_stays_as_it_is(small, how):
    folder = Path("run")
    folder.mkdir()
    write_mark(folder, FIRST)
    (folder / "experiment.toml").write_text("rounds = 2  # mine")
    acts = {
        "cleared": lambda: clear_unfinished(folder),
        "resumed": lambda: mmfl.run(small, folder, resume=True),
    }
    assert "was not written by mmfl" in one_line(StoreError, acts[how])
    assert sorted(os.listdir(folder)) == ["experiment.toml", "mmfl-run.json"]


def test_a_beginning_that_another_process_has_taken_meanwhile_is_its_own(small):
    folder, theirs = Path("run"), []

    def begin_anew(name, function, args, options):
        if name == "lock" and not theirs:
            remove_beginning(folder)
            theirs.append(write_mark(folder, FIRST))
        return function(*args, **options)

    with intercept(begin_anew):
        said = one_line(StoreError, lambda: mmfl.run(small, "run"))
    assert said == "'run' is in use by another process"
    assert [read_mark(folder)] == theirs


@pytest.mark.parametrize("name", ["run.sqlite", "run.sqlite-wal"])
@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_database_that_is_gone_ends_the_run(small, name, how):
    rounds = stored_rounds(small, "run")
    next(rounds)
    path = Path("run", name)
    if how == "replaced":
        shutil.copy(path, "copy")
        os.replace("copy", path)
    else:
        path.unlink()
    said = one_line(StoreError, lambda: next(rounds))
    assert said == f"cannot write the run in 'run': {name} was {how} during the run"


def test_of_two_that_resume_a_run_that_is_not_there_the_second_hears_of_the_first(small):
    first, second = (stored_rounds(small, "run", resume=True) for _ in range(2))

    def start_first(name, function, args, options):
        if name == "mkdir" and not Path("run").exists():
            with intercept(lambda name, function, args, options: function(*args, **options)):
                next(first)
        return function(*args, **options)

    with intercept(start_first):
        said = one_line(StoreError, lambda: next(second))
    assert said == "'run' is in use by another process"
    assert len(list(first)) == 2
    assert Run.load("run").status == "finished"


def test_a_lease_of_another_user_that_cannot_be_removed_is_one_sentence(small):
    """As in a folder that has the sticky bit."""
    with stored_rounds(small, "run") as rounds:
        next(rounds)

    def refuse(name, function, args, options):
        if name == "unlink" and Path(args[0]).name == "lease-00000001.json":
            raise PermissionError(1, "Operation not permitted")
        return function(*args, **options)

    with intercept(refuse):
        for _ in range(2):
            said = one_line(StoreError, lambda: mmfl.run(small, "run", resume=True))
            assert said == (
                "cannot lock 'run': lease-00000001.json of an earlier process cannot be removed: "
                "Operation not permitted; remove it as its owner, or copy the run with cp -r"
            )
    assert [path.name for path in Path("run").glob("lease*")] == ["lease-00000001.json"]
    assert mmfl.run(small, "run", resume=True).status == "finished"


def test_the_log_of_the_database_is_cut_when_a_long_reader_has_ended(small, monkeypatch):
    monkeypatch.setattr(database, "LOG", 1 << 16)
    log = Path("run/run.sqlite-wal")
    with closing(RunStore.create(Path("run"), replace(small, rounds=1).resolved())) as store:
        with closing(RunStore.open(Path("run"))):
            for number in range(3):
                store.note(reason=f"{number}" * 3_000_000)
            assert log.stat().st_size > 9_000_000
        for number in range(2):
            store.note(reason=f"short {number}")
        assert log.stat().st_size <= 1 << 16


@dataclass(frozen=True)
class ForkingOnce:
    """An allocator or a model that forks; both processes go on."""

    codes: ClassVar[list[int | None]] = []

    def fork(self) -> None:
        if not self.codes:
            self.codes.append(-1)
            self.codes[0] = fork_and_wait()

    def allocate(self, view: Any, state: Any, *, rng: Any) -> Any:
        self.fork()
        return Uniform().allocate(view, state, rng=rng)

    def build(self, shape: Any, outputs: int) -> nn.Module:
        self.fork()
        return nn.Linear(shape[0], outputs)


@pytest.mark.parametrize(("where", "code"), [("round", 7), ("set-up", 0)])
def test_a_process_that_user_code_forks_stores_nothing(small, where, code):
    """It ends when the model's code returns, and otherwise with one sentence."""
    ForkingOnce.codes.clear()
    tasks = (replace(small.tasks[0], model=ForkingOnce()), small.tasks[1])
    changes = {"tasks": tasks} if where == "set-up" else {"allocator": ForkingOnce()}
    experiment, owner = replace(small, **changes), os.getpid()
    sentence = ""
    try:
        run = mmfl.run(experiment, "run")
    except StoreError as error:
        sentence = str(error)
    finally:
        if os.getpid() != owner:
            os._exit(7 if f"belongs to process {owner}" in sentence else 1)
    assert sentence == ""
    assert ForkingOnce.codes == [code]
    *_, (state, _) = mmfl.rounds(experiment)
    assert (run.status, run.fingerprint) == ("finished", state.fingerprint)


def test_a_copy_by_hard_links_is_refused_and_the_original_stays(small):
    mmfl.run(small, "first")
    shutil.copytree("first", "second", copy_function=os.link)
    more = replace(small, rounds=small.rounds + 1)
    with pytest.raises(StoreError, match=r"run\.sqlite has another hard link"):
        mmfl.run(more, "second", resume=True)
    assert not verify("first").damaged
