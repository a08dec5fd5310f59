"""One owner at a time, decided without host names, process IDs or other machines' clocks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from contextlib import closing
from pathlib import Path

import pytest

from mmfl.errors import MmflWarning, StoreError
from mmfl.runs import is_owned
from mmfl.runs.directory import lock
from mmfl.runs.directory.lock import Lease
from mmfl.system.calls import intercept
from support.helpers import one_line

OWNER = """
import sys, time
from pathlib import Path
from mmfl.runs.directory.lock import Lease
lease = Lease(Path(sys.argv[1])).take()
print(lease.epoch, flush=True)
time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "BEAT", 0.02)
    monkeypatch.setattr(lock, "PATIENCE", 0.5)


def own_elsewhere(folder: Path) -> subprocess.Popen[str]:
    """Another process that owns the folder."""
    command = [sys.executable, "-c", OWNER, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip().isdecimal()
    return process


def record(folder: Path) -> dict[str, object]:
    (path,) = folder.glob("lease-*")
    found: dict[str, object] = json.loads(path.read_text())
    return found


def change(folder: Path, **changes: object) -> None:
    (path,) = folder.glob("lease-*")
    path.write_text(f"{json.dumps(record(folder) | changes):<4095}\n")


def test_a_folder_has_one_owner_at_a_time(folder):
    assert not is_owned(folder)
    first = Lease(folder).take()
    assert is_owned(folder)
    assert "is in use by another process" in one_line(StoreError, lambda: Lease(folder))
    first.check()
    first.close()
    first.close()
    assert not is_owned(folder)
    second = Lease(folder).take()
    assert (first.epoch, second.epoch) == (1, 2)
    assert [path.name for path in folder.iterdir()] == ["lease-00000002.json"]
    second.close()


def test_a_killed_owner_is_replaced_at_once_whatever_its_process_number_says(folder):
    process = own_elsewhere(folder)
    one_line(StoreError, lambda: Lease(folder))
    assert is_owned(folder)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    change(folder, pid=os.getpid())  # as in containers, where everybody is process 1
    assert not is_owned(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lease = Lease(folder).take()
    assert lease.epoch == 2
    lease.close()


def test_readers_at_the_same_time_do_not_take_each_other_for_an_owner(folder):
    seen = []

    def read_meanwhile(name, function, args, options):
        result = function(*args, **options)
        if name == "lock":
            with intercept(lambda name, function, args, options: function(*args, **options)):
                seen.append(is_owned(folder))
        return result

    Lease(folder).take().close()
    with intercept(read_meanwhile):
        seen.append(is_owned(folder))
    assert seen == [False, False]
    owner = Lease(folder).take()
    with intercept(read_meanwhile):
        assert is_owned(folder)
    owner.close()


def test_an_owner_that_is_asleep_is_not_dead(folder):
    process = own_elsewhere(folder)
    process.send_signal(signal.SIGSTOP)
    try:
        assert is_owned(folder)
        one_line(StoreError, lambda: Lease(folder))
    finally:
        process.kill()
        process.communicate()


def without_locks(name, function, args, options):
    """A file system that has none, or on which those of other machines are not seen."""
    if name == "lock":
        raise OSError(95, "Operation not supported")
    return function(*args, **options)


@pytest.mark.usefixtures("quick")
def test_without_locks_the_heartbeat_decides(folder):
    with intercept(without_locks):
        first = Lease(folder).take()
        assert is_owned(folder)
        with pytest.warns(MmflWarning, match="waiting up to 0.5 s"):
            said = one_line(StoreError, lambda: Lease(folder))
        assert f"is in use by process {os.getpid()}" in said
        first._ended.set()  # its heart stops, and it does not know
        first._thread.join()
        with pytest.warns(MmflWarning, match="not released"):
            second = Lease(folder).take()
        assert second.epoch == 2
        second.check()
        assert "was taken over" in one_line(StoreError, first.check)
        first.close()  # must not touch the other one's lease
        second.check()
        assert record(folder)["token"] == second.token
        assert record(folder)["released"] is False
        second.close()


@pytest.mark.usefixtures("quick")
def test_every_beat_is_synced_in_the_thread_that_beats(folder):
    done: list[tuple[str, str, int]] = []
    enough = threading.Event()

    def note(name, function, args, options):
        result = function(*args, **options)
        if name in ("pwrite", "fsync"):
            done.append((threading.current_thread().name, name, args[0]))
            if len(done) >= 8:
                enough.set()
        return result

    with intercept(note):
        lease = Lease(folder).take()
        number = lease._file
        assert enough.wait(30)
        lease.close()
    first, *beats = [done[n : n + 2] for n in range(0, 8, 2)]
    main = threading.current_thread().name
    assert first == [(main, "pwrite", number), (main, "fsync", number)]
    for pair in beats:
        assert pair == [("mmfl-lease", "pwrite", number), ("mmfl-lease", "fsync", number)]


@pytest.mark.usefixtures("quick")
def test_an_owner_on_another_machine_is_refused_while_it_beats_and_replaced_when_it_is_dead(folder):
    lease = Lease(folder).take()
    lease.close()
    change(folder, released=False, boot="another machine's")
    ended = threading.Event()

    def beat():
        number = 0
        while not ended.wait(0.02):
            number += 1
            change(folder, beat=number)

    heart = threading.Thread(target=beat)
    heart.start()
    try:
        assert is_owned(folder)
        with pytest.warns(MmflWarning):
            one_line(StoreError, lambda: Lease(folder))
    finally:
        ended.set()
        heart.join()
    with pytest.warns(MmflWarning, match="was in use by process"):
        second = Lease(folder).take()
    assert second.epoch == 2
    second.close()


def test_a_lease_of_another_machine_that_is_old_belongs_to_nobody(folder):
    Lease(folder).take().close()
    change(folder, released=False, boot="another machine's")
    assert is_owned(folder)
    (path,) = folder.glob("lease-*")
    os.utime(path, (1, 1))
    assert not is_owned(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff" * 50, b"{}" + b" " * 5000])
def test_a_damaged_lease_belongs_to_nobody(folder, content):
    (folder / "lease-00000007.json").write_bytes(content)
    assert not is_owned(folder)
    lease = Lease(folder).take()
    assert lease.epoch == 8
    lease.close()


LATE = """
from contextlib import closing
from pathlib import Path
from mmfl.runs.directory.lock import Lease

def hold():
    with closing(Lease(Path("run")).take()):
        yield

held = hold()
next(held)
"""


@pytest.mark.cold
def test_a_lease_that_is_held_until_the_interpreter_ends_is_released_without_a_word(tmp_path):
    (tmp_path / "run").mkdir()
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, check=True)
    assert done.stderr == b""
    assert json.loads((tmp_path / "run" / "lease-00000001.json").read_text())["released"]


@pytest.mark.parametrize("call", ["unlock", "pwrite"])
def test_a_lease_is_closed_whatever_fails_while_it_is_released(tmp_path, call):
    lease, opened = Lease(tmp_path).take(), set(os.listdir("/proc/self/fd"))

    def fail(name, function, args, kwargs):
        if name == call:
            raise ImportError("sys.meta_path is None, Python is likely shutting down")
        return function(*args, **kwargs)

    with intercept(fail):
        lease.close()
    assert len(set(os.listdir("/proc/self/fd"))) == len(opened) - 2
    assert not is_owned(tmp_path) or call == "pwrite"  # its last word is missing: see `PATIENCE`


@pytest.mark.parametrize(
    "call", ["open", "pwrite", "fsync", "listdir", "unlink", "thread", "mkdir"]
)
def test_a_lease_that_cannot_be_taken_is_one_sentence_and_leaves_no_lock(folder, call):
    Lease(folder).take().close()

    def refuse(name, function, args, options):
        if name == call:
            raise RuntimeError("can't start new thread") if name == "thread" else OSError(5, "EIO")
        return function(*args, **options)

    with intercept(refuse):
        if call == "mkdir":
            Lease(folder).take().close()
        else:
            one_line(StoreError, lambda: Lease(folder).take())
    lease = Lease(folder).take()
    lease.check()
    lease.close()


def test_a_disk_that_fails_is_not_taken_for_a_folder_that_was_moved(folder):
    def refuse(name, function, args, options):
        if name == "stat":
            raise OSError(5, "Input/output error")
        return function(*args, **options)

    with closing(Lease(folder).take()) as lease:
        with intercept(refuse):
            said = one_line(StoreError, lease.check)
        assert said == f"cannot tell which process owns {str(folder)!r}: Input/output error"
        lease.check()


def test_a_file_of_another_sort_in_the_place_of_a_lease_is_no_owner_and_stays(tmp_path):
    theirs = tmp_path / "lease-00000001.json"
    theirs.write_text('{"tenant": "mine"}')
    assert not is_owned(tmp_path)
    Lease(tmp_path).take().close()
    assert theirs.read_text() == '{"tenant": "mine"}'


def test_a_lease_from_the_future_belongs_to_nobody(tmp_path):
    Lease(tmp_path).take().close()
    (path,) = tmp_path.glob("lease-*.json")
    record = json.loads(path.read_text()) | {"released": False, "boot": "another"}
    path.write_text(json.dumps(record))
    os.utime(path, (4e9, 4e9))
    assert not is_owned(tmp_path)
