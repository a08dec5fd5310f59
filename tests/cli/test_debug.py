"""``--debug`` shows whole tracebacks, wherever the error was; a debugger gets the error itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest
import typer

from mmfl.cli import app
from support.experiments import write_small

pytestmark = pytest.mark.usefixtures("no_figures")

OWN = """
from dataclasses import dataclass
from torch import nn

@dataclass(frozen=True)
class Raises:
    when: str = "training"

    def build(self, shape, outputs):
        return Net(shape[0], outputs, self.when)

class Net(nn.Linear):
    def __init__(self, inputs, outputs, when):
        super().__init__(inputs, outputs)
        self.when = when

    def forward(self, x):
        if self.when == "always" or self.training:
            return self.fail(x)
        return super().forward(x)

    def fail(self, x):
        secret = 42
        raise ValueError("not \\x1b[31mtoday")

@dataclass(frozen=True)
class Allocator:
    seed: int = 0

    def allocate(self, view, state, *, rng):
        raise LookupError("nobody")

@dataclass(frozen=True)
class Market:
    def quantile(self, u):
        raise LookupError("no bids")
"""
MESSAGE = re.escape(
    "ValueError: not \\x1b[31mtoday (frames_own.py, line 19, in Net.forward: return self.fail(x); "
    'frames_own.py, line 24, in Net.fail: raise ValueError("not \\x1b[31mtoday"))'
)
TRACE = r"""
  File ".*/frames_own\.py", line 19, in forward
    return self\.fail\(x\)
           \^+
  File ".*/frames_own\.py", line 24, in fail
    raise ValueError\("not \\x1b\[31mtoday"\)
"""
LAST = r"(ValueError|mmfl\.errors\.EngineError): .*not \\x1b\[31mtoday"


@pytest.fixture
def config(tmp_path) -> Path:
    (tmp_path / "frames_own.py").write_text(OWN)
    path = tmp_path / "fair.toml"
    path.write_text(write_small("a", "b"))
    return path


def model(when: str = "training") -> tuple[str, ...]:
    return "--allow-imports", "--set", f"tasks.a.model={{kind='frames_own:Raises', when='{when}'}}"


def check(err: str, last: str) -> None:
    """A traceback, and then the sentence, without escape sequences."""
    assert err.replace("\n", "").isprintable()
    assert re.search(TRACE + LAST, err), err
    assert re.search(last, err.splitlines()[-1]), err.splitlines()[-1]
    assert "Traceback" not in err.splitlines()[-1]


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_turns_that_failed_are_shown_once(call, config, engine):
    words = ("--set", f"engine.kind={engine}", *model(), "--out", "run", "-q")
    code, out, err = call("run", config, *words)
    assert (code, out) == (3, "")
    assert re.fullmatch(rf"mmfl: task 'a' never trained: all \d+ .*: {MESSAGE}\n", err)
    code, out, err = call("run", config, *words[:-3], "--out", "again", "-q", "--debug")
    assert (code, out) == (3, "")
    assert err.startswith("round 1, task 'a', client ")
    check(err, MESSAGE)
    assert err.count("Traceback") == 1


@pytest.mark.parametrize("engine", ["inline", "local"])
@pytest.mark.parametrize("command", ["run", "check", "profile"])
def test_an_error_that_ends_a_command_is_shown_whole(call, config, command, engine):
    words = (command, config, "--set", f"engine.kind={engine}", *model("always"))
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"mmfl: .*task 'a': its model does not run: {MESSAGE}\n", err)
    code, out, err = call(*words, "--debug")
    assert (code, out) == (2, "")
    check(err, MESSAGE)


def test_the_step_of_a_check_is_shown_whole(call, config):
    code, out, err = call("check", config, *model(), "--debug")
    assert (code, out) == (2, "")
    check(err, f"one step of training failed: {MESSAGE}$")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_runs_and_turns_of_a_comparison_are_shown(call, config, jobs):
    words = ("--seeds", "0-1", "--jobs", jobs, "-q", "--debug")
    code, _, err = call("compare", config, *model(), *words, "--out", "turns")
    assert code == 3
    for seed in (0, 1):  # the first turn of the one that is faster is shown first
        assert re.search(rf"^as is, seed {seed}, round 1, task 'a', client \d:$", err, re.M)
    assert err.count("Traceback") == 2
    check(err, MESSAGE)
    rule = ("--allow-imports", "--vary", "allocator.kind=fed_fair,frames_own:Allocator")
    code, _, err = call("compare", config, *rule, *words, "--out", "runs")
    assert code == 1
    for seed in (0, 1):
        assert f"frames_own:Allocator, seed {seed}:\n" in err
    assert len(re.findall(r'File ".*/frames_own\.py", line 31, in allocate', err)) == 2


def test_the_other_commands_show_it_too(call, config):
    rule = ("--allow-imports", "--set", "allocator.kind=frames_own:Allocator", "--debug")
    code, _, err = call("plan", config, *rule)
    assert code == 2
    assert re.search(r'File ".*/frames_own\.py", line 31, in allocate', err)
    market = Path("market.toml")
    market.write_text("clients = 4\n[tasks]\na = { kind = 'frames_own:Market' }\n")
    code, _, err = call("auction", "run", market, "-b", "3", "--allow-imports", "--debug")
    assert code == 2
    assert re.search(r'File ".*/frames_own\.py", line 36, in quantile', err)


@pytest.mark.parametrize(
    "words",
    [
        *("run", "compare", "check", "plan", "profile", "reproduce"),
        *("auction run", "auction compare", "auction check"),
    ],
)
def test_every_command_that_runs_the_users_code_has_it(words):
    command = typer.main.get_command(app)
    for word in words.split():
        command = typing.cast(typing.Any, command).commands[word]
    assert any("--debug" in param.opts for param in command.params)


def test_a_mistake_is_shown_with_its_traceback(call, config):
    code, _, err = call("check", config, "--set", "rounds=0", "--debug")
    assert code == 2
    assert "mmfl.errors.ConfigError: sets: rounds must be" in err
    assert err.splitlines()[-1].startswith("mmfl: --set: rounds must be")


@pytest.mark.cold
def test_a_debugger_lands_in_the_users_frame(config):
    words = ("run", config.name, "-q", *model(), "--set", "engine.raise_errors=true")
    done = subprocess.run(
        [sys.executable, "-m", "pdb", "-c", "continue", "-m", "mmfl", *words, "--out", "run"],
        input="print('secret', secret)\nq\n",
        capture_output=True,
        text=True,
        cwd=config.parent,
        env=os.environ,
    )
    assert "secret 42" in done.stdout, done.stdout + done.stderr
    assert "task 'a': the turn of client" in done.stderr
