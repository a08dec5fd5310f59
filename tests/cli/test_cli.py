"""The command line as a person uses it: exit codes, one sentence per mistake, and its outputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import mmfl

ODD_MODELS = """
from dataclasses import dataclass
from torch import nn

@dataclass(frozen=True)
class Bad:
    def build(self, shape, outputs):
        raise RuntimeError("no such layer")

@dataclass(frozen=True)
class WrongSize:
    def build(self, shape, outputs):
        return nn.Linear(shape[0], outputs + 1)

@dataclass(frozen=True)
class Raises:
    def build(self, shape, outputs):
        return Net()

class Net(nn.Linear):
    def __init__(self):
        super().__init__(16, 3)

    def forward(self, x):
        if self.training:
            raise ValueError("not today")
        return super().forward(x)
"""


LOUD = """
from dataclasses import dataclass
from torch import nn

@dataclass(frozen=True)
class Loud:
    def build(self, shape, outputs):
        return Net(16, 3)

class Net(nn.Linear):
    def forward(self, x):
        if self.training:
            raise ValueError(SAID)
        return super().forward(x)
"""


@pytest.fixture
def config(tmp_path, small_toml, monkeypatch) -> Path:
    path = tmp_path / "fair.toml"
    path.write_text(small_toml)
    (tmp_path / "oddmodels.py").write_text(ODD_MODELS)
    monkeypatch.syspath_prepend(tmp_path)
    return path


def one_sentence(err: str) -> str:
    lines = err.strip().split("\n")
    assert len(lines) == 1, err
    assert lines[0].startswith("mmfl: ")
    assert "Traceback" not in err
    return lines[0]


def test_run_prints_plain_lines_when_piped_and_stores_the_run(call, config, small):
    code, out, err = call("run", config)
    assert (code, err) == (0, "")
    assert [line.split()[0:2] for line in out.split("\n")[:3]] == [
        ["round", f"{t}/3"] for t in (1, 2, 3)
    ]
    assert "stored in runs/fair" in out
    *_, (state, _) = mmfl.rounds(small)
    assert mmfl.Run.load("runs/fair").fingerprint == state.fingerprint


def test_json_is_one_object_with_the_agreed_keys_and_nothing_else_on_standard_output(call, config):
    code, out, err = call("run", config, "--json", "--out", "here")
    assert code == 0
    found = json.loads(out)
    assert {
        "run_dir", "fingerprint", "rounds", "samples", "seconds", "seconds_train",
        "seconds_evaluate", "seconds_setup", "worst", "mean", "variance", "tasks",
    } <= set(found)  # fmt: skip
    assert found["run_dir"] == "here"
    assert set(found["tasks"]["dense"]) == {"metric", "accuracy", "loss", "clients"}
    metrics = [task["metric"] for task in found["tasks"].values()]
    assert found["worst"] == min(metrics)
    assert found["variance"] == pytest.approx(np.var(metrics))
    assert "round 1/3" in err


def test_quiet_says_nothing_but_the_result(call, config):
    assert call("run", config, "--quiet", "--out", "one") == (0, "", "")
    code, out, err = call("run", config, "--quiet", "--json", "--out", "two")
    assert (code, err) == (0, "")
    json.loads(out)


def test_set_changes_keys_and_the_stored_experiment_says_so(call, config):
    sets = ["--set", "rounds=1", "--set", "tasks.dense.lr=0.2", "--set", "allocator=uniform"]
    assert call("run", config, *sets, "-q")[0] == 0
    stored = tomllib.loads(Path("runs/fair/experiment.toml").read_text())
    assert stored["rounds"] == 1
    assert stored["tasks"][0]["local"] == {"lr": 0.2}
    assert stored["allocator"]["kind"] == "uniform"
    assert stored["kernel"] == "fast"


def test_a_stored_experiment_runs_again_to_the_same_fingerprint(call, config):
    call("run", config, "-q", "--out", "one")
    call("run", "one/experiment.toml", "-q", "--out", "two")
    assert mmfl.Run.load("one").fingerprint == mmfl.Run.load("two").fingerprint


def test_the_default_folder_is_always_a_new_one(call, config):
    for _ in range(2):
        call("run", config, "-q", "--set", "rounds=1")
    assert sorted(p.name for p in Path("runs").iterdir()) == ["fair", "fair-2"]


def test_status_tells_how_a_run_ended(call, config):
    call("run", config, "-q")
    code, out, err = call("status", "runs/fair")
    assert (code, err) == (0, "")
    assert "finished, 3 of 3 rounds" in out
    assert mmfl.Run.load("runs/fair").fingerprint in out
    code, out, _ = call("status", "runs/fair", "--json")
    assert json.loads(out)["rounds"] == 3


def test_check_trains_nothing_and_writes_nothing(call, config):
    before = sorted(Path().rglob("*"))
    code, out, err = call("check", config)
    assert (code, err) == (0, "")
    assert "task dense" in out
    assert "is valid: 2 tasks, 10 clients of which 8 are active in round 1, 3 rounds" in out
    assert [p for p in sorted(Path().rglob("*")) if "__pycache__" not in p.parts] == before


def test_schema_is_a_json_schema_that_knows_every_kind(call):
    code, out, _ = call("schema")
    assert code == 0
    schema = json.loads(out)
    text = json.dumps(schema)
    for word in ("fed_fair", "half_classes", "cnn", "mean", "inline", "score_split"):
        assert f'"{word}"' in text


MISTAKES = {
    "unknown key": (["--set", "rouns=3"], "rouns is not a known key; did you mean 'rounds'?"),
    "zero clients": (["--set", "clients.count=0"], "clients.count must be greater than or equal"),
    "wrong kind": (["--set", "allocator.kind=fedfair"], "did you mean 'fed_fair'?"),
    "missing data": (["--set", "tasks.dense.dataset=mnist"], "get it with `mmfl data fetch mnist`"),
    "data folder": (["--data-dir", "nowhere", "--set", "tasks.dense.dataset=x"], "does not exist"),
    "short data": (
        ["--set", "tasks.image.partition.points=[900,900]"],
        "task 'image': 10 clients with 900 points each need 9000 training examples, but there",
    ),
    "more clients than data": (
        ["--set", "clients.count=1000"],
        "task 'dense': 1000 clients cannot",
    ),
    "no permission": (
        ["--set", "tasks.dense.model.kind=oddmodels:Bad"],
        "'oddmodels:Bad' would import code; pass --allow-imports",
    ),
    "model that cannot be built": (
        ["--allow-imports", "--set", "tasks.dense.model.kind=oddmodels:Bad"],
        "task 'dense': its model cannot be built: RuntimeError: no such layer",
    ),
    "model of the wrong size": (
        ["--allow-imports", "--set", "tasks.dense.model.kind=oddmodels:WrongSize"],
        "task 'dense': its model must give 3 outputs per example, got shape (2, 4)",
    ),
    "cnn on a table": (["--set", "tasks.dense.model.kind=cnn"], "a cnn needs images of at least 4"),
    "nobody active": (["--set", "clients.active=0.01"], "leaves no client active"),
    "broken set": (["--set", "rounds"], "--set: must be a.b=c, got 'rounds'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("command", ["run", "check"])
def test_a_mistake_is_one_sentence_exit_code_two_and_nothing_written(
    call, config, command, mistake
):
    arguments, sentence = MISTAKES[mistake]
    code, out, err = call(command, config, *arguments)
    assert code == 2
    assert sentence in one_sentence(err)
    assert out == ""
    assert not Path("runs").exists()


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_missing_or_broken_file_is_one_sentence(call, config, command):
    assert "cannot read 'absent.toml'" in one_sentence(call(command, "absent.toml")[2])
    config.write_text("rounds = = 3")
    code, _, err = call(command, config)
    assert code == 2
    assert "not valid TOML" in one_sentence(err)


def test_a_taken_folder_and_a_missing_run_are_one_sentence(call, config):
    Path("taken").mkdir()
    Path("taken/file").touch()
    code, _, err = call("run", config, "--out", "taken")
    assert code == 2
    assert "'taken' already exists" in one_sentence(err)
    assert "'nowhere' does not exist" in one_sentence(call("status", "nowhere")[2])


def test_a_model_that_raises_costs_turns_not_the_run(call, config):
    code, out, err = call(
        "run", config, "--allow-imports", "--set", "tasks.dense.model.kind=oddmodels:Raises"
    )
    assert code == 3
    reason = "client turns failed; most common reason: raised: ValueError: not today"
    never = "task 'dense' never trained: all 7 turns failed; most common reason: raised: "
    assert one_sentence(err).startswith(f"mmfl: {never}ValueError: not today")
    assert reason in out
    assert never in out
    shown = call("status", "runs/fair")[1]
    assert reason in shown
    assert never in shown


def test_what_a_client_said_is_shown_as_it_is(call, config, tmp_path):
    said = "[bold]weights[/conv] of shape [3, 4]"
    (tmp_path / "loud.py").write_text(LOUD.replace("SAID", repr(said)))
    loud = ("--allow-imports", "--set", "tasks.dense.model.kind=loud:Loud", "--set", "rounds=1")
    code, out, err = call("run", config, *loud)
    assert code == 3
    where = f"loud.py, line 13, in Net.forward: raise ValueError({said!r})"
    assert one_sentence(err).endswith(f"raised: ValueError: {said} ({where})")
    assert f"raised: ValueError: {said} ({where})\n" in out
    assert f"raised: ValueError: {said} ({where})\n" in call("status", "runs/fair")[1]


def test_modules_beside_the_experiment_are_found_when_imports_are_allowed(config, tmp_path):
    (tmp_path / "sub").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "mmfl", "run", str(config), "-q", "--allow-imports",
         "--set", "tasks.dense.model.kind=oddmodels:Raises", "--set", "engine.kind=local"],
        cwd=tmp_path / "sub", capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "not today" in one_sentence(done.stderr)


def test_help_and_version_load_nothing_heavy():
    script = (
        "import sys; sys.argv = ['mmfl', 'OPTION']\n"
        "from mmfl.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'pydantic', 'sqlite3'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    for option, word in (("--help", "Usage"), ("--version", f"mmfl {mmfl.__version__}")):
        done = subprocess.run(
            [sys.executable, "-c", script.replace("OPTION", option)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert word in done.stdout


@pytest.mark.slow
def test_a_stored_run_with_workers_needs_no_torch_in_the_coordinator(config):
    script = (
        "import sys, mmfl\n"
        "e = mmfl.Experiment.load('fair.toml', sets=['engine.kind=local', 'rounds=1'])\n"
        "print(mmfl.run(e, out='r').fingerprint)\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_on_a_terminal_the_view_is_live(config, on_terminal):
    text = on_terminal([sys.executable, "-m", "mmfl", "run", str(config)])
    assert "\x1b[" in text
    assert "round 3 of 3" in text
    assert "difficulty" in text


def test_check_says_nothing_of_an_experiment_before_it_knows_all(call, config):
    """The last task's model is at fault: the first one is not praised."""
    code, out, err = call("check", config, "--set", "tasks.image.model.kind=preact_resnet18")
    assert (code, out) == (2, "")
    sentence = one_sentence(err)
    assert sentence.startswith(f"mmfl: {config}: task 'image': its model cannot be built: ")


