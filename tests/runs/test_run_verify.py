"""``verify``: what a run wrote and read, against its hashes."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.errors import MmflWarning, StoreError
from mmfl.experiment import Checkpoints
from mmfl.runs import stored_rounds, verify
from mmfl.runs.directory.lock import LEASE
from mmfl.system.calls import intercept
from support.helpers import one_line
from support.rewriting import edited, make_older, set_meta


@pytest.fixture(scope="module")
def made(small_toml, tmp_path_factory) -> Path:
    experiment = Experiment.from_toml(small_toml, sets=["checkpoints.rounds=1"])
    return mmfl.run(experiment, tmp_path_factory.mktemp("made") / "run").folder


@pytest.fixture
def run(made) -> Path:
    shutil.copytree(made, "run")
    return Path("run")


def told(folder: Path | str, **options: object) -> dict[str, tuple[str, str]]:
    return {part.name: (part.verdict, part.detail) for part in verify(folder, **options).parts}


def found(folder: Path | str, verdict: str = "damaged") -> dict[str, str]:
    return {name: detail for name, (said, detail) in told(folder).items() if said == verdict}


def test_all_parts_of_a_sound_run_are_verified(run):
    parts = told(run)
    assert {verdict for verdict, _ in parts.values()} == {"ok"}
    (checkpoint,) = (name for name in parts if name.startswith("checkpoints/"))
    assert set(parts) == {
        *("run.sqlite", "mmfl-run.json", "experiment.toml", "environment.json"),
        *("models/dense.safetensors", "models/image.safetensors", checkpoint),
        *("data of dense", "data of image"),
    }
    assert not verify(run).damaged


def test_each_file_that_is_changed_or_gone_is_named(made):
    names = [str(p.relative_to(made)) for p in made.rglob("*") if p.is_file()]
    names = [name for name in names if not LEASE.fullmatch(name)]  # which holds no result
    assert len(names) == 10
    for number, name in enumerate(names):
        for how in ("changed", "gone"):
            folder = Path(f"{how}-{number}")
            shutil.copytree(made, folder)
            path = folder / name
            body = bytearray(path.read_bytes())
            if name == "run.sqlite":  # a byte of it may be of no use
                del body[len(body) // 2 :]
            body[len(body) // 2] ^= 1
            path.write_bytes(body) if how == "changed" else path.unlink()
            damaged = found(folder)
            if name.endswith(".safetensors") and name.startswith("checkpoints"):
                ((needs_it, said),) = damaged.items()
                assert needs_it.startswith("checkpoints/round-")
                assert path.name in said
            else:
                assert name in damaged
            assert verify(folder).damaged


def test_rows_that_do_not_follow_from_each_other_are_found_without_digests(run):
    with edited(run) as database:
        database.execute("UPDATE round_task SET difficulty = 0.123 WHERE round = 2 AND task = 0")
    said = "assignments or scores of round 2 do not match the chain"
    assert found(run) == {"run.sqlite": said}
    make_older(run)
    assert found(run) == {"run.sqlite": said}


@pytest.mark.parametrize("said", ["5", "aaa", "{}", "[" * 9999])
def test_rows_that_cannot_be_read_are_found_though_their_digests_match(run, said):
    set_meta(run, untrainable=said)
    reason = "meta.untrainable is malformed"
    assert found(run) == {"run.sqlite": reason}
    with pytest.raises(StoreError, match=rf"the run in .*: {reason}$"):
        mmfl.Run.load(run)


def test_a_run_of_an_older_format_is_not_verifiable(run):
    make_older(run)
    assert found(run) == {}
    said = found(run, "not verifiable")
    assert set(said.values()) == {"written by an older version of mmfl"}
    assert {"run.sqlite", "models/dense.safetensors"} <= set(said)


def test_a_run_that_was_stopped_or_still_goes_on_is_verified(small):
    experiment = replace(small, checkpoints=Checkpoints(rounds=1))
    with stored_rounds(experiment, "run") as rounds:
        next(rounds)
        assert found("run") == found("run", "not verifiable") == {}
        next(rounds)
    assert found("run") == found("run", "not verifiable") == {}
    names = [name for name in told("run") if name.startswith("checkpoints/")]
    assert len(names) == 2


def test_other_data_is_found_and_data_that_is_gone_is_not_verifiable(small, tmp_path):
    x, y = np.random.default_rng(0).random((200, 4), np.float32), np.arange(200) % 2
    np.savez(tmp_path / "own.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    sets = ["tasks.dense.dataset={kind='npz',path='own.npz'}"]
    mmfl.run(Experiment.from_toml(small.to_toml(), sets=sets), "run", data_dir=tmp_path)
    assert told("run", data_dir=tmp_path)["data of dense"] == ("ok", "")
    np.savez(tmp_path / "own.npz", x_train=x + 1, y_train=y, x_test=x, y_test=y)
    parts = told("run", data_dir=tmp_path)
    assert parts["data of dense"] == ("damaged", "it differs from what the run was made with")
    assert parts["data of image"] == ("ok", "")
    (tmp_path / "own.npz").unlink()
    verdict, detail = told("run", data_dir=tmp_path)["data of dense"]
    assert verdict == "not verifiable"
    assert "own.npz" in detail


@contextmanager
def opened() -> Iterator[list[str]]:
    """The paths that are opened in this block."""
    paths: list[str] = []

    def note(name, function, args, options):
        if name == "open":
            paths.append(str(args[0]))
        return function(*args, **options)

    with intercept(note):
        yield paths


@pytest.mark.parametrize(
    "name",
    ["../outside", "{here}/outside", "models/../../outside", "models/../../outside.safetensors"],
)
def test_a_name_that_leads_out_of_the_directory_is_not_opened(run, tmp_path, name):
    name = name.format(here=tmp_path)
    outside = (run / name).resolve()
    outside.write_text("secret")
    files = json.loads(_meta("run")["files"])
    digest = hashlib.sha256(b"secret").hexdigest()
    set_meta(run, files=json.dumps(files | {name: {digest: 6}}))
    with opened() as paths:
        assert found(run) == {name: "is not the name of a file of a run"}
    assert not [path for path in paths if "outside" in path]


def test_a_task_whose_name_leads_out_of_the_directory_is_not_opened(run):
    Path("outside.safetensors").write_text("secret")
    with edited(run) as database:
        database.execute("UPDATE task SET name = '../../outside' WHERE number = 0")
    with opened() as paths:
        assert found(run)["models/../../outside.safetensors"].startswith("is not the name")
    assert not [path for path in paths if "outside" in path]


@pytest.mark.parametrize("end", ["", ".0123456789abcdef.json"])
def test_a_noted_checkpoint_outside_of_the_directory_is_not_opened(run, small, end):
    name = f"../../round-00000003{end}"
    Path(f"round-00000003{end}").write_text("{}")
    set_meta(run, checkpoint=name, status="stopped")
    next(Path("run/checkpoints").glob("round-*")).unlink()
    with opened() as paths:
        assert found(run) == {f"checkpoints/{name}": "is not named like a checkpoint"}
        with pytest.warns(MmflWarning, match="is not named like a checkpoint"):
            assert mmfl.run(small, run, resume=True).status == "finished"
    assert not [path for path in paths if ".." in path]


def test_what_is_no_run_is_one_sentence(tmp_path):
    assert one_line(StoreError, lambda: verify("nowhere")) == "'nowhere' does not exist"
    assert "is not a run directory" in one_line(StoreError, lambda: verify("."))


def test_a_run_made_longer_is_verified(small):
    mmfl.run(small, "run")
    mmfl.run(replace(small, rounds=5), "run", resume=True)
    assert found("run") == {}
    files = json.loads(_meta("run")["files"])
    assert {len(hashes) for hashes in files.values()} == {1}


def _meta(folder: str) -> dict[str, str]:
    from mmfl.runs import RunStore

    store = RunStore.open(Path(folder))
    try:
        return store.meta()
    finally:
        store.close()
