"""What a run must not be resumed or compared with: other files, other versions, other kernels."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import mmfl
from mmfl import Experiment, Run
from mmfl.comparison import Comparison, compare
from mmfl.errors import InputError, MmflError, MmflWarning, StoreError
from mmfl.experiment import Checkpoints, Inline, Local
from mmfl.loop import State
from mmfl.runs import stored_rounds, verify
from mmfl.runs.resume import find_resumable
from mmfl.system.files import hash_input
from support.helpers import one_line
from support.rewriting import rewrite


@pytest.fixture
def often(small) -> Experiment:
    """Three rounds, saved after each; one task has a partition file, the other first weights."""
    np.save("who.npy", np.arange(300) % 10)
    mmfl.run(replace(small, rounds=1), "before")
    Path("before/models/image.safetensors").rename("first.safetensors")
    sets = [
        "tasks.dense.partition={kind='given', path='who.npy'}",
        "tasks.image.warm_start='first.safetensors'",
        "checkpoints.rounds=1",
    ]
    return Experiment.from_toml(small.to_toml(), sets=sets)


def change_partition() -> None:
    np.save("who.npy", np.arange(300)[::-1] % 10)


def change_first_weights() -> None:
    content = bytearray(Path("first.safetensors").read_bytes())
    content[-1] ^= 1
    Path("first.safetensors").write_bytes(content)


CHANGES = {
    "tasks.dense.partition.path": change_partition,
    "tasks.image.warm_start": change_first_weights,
}


def edit(folder: str, **changes: dict[str, str]) -> None:
    """Let a run say that it was made with something else."""
    table = json.loads(Path(folder, "environment.json").read_text())
    table |= {key: table[key] | new for key, new in changes.items()}
    rewrite(folder, "environment.json", json.dumps(table))


@pytest.mark.parametrize("key", CHANGES)
def test_a_file_that_was_edited_in_between_is_refused(often, key):
    straight = mmfl.run(often, "straight")
    with stored_rounds(often, "run") as rounds:
        next(rounds)
    lineage = often.lineage
    kept = {name: Path(name).read_bytes() for name in ("who.npy", "first.safetensors")}
    CHANGES[key]()
    again = Experiment.from_toml(often.to_toml())
    said = one_line(StoreError, lambda: mmfl.run(again, "run", resume=True))
    assert f"was started with different data for {key}, so it cannot be resumed" in said
    assert again.lineage != lineage
    for name, content in kept.items():
        Path(name).write_bytes(content)
    run = mmfl.run(often, "run", resume=True)
    assert run.fingerprint == straight.fingerprint
    assert run.inexact == ""


def test_an_experiment_that_is_used_again_takes_the_files_as_they_are_now(often):
    often = often.resolved()
    mmfl.run(often, "first")
    change_partition()
    with stored_rounds(often, "run") as rounds:
        next(rounds)
    again = Experiment.from_toml(often.to_toml())
    assert mmfl.run(again, "run", resume=True).status == "finished"


@pytest.mark.parametrize("key", CHANGES)
def test_a_kept_run_of_another_file_is_refused(often, key):
    compare({"x": often}, [0], "out")
    assert Comparison({"x": often}, [0], "out").runs[0].done
    CHANGES[key]()
    said = one_line(StoreError, lambda: Comparison({"x": often}, [0], "out"))
    assert f"'out/x/seed-0' holds a run that used different data for {key}; choose" in said


@pytest.mark.parametrize("key", CHANGES)
def test_a_file_that_cannot_be_read_is_not_called_other_data(often, key, tmp_path, monkeypatch):
    path = {"tasks.dense.partition.path": "who.npy"}.get(key, "first.safetensors")
    compare({"x": often}, [0], "out")
    with stored_rounds(often, "run") as rounds:
        next(rounds)
    verdicts = {part.name: part.verdict for part in verify("run").parts}
    assert verdicts[f"data of {key}"] == "ok"
    Path(path).rename("kept")
    why = f"{key}: cannot read {path!r} in {str(tmp_path)!r}: No such file or directory"
    assert one_line(InputError, lambda: Comparison({"x": often}, [0], "out")) == why
    assert "different data" not in one_line(MmflError, lambda: mmfl.run(often, "run", resume=True))
    found = verify("run")
    assert not found.damaged
    assert [(part.name, part.verdict, part.detail) for part in found.parts if part.detail] == [
        (f"data of {key}", "not verifiable", why)
    ]
    Path("kept").rename(path)
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    found = verify("../run")
    assert not found.damaged
    told = {part.name: part.detail for part in found.parts if part.verdict == "not verifiable"}
    assert set(told) == {f"data of {name}" for name in CHANGES}
    assert f"cannot read {path!r} in {str(Path.cwd())!r}" in told[f"data of {key}"]


def test_a_file_that_is_gone_once_it_was_read_is_not_called_other_data(often):
    with stored_rounds(often, "run") as rounds:
        next(rounds)
    before = find_resumable(Path("run"), often)
    assert before is not None
    with closing(before), closing(Inline().open(often, data_dir=None)) as engine:
        first = State.first(engine.initial(), often.lineage)
        Path("who.npy").unlink()
        said = one_line(InputError, lambda: before.resume(engine, first))
    assert said.startswith("tasks.dense.partition.path: cannot read 'who.npy'")


def test_an_experiment_that_names_no_file_has_the_lineage_that_it_had(small, often):
    assert small.files() == {}
    assert set(often.files()) == set(CHANGES)
    plain = replace(small, tasks=(replace(small.tasks[0], warm_start="none"), small.tasks[1]))
    assert plain.files() == {"tasks.dense.warm_start": ""}  # whoever reads it says what is wrong


def test_a_file_that_cannot_be_read_once_is_stored_with_its_hash(often, monkeypatch):
    fail = iter([True])

    def hash_once(path: str) -> str:
        if next(fail, False):
            raise OSError(errno.EIO, "Input/output error", path)
        return hash_input(path)

    monkeypatch.setattr("mmfl.experiment.parts.hash_input", hash_once)
    run = mmfl.run(often, "run")
    wanted = {
        "tasks.dense.partition.path": "who.npy",
        "tasks.image.warm_start": "first.safetensors",
    }
    assert {name: run.data[name] for name in wanted} == {
        name: hash_input(path) for name, path in wanted.items()
    }
    assert {part.verdict for part in verify("run").parts} == {"ok"}


@pytest.mark.parametrize("number", range(1, 10))
def test_a_read_that_fails_once_is_not_called_other_data(often, monkeypatch, number):
    """Whichever read of a file's content it is: in a resume, or in a comparison."""
    compare({"x": often}, [0], "out")
    with stored_rounds(often, "run") as rounds:
        next(rounds)
    calls = iter(range(1, 100))

    def hash_input_but_once(path: str) -> str:
        if next(calls) == number:
            raise OSError(errno.EIO, "Input/output error", path)
        return hash_input(path)

    with monkeypatch.context() as patch:
        patch.setattr("mmfl.experiment.parts.hash_input", hash_input_but_once)
        assert mmfl.run(often, "run", resume=True).status == "finished"
        calls = iter(range(1, 100))
        assert Comparison({"x": often}, [0], "out").runs[0].done


