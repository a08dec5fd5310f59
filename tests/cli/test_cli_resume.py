"""``mmfl run --resume``, as a person or a script would use it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mmfl
from mmfl.runs import stored_rounds
from support.marks import slow

MMFL = [sys.executable, "-m", "mmfl"]


@pytest.fixture
def config(small_toml) -> Path:
    path = Path("a fair.toml")
    path.write_text(small_toml)
    return path


def result(call, *arguments) -> dict:
    code, out, err = call("run", *arguments, "--json", "-q")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize(
    ("number", "code", "out"),
    [
        (signal.SIGINT, 130, []),
        slow(signal.SIGTERM, 143, ["--out=some where"]),
        slow(signal.SIGHUP, 129, []),
    ],
)
def test_a_signal_says_how_to_go_on_and_that_works(call, config, number, code, out):
    sets = ["--set", "rounds=40", "--set", "tasks.dense.model.hidden=[4, 4]"]
    process = subprocess.Popen(
        [*MMFL, "run", str(config), *sets, *out],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("round ")
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == code
    stopped, _, command = err.strip().partition("; resume with: ")
    assert stopped.startswith("mmfl: stopped after round ")
    done = int(stopped.split()[4])
    words = shlex.split(command)
    assert words[0] == "mmfl"
    changed = [word.replace("rounds=40", f"rounds={done + 1}") for word in words]
    assert "rounds was 40" in call(*changed[1:])[2]
    again = subprocess.run([*MMFL, *words[1:], "--json"], capture_output=True, text=True)
    assert again.returncode == 0
    assert again.stderr.splitlines()[0].endswith(f" after round {done}")
    assert len(again.stderr.splitlines()) == 40 - done + 1
    straight = result(call, config, *sets, "--out", "straight")
    assert json.loads(again.stdout)["fingerprint"] == straight["fingerprint"]


def test_resume_starts_goes_on_and_is_done(call, config):
    command = ("run", config, "--resume", "--out", "run")
    code, first, err = call(*command)
    assert (code, err) == (0, "")
    assert "resuming" not in first
    code, again, err = call(*command)
    assert (code, err) == (0, "")
    assert again.startswith("run is already finished\n")
    assert again.splitlines()[-1] == first.splitlines()[-1]
    code, more, err = call(*command, "--set", "rounds=5")
    assert (code, err) == (0, "")
    assert more.startswith("resuming run after round 3\nround 4/5")


def test_without_a_folder_the_last_run_goes_on(call, config):
    for _ in range(2):
        result(call, config)
    assert result(call, config, "--resume")["run_dir"] == "runs/a fair-2"
    assert not Path("runs/a fair-3").exists()


def test_a_changed_experiment_is_one_sentence_and_exit_code_2(call, config):
    result(call, config, "--out", "run")
    code, out, err = call("run", config, "--out", "run", "--resume", "--set", "seed=5")
    assert (code, out) == (2, "")
    assert err.startswith(
        "mmfl: 'run' cannot be resumed with a changed experiment: seed was 1 and is now 5"
    )
    assert err.count("\n") == 1


def test_status_says_how_to_go_on_and_that_works(call, config):
    experiment = mmfl.Experiment.load(config)
    with stored_rounds(experiment, "a run") as rounds:
        next(rounds)
    code, out, err = call("status", "a run")
    assert (code, err) == (0, "")
    said, _, command = out.splitlines()[-1].partition(": ")
    assert said == "resume after round 1 with"
    words = shlex.split(command)
    assert words[0] == "mmfl"
    assert call(*words[1:])[0] == 0
    assert mmfl.Run.load("a run").status == "finished"
    assert "resume" not in call("status", "a run")[1]


def test_status_says_that_imports_must_be_allowed_where_they_must(call, config):
    Path("own_models.py").write_text(
        "from dataclasses import dataclass\n"
        "from mmfl.models import Mlp\n"
        "@dataclass(frozen=True)\n"
        "class Own:\n"
        "    def build(self, shape, outputs):\n"
        "        return Mlp(hidden=(3,)).build(shape, outputs)\n"
    )
    own = ("--set", "tasks.dense.model={kind='own_models:Own'}", "--allow-imports")
    process = subprocess.Popen(
        [*MMFL, "run", str(config), *own, "--out", "run", "--set", "rounds=100000"],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate()
    command = call("status", "run")[1].splitlines()[-1].partition(": ")[2]
    words = shlex.split(command)
    assert words[-1] == "--allow-imports"
    code, _, err = call(*words[1:], "--set", "rounds=1")
    assert (code, "rounds was 100000" in err) == (2, True)  # so it was read


def test_a_second_process_on_a_live_run_is_refused(call, config):
    process = subprocess.Popen(
        [*MMFL, "run", str(config), "--out", "run", "--set", "rounds=100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        options = ("--set", "rounds=100000", "--out", "run")
        code, out, err = call("run", config, *options, "--resume")
        assert (code, out) == (2, "")
        assert err == "mmfl: 'run' is in use by another process\n"
        assert call("run", config, *options)[2].startswith("mmfl: 'run' already exists")
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()
    assert mmfl.Run.load("run").status == "interrupted"


@pytest.mark.slow
def test_a_damaged_checkpoint_is_a_warning(call, config):
    result(call, config, "--out", "run")
    (model, *_) = Path("run/checkpoints").glob("model-dense.*")
    model.write_bytes(b"\0" * model.stat().st_size)
    done = subprocess.run(
        [*MMFL, "run", str(config), "--out", "run", "--resume", "--set", "rounds=4", "-q"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "error"},
    )
    err = done.stderr
    assert (done.returncode, done.stdout) == (0, "")
    assert err.startswith("mmfl: warning: checkpoint 'round-00000003.")
    assert f"the SHA-256 of {model.name} differs" in err
    assert err.count("\n") == 1


def test_a_folder_of_the_users_is_one_sentence_and_left_alone(call, small_toml):
    Path("mine").mkdir()
    mine = Path("mine/experiment.toml")
    mine.write_text(f"# my comment\n{small_toml}")
    code, out, err = call("run", mine, "--out", "mine", "--resume")
    assert (code, out) == (2, "")
    assert err == "mmfl: 'mine' is not a run directory (it has no run.sqlite)\n"
    assert list(Path("mine").iterdir()) == [mine]
    assert mine.read_text() == f"# my comment\n{small_toml}"
