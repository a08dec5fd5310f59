"""Worker processes: they die, hang, fail to start, and are gone afterwards."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mmfl
from mmfl import Experiment
from mmfl.errors import EngineError
from mmfl.experiment import Clients, Inline, Local
from support.warm import children


def test_a_worker_that_is_killed_is_replaced_and_the_result_is_the_same(odd):
    (calm, calm_record), (killed, killed_record) = (
        list(mmfl.rounds(odd(how)))[-1] for how in ("works", "dies once")
    )
    assert killed_record.failures == calm_record.failures == ()
    assert killed.params["odd"].flat.tobytes() == calm.params["odd"].flat.tobytes()


def test_a_turn_that_kills_three_workers_is_a_client_failure(odd):
    experiment = replace(odd("dies always"), rounds=1, clients=Clients(1))
    [(_, record)] = list(mmfl.rounds(experiment))
    assert [f.reason for f in record.failures] == ["worker"]
    assert "ended 3 worker processes" in record.failures[0].detail
    assert record.clients == {"odd": 0}


MANY = ["clients.count=80", "score_split=test", "engine.workers=1", "rounds=1"]


def test_in_a_chunk_only_the_turn_that_is_deadly_is_lost(odd, monkeypatch):
    monkeypatch.setattr("mmfl.engines.requests.LIVES", 1)
    text = odd("dies on marker").to_toml()
    sets = [*MANY, "tasks.odd.dataset.kind=oddities:Marked"]
    experiment = Experiment.from_toml(text, sets=sets, allow_imports=True)
    [(_, record)] = list(mmfl.rounds(experiment))
    assert [f.reason for f in record.failures] == ["worker"]
    assert record.clients == {"odd": 79}


def test_sums_formed_by_workers_and_refused_updates_give_the_bits_of_the_inline_engine(odd):
    text = odd("works").to_toml()
    sets = [*MANY, "rounds=3", "tasks.odd.dataset.train=400", "checks.max_norm=0.03"]
    finals = []
    for kind in ("local", "inline"):
        more = [*sets, "engine.workers=2"] if kind == "local" else [*sets, "engine.kind=inline"]
        finals.append(list(mmfl.rounds(Experiment.from_toml(text, sets=more, allow_imports=True))))
    for (ours, one), (theirs, other) in zip(*finals, strict=True):
        assert ours.fingerprint == theirs.fingerprint
        assert one.failures == other.failures
        assert all(failure.partial is None for failure in one.failures)
        assert 0 < len(one.failures) < 80
        assert np.array_equal(ours.clients.norm, theirs.clients.norm, equal_nan=True)


def test_a_model_with_moving_buffers_has_the_same_bits_on_any_number_of_workers(odd):
    text = odd("works").to_toml()
    sets = ["clients.count=9", "rounds=3", "tasks.odd.dataset.train=400"]
    sets.append("tasks.odd.model.kind=oddities:Moving")
    prints = set()
    for engine in ("engine.kind=inline", "engine.workers=1", "engine.workers=3"):
        made = Experiment.from_toml(text, sets=[*sets, engine], allow_imports=True)
        *_, (state, record) = mmfl.rounds(made)
        prints.add(state.fingerprint)
        assert record.failures == ()
    assert len(prints) == 1
    assert np.abs(state.params["odd"]["mean"]).max() > 0.01


def test_a_model_that_keeps_a_tensor_it_made_in_an_evaluation_can_be_trained(odd):
    text = odd("works").to_toml()
    sets = ["clients.count=9", "rounds=3", "tasks.odd.model.kind=oddities:Caching"]
    prints = set()
    for engine in ("engine.kind=inline", "engine.workers=2"):
        made = Experiment.from_toml(text, sets=[*sets, engine], allow_imports=True)
        records = list(mmfl.rounds(made))
        assert [record.failures for _, record in records] == [()] * 3
        prints.add(records[-1][0].fingerprint)
    assert len(prints) == 1


@pytest.mark.parametrize("engine", [Inline(), Local(workers=1)])
def test_a_model_that_exits_costs_the_client_its_turn(odd, engine):
    [(_, first), _] = list(mmfl.rounds(replace(odd("exits"), engine=engine)))
    assert {(f.reason, f.detail) for f in first.failures} == {
        ("raised", "SystemExit: 0 (oddities.py, line 76, in Net.forward: raise SystemExit(0))")
    }


def test_a_model_that_raises_in_training_is_a_recorded_failure_in_one_line(odd):
    [(_, first), (_, second)] = list(mmfl.rounds(odd("raises")))
    for record in (first, second):
        assert {(f.reason, f.detail) for f in record.failures} == {
            (
                "raised",
                "ValueError: cannot learn this (oddities.py, line 78, in Net.forward: "
                'raise ValueError("cannot\\nlearn this"))',
            )
        }


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("builds not", "its model cannot be built: RuntimeError: no such layer"),
        ("evaluates not", "evaluating its model failed: ValueError: no evaluation"),
    ],
)
def test_a_model_that_cannot_be_built_or_evaluated_is_one_sentence(odd, how, sentence):
    with pytest.raises(EngineError) as error:
        list(mmfl.rounds(odd(how)))
    assert re.fullmatch(
        rf"task 'odd': {sentence} \(oddities.py, line \d+, in .*: .*\)", str(error.value)
    )


def test_a_worker_that_cannot_start_is_one_sentence(odd, tmp_path, monkeypatch):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho trying >&2\necho no torch here >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(broken))
    with pytest.raises(
        EngineError, match=r"ended with exit code 3 before it was ready: no torch here$"
    ):
        list(mmfl.rounds(odd("works")))


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_starts_is_replaced(odd, tmp_path, monkeypatch):
    hasty = tmp_path / "python"
    once = f'if [ ! -e "{tmp_path}/died" ]; then touch "{tmp_path}/died"; kill -9 $$; fi'
    hasty.write_text(f'#!/bin/sh\n{once}\nexec "{sys.executable}" "$@"\n')
    hasty.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(hasty))
    records = [record for _, record in mmfl.rounds(odd("works"))]
    assert (tmp_path / "died").exists()
    assert [record.failures for record in records] == [(), ()]


def test_workers_that_are_always_killed_while_they_start_are_one_sentence(
    odd, tmp_path, monkeypatch
):
    doomed = tmp_path / "python"
    doomed.write_text("#!/bin/sh\nkill -9 $$\n")
    doomed.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(doomed))
    with pytest.raises(EngineError, match=r"killed by signal 9, 10 times, before it was ready$"):
        list(mmfl.rounds(odd("works")))
    assert children() == []


def test_breaking_out_of_the_loop_ends_the_workers(odd):
    before = children()
    for _, record in mmfl.rounds(odd("works")):
        assert len(children()) > len(before)
        assert record.round == 1
        break
    assert children() == before


def test_an_error_in_the_loops_body_ends_the_workers(odd):
    before = children()

    def fail() -> None:
        with mmfl.rounds(odd("works")) as rounds:
            for _ in rounds:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert children() == before


def test_no_room_for_the_data_is_one_sentence(small, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(EngineError, match=r"cannot reserve .* MiB .*No space left.*set TMPDIR"):
        list(mmfl.rounds(replace(small, engine=Local(workers=1))))


SCRIPT = """
from dataclasses import dataclass
import numpy as np
import mmfl
from mmfl.allocate import Uniform

