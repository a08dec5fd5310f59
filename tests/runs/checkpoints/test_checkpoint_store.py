from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.damaged_checkpoints import WAYS, damage_file
from mmfl.errors import StoreError
from mmfl.exchange import Layout, Params
from mmfl.loop import State
from mmfl.runs.checkpoints import CheckpointStore, write_whole
from mmfl.system.calls import intercept
from support.helpers import one_line

LAYOUT = Layout((("w", (4,)),))
TASKS = ("a", "b", "c")


def weights(number: float) -> Params:
    return Params(LAYOUT, np.full(4, number, np.float32))


def states(count: int) -> list[State]:
    """Task "a" trains in every round, "b" in every other, "c" never."""
    state = State.first({task: weights(0) for task in TASKS}, "x" * 64)
    found = []
    for t in range(1, count + 1):
        trained = {"a": weights(t)} | ({"b": weights(t)} if t % 2 else {})
        clients = state.clients.after([(t, "a", 0.5, 1.0)])
        state = state.replace(round=t, params={**state.params, **trained}, clients=clients)
        found.append(state)
    return found


def vault(keep: int = 3) -> CheckpointStore:
    return CheckpointStore(Path("checkpoints"), keep=keep)


def content() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path("checkpoints").iterdir()}


def test_the_newest_is_found_and_is_what_was_saved():
    ours, given_ = vault(), states(5)
    names = [ours.save(state) for state in given_]
    found = vault().newest()
    assert found.name == names[-1]
    assert found.damaged == {}
    assert found.state.fingerprint == given_[-1].fingerprint
    assert found.state.clients.ids.tolist() == [1, 2, 3, 4, 5]


def test_the_last_k_are_kept_with_what_they_name_and_nothing_else():
    ours, given_ = vault(keep=2), states(5)
    names = [ours.save(state) for state in given_]
    assert ours.names() == names[-2:]
    assert [ours.load(name).round for name in names[-2:]] == [4, 5]
    named = {
        entry["file"]
        for name in names[-2:]
        for entry in json.loads((ours.folder / name).read_bytes())["files"].values()
    }
    assert set(content()) == {*names[-2:], *named}


@pytest.mark.parametrize(
    "file", ["../outside", "..", "model-a/../../outside.{}.safetensors", "outside", "clients"]
)
def test_a_file_of_another_name_than_ours_is_not_opened(file):
    ours = vault()
    name = ours.save(states(1)[0])
    body = b"secret"
    digest = hashlib.sha256(body).hexdigest()
    Path("checkpoints/model-a").mkdir()
    for path in ("outside", f"outside.{digest[:16]}.safetensors", "checkpoints/outside"):
        Path(path).write_bytes(body)
    whole = json.loads((ours.folder / name).read_bytes())
    entry = {"file": file.format(digest[:16]), "bytes": len(body), "sha256": digest}
    whole["files"]["model-a"] = entry
    text = json.dumps(whole).encode()
    other = f"round-00000001.{hashlib.sha256(text).hexdigest()[:16]}.json"
    (ours.folder / other).write_bytes(text)
    opened = []

    def note(call, function, args, options):
        if call == "open":
            opened.append(str(args[0]))
        return function(*args, **options)

    with intercept(note):
        said = one_line(StoreError, lambda: ours.load(other))
    assert "is not the name of one of its files" in said
    assert not [path for path in opened if "outside" in path or path.endswith(("..", "/clients"))]


def test_only_what_changed_is_written(monkeypatch):
    written = []
    real = write_whole

    def note(path, *args, **options):
        written.append(path.name.partition(".")[0])
        real(path, *args, **options)

    monkeypatch.setattr("mmfl.runs.checkpoints.store.write_whole", note)
    ours = vault()
    for state in states(3):
        written.clear()
        ours.save(state)
        models = {name for name in written if name.startswith("model-")}
        expected = {"model-a"} | ({"model-b"} if state.round % 2 else set())
        assert models == (expected if state.round > 1 else {"model-a", "model-b", "model-c"})


def test_every_file_is_named_by_its_content():
    ours = vault()
    for state in states(3):
        ours.save(state)
    for name, body in content().items():
        assert hashlib.sha256(body).hexdigest()[:16] == name.split(".")[1]


def test_a_damaged_one_is_named_and_the_one_before_it_is_used():
    ours = vault()
    names = [ours.save(state) for state in states(4)]
    entry = json.loads((ours.folder / names[-1]).read_bytes())["files"]["model-a"]
    path = ours.folder / entry["file"]
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    found = vault().newest()
    assert found.state.round == 3
    assert list(found.damaged) == [names[-1]]
    assert entry["file"] in found.damaged[names[-1]]