def test_every_sentence_of_check_names_the_file_once_unless_a_set_is_wrong(call, config):
    for arguments, _ in MISTAKES.values():
        _, _, err = call("check", config, *arguments)
        assert err.count(str(config)) == (not err.startswith("mmfl: --set: "))


def test_check_counts_active_clients_also_where_each_has_a_rate(call, config):
    rates = "clients.active=[1,1,1,1,1,1,0,0,0,0]"
    assert "10 clients of which 6 are active" in call("check", config, "--set", rates)[1]


def test_a_pipe_can_be_checked(call, small_toml):
    os.mkfifo("pipe")
    writer = subprocess.Popen(
        [sys.executable, "-c", "import sys; open('pipe', 'w').write(sys.argv[1])", small_toml]
    )
    assert call("check", "pipe")[0] == 0
    assert writer.wait() == 0


def test_check_warns_of_nothing_before_it_knows_that_all_is_sound(call, tmp_path):
    """`half_classes` warns of a class that nobody holds; then the model cannot be built."""
    text = """
rounds = 3
clients = { count = 3 }
[[tasks]]
name = "image"
dataset = { kind = "synthetic", shape = [SHAPE], train = 300, test = 60 }
model = { kind = "MODEL" }
partition = { kind = "half_classes", points = [5, 20] }
"""
    config = tmp_path / "case.toml"
    config.write_text(text.replace("SHAPE", "8").replace("MODEL", "cnn"))
    code, out, err = call("check", config)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "its model cannot be built" in err
    config.write_text(text.replace("SHAPE", "8").replace("MODEL", "mlp"))
    code, _, err = call("check", config)
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith("mmfl: warning: task 'image': half_classes: no client holds")