def data(rows=40):
    x = np.random.default_rng(0).standard_normal((rows, 3))
    return x, (x[:, 0] > 0).astype(int), x, (x[:, 0] > 0).astype(int)

@dataclass(frozen=True)
class Merit:
    def difficulty(self, measured, task):
        return measured.metric

@dataclass(frozen=True)
class Halving:
    def rate(self, t):
        return 0.1 / 2**t

@dataclass(frozen=True)
class Mine(Uniform):
    pass

def by_turns(examples, clients, rng):
    return np.arange(len(examples)) % clients

task = {"name": "signs", "dataset": data, "model": {"kind": "mlp", "hidden": [4]}, OWN}
table = {"rounds": 2, "clients": {"count": 2}, "engine": {"workers": 1}, "tasks": [task]}
table |= {"score": Merit(), "allocator": Mine(), "local": {"lr": Halving()}}
if __name__ == "__main__":
    *_, (state, record) = mmfl.rounds(mmfl.Experiment.from_dict(table))
    print(record.clients, state.difficulty)
"""


def run_script(folder: Path, own: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(SCRIPT.replace("OWN", own))
    command = [sys.executable, str(folder / "script.py")]
    return subprocess.run(command, capture_output=True, text=True)


def test_what_workers_do_not_need_may_live_in_the_script_that_runs(tmp_path):
    done = run_script(tmp_path, "")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{'signs': 2} {'signs': ")


def test_workers_get_what_they_need_from_the_script_that_runs(tmp_path):
    done = run_script(tmp_path, '"partition": by_turns')
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{'signs': 2} {'signs': ")