def test_a_file_that_cannot_be_hashed_ends_the_run_with_its_name(often, monkeypatch):
    def fail(path: str) -> str:
        raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr("mmfl.experiment.parts.hash_input", fail)
    monkeypatch.setattr("mmfl.experiment.experiment.hash_input", fail)
    said = one_line(InputError, lambda: mmfl.run(often, "run"))
    assert said.startswith("tasks.")
    assert "Input/output error" in said
    assert not Path("run/run.sqlite").exists()


def test_an_engine_that_stays_takes_the_partition_as_it_is_now(often):
    with closing(Local(workers=1).open(often, data_dir=None)) as engine:
        before = engine.federation.shard("dense", 0).tolist()
        change_partition()
        engine.prepare(often)
        assert engine.federation.shard("dense", 0).tolist() != before
        *_, (state, _) = mmfl.rounds(often, engine=engine)
    *_, (fresh, _) = mmfl.rounds(often)
    assert state.fingerprint == fresh.fingerprint


def test_a_file_is_hashed_once_unless_it_changes(monkeypatch):
    Path("file").write_bytes(b"one")
    first = hash_input("file")
    Path("file").write_bytes(b"two")  # of the same size, at nearly the same time
    assert hash_input("file") != first
    os.utime("file", (1, 1))
    monkeypatch.setattr("mmfl.system.files._SETTLED", -1e30)
    found = hash_input("file")
    monkeypatch.setattr("mmfl.system.calls.read", None)
    assert hash_input("file") == found


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_what_torch_computes_with_is_stored(small, engine):
    sets = [f"engine.kind={engine}", "rounds=1"]
    run = mmfl.run(Experiment.from_toml(small.to_toml(), sets=sets), "run")
    stored = json.loads(Path("run/environment.json").read_text())["numerics"]
    assert stored["cpu_capability"] == torch.backends.cpu.get_cpu_capability()
    assert stored["torch"] == torch.__version__
    assert run.made_with["CPU capability"] == stored["cpu_capability"]
    assert {"mmfl", "torch", "numpy", "processor"} <= set(run.made_with)