def test_one_that_is_gone_is_missed():
    ours = vault()
    names = [ours.save(state) for state in states(2)]
    (ours.folder / names[-1]).unlink()
    found = vault().newest(noted=names[-1])
    assert found.state.round == 1
    assert "missing" in found.damaged[names[-1]]


def test_one_that_does_not_fit_is_passed_over():
    ours = vault()
    names = [ours.save(state) for state in states(3)]
    found = ours.newest(fits=lambda state: None if state.round < 2 else "is too new")
    assert found.state.round == 1
    assert found.damaged[names[2]] == f"checkpoint {names[2]!r} is too new"


def damages() -> st.SearchStrategy:
    return st.tuples(st.sampled_from(WAYS), st.integers(0, 2**31), st.integers(0, 7))


@given(damages())
def test_no_damage_goes_unnoticed(tmp_path_factory, damage):
    folder = tmp_path_factory.mktemp("vault") / "checkpoints"
    ours, given_ = CheckpointStore(folder, keep=3), states(3)
    names = [ours.save(state) for state in given_]
    newest = json.loads((folder / names[-1]).read_bytes())["files"].values()
    paths = [folder / names[-1], *(folder / entry["file"] for entry in newest)]
    before = {path: path.read_bytes() for path in paths}
    damage_file(paths, *damage)
    changed = {path for path in paths if not path.exists() or path.read_bytes() != before[path]}
    found = CheckpointStore(folder, keep=3).newest(noted=names[-1])
    assert (found.name == names[-1]) == (not changed)
    if changed:
        assert names[-1] in found.damaged
        assert found.state is None or found.state.fingerprint in {
            state.fingerprint for state in given_[:2]
        }


@pytest.mark.parametrize(
    "document",
    [
        b"[]",
        b"{}",
        b"null",
        b'{"format": 1, "round": 1, "files": {}, "state": {}}',
        b'{"format": 1, "round": 1, "files": {"x": {"file": "../../x"}}, "state": {}}',
        b'{"format": 2, "round": 1, "files": {}, "state": {}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_whole_and_nonsense_is_one_sentence(document):
    ours = vault()
    ours.folder.mkdir()
    name = f"round-00000001.{hashlib.sha256(document).hexdigest()[:16]}.json"
    (ours.folder / name).write_bytes(document)
    assert name in one_line(StoreError, lambda: ours.load(name))
    assert ours.newest().state is None
    ours.prune(3)


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
def test_a_disk_that_refuses_costs_one_sentence_and_nothing_that_was(call):
    ours, given_ = vault(), states(3)
    ours.save(given_[0])
    before = content()

    def refuse(name, function, args, options):
        if name == call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return function(*args, **options)

    with intercept(refuse):
        said = one_line(StoreError, lambda: ours.save(given_[1]))
    assert "No space left" in said
    assert before.items() <= content().items()
    assert not [name for name in content() if name.endswith(".part")]
    assert vault().newest().state.fingerprint == given_[0].fingerprint
    assert ours.save(given_[1])
    assert vault().newest().state.fingerprint == given_[1].fingerprint


def test_a_write_that_falls_short_is_continued():
    ours, given_ = vault(), states(1)

    def fall_short(name, function, args, options):
        return function(args[0], args[1][:1]) if name == "write" else function(*args, **options)

    with intercept(fall_short):
        ours.save(given_[0])
    assert vault().newest().state.fingerprint == given_[0].fingerprint


def test_a_kill_between_any_two_steps_leaves_a_whole_checkpoint():
    """Stop at the n-th call to the file system, for every n, and look."""
    given_ = states(4)
    for stop in range(200):
        folder = Path(f"killed-{stop}")
        ours = CheckpointStore(folder, keep=2)
        for state in given_[:3]:
            ours.save(state)
        done = _stopped_at(stop, lambda: ours.save(given_[3]))  # noqa: B023
        found = CheckpointStore(folder, keep=2).newest()
        assert found.state is not None
        assert found.damaged == {}
        assert found.state.round == 4 if done else found.state.round in (3, 4)
        last = CheckpointStore(folder, keep=2)
        last.save(given_[3])
        assert len(last.names()) == 2
        assert not list(folder.glob("*.part"))
        if done:
            return
    pytest.fail("it never came to the end")


class _Killed(BaseException):
    pass


def _stopped_at(stop: int, act) -> bool:
    """Whether `act` was done before the n-th call."""
    count = 0

    def step(name, function, args, options):
        nonlocal count
        count += 1
        if count > stop:
            raise _Killed
        return function(*args, **options)

    try:
        with intercept(step):
            act()
    except _Killed:
        return False
    return True