OTHERS = {
    "CPU capability OTHER": {"numerics": {"cpu_capability": "OTHER"}},
    "settings ONEDNN_MAX_CPU_ISA=SSE41": {"numerics": {"settings": "ONEDNN_MAX_CPU_ISA=SSE41"}},
    "torch 1.0 and numpy 1.1": {"versions": {"torch": "1.0", "numpy": "1.1"}},
}


@pytest.mark.parametrize("said", OTHERS)
def test_resumed_with_something_else_it_is_warned_of_and_marked(small, said):
    experiment = replace(small, checkpoints=Checkpoints(rounds=1))
    with stored_rounds(experiment, "run") as rounds:
        next(rounds)
    edit("run", **OTHERS[said])
    with pytest.warns(MmflWarning, match="its bits may differ") as caught:
        run = mmfl.run(experiment, "run", resume=True)
    assert len(caught) == 1
    assert f"'run' was started with {said}, resumed after round 1 with " in str(caught[0].message)
    assert run.inexact.startswith(f"started with {said}, resumed after round 1 with ")
    assert json.loads(run.to_json())["inexact"] == run.inexact
    done = subprocess.run([sys.executable, "-m", "mmfl", "status", "run"], capture_output=True)
    assert f"not bit-exact: {run.inexact}" in done.stdout.decode()


@pytest.mark.filterwarnings("ignore::mmfl.errors.MmflWarning")
def test_every_change_between_two_sessions_is_named_once(small):
    experiment = replace(small, checkpoints=Checkpoints(rounds=1))
    made = [("1.0", "1.1"), ("2.0", "1.0"), ("1.0", "1.0")]
    for rounds, (torch_, numpy) in enumerate(made, 1):
        mmfl.run(replace(experiment, rounds=rounds), "run", resume=True)
        table = json.loads(Path("run/environment.json").read_text())
        table.get("resumed", [table])[-1]["versions"] |= {"torch": torch_, "numpy": numpy}
        rewrite("run", "environment.json", json.dumps(table))
    assert Run.load("run").inexact == (
        "started with torch 1.0 and numpy 1.1, resumed after round 1 with torch 2.0 and numpy 1.0, "
        "resumed after round 2 with torch 1.0"
    )


def test_resumed_from_the_beginning_it_is_exact(small):
    experiment = replace(small, checkpoints=Checkpoints(keep=0))
    with stored_rounds(experiment, "run") as rounds:
        next(rounds)
    edit("run", versions={"torch": "1.0"})
    run = mmfl.run(experiment, "run", resume=True)
    assert run.inexact == ""
    assert run.made_with["torch"] == torch.__version__


@pytest.mark.slow
def test_other_kernels_on_the_same_processor_are_noticed(small):
    capability = torch.backends.cpu.get_cpu_capability()
    if capability in ("DEFAULT", "NO AVX"):
        pytest.skip("this processor has one kind of kernels only")
    Path("small.toml").write_text(replace(small, rounds=1).to_toml())
    done = subprocess.run(
        [sys.executable, "-m", "mmfl", "run", "small.toml", "--out", "run", "-q"],
        env=os.environ | {"ATEN_CPU_CAPABILITY": "default"},
    )
    assert done.returncode == 0
    with pytest.warns(MmflWarning, match=f"CPU capability DEFAULT, .* CPU capability {capability}"):
        mmfl.run(small, "run", resume=True)
    assert "CPU capability" in Run.load("run").inexact


def test_kept_runs_of_other_versions_are_warned_of_before_anything_runs(small):
    quick = {"x": replace(small, rounds=1)}
    compare(quick, [0, 1], "out")
    edit("out/x/seed-0", versions={"torch": "1.0", "mmfl": "0.0.1"})
    edit("out/x/seed-1", versions={"torch": "1.0"})
    with pytest.warns(MmflWarning) as caught:
        plan = Comparison(quick, [0, 1, 2], "out")
    now = torch.__version__
    start = "'out': not all runs were made with the same setup, which may change results: "
    assert [str(warning.message) for warning in caught] == [
        f"{start}mmfl 0.0.1 (1 run), mmfl {mmfl.__version__} (2 runs)",
        f"{start}torch 1.0 (2 runs), torch {now} (1 run)",
    ]
    for _ in plan.go():  # nothing is said twice
        pass
    assert len(plan.results()["x"]) == 3


def test_runs_of_other_kernels_are_warned_of_when_that_is_known(small):
    quick = {"x": replace(small, rounds=1)}
    compare(quick, [0], "out")
    edit("out/x/seed-0", numerics={"cpu_capability": "OTHER"})
    plan = Comparison(quick, [0, 1], "out")
    list(plan.go())
    with pytest.warns(MmflWarning, match=r"CPU capability OTHER \(1 run\)"):
        plan.results()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan.results()
