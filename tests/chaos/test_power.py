"""A few of the power cuts of ``make chaos``, in processes of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.power.recording import RecorderError, compile_shim
from support.marks import slow

HOUSE = Path(__file__).parent.parent.parent

needs_recorder = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("gcc") is None,
    reason="power cuts are recorded with LD_PRELOAD and a library in C: needs Linux and gcc",
)


def cut(scenario: str, states: int, *options: str) -> tuple[int, dict]:
    """Exit code and results of a few cuts."""
    few = ("--scenario", scenario, "--states", f"{states}", "--again", "0")
    command = [sys.executable, "-m", "chaos.power.run", *few, *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HOUSE)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@needs_recorder
@pytest.mark.parametrize(
    ("scenario", "states"),
    [slow("two rounds", 24), ("read while it finishes", 16)],
)
def test_a_power_cut_at_any_moment_resumes_to_the_straight_run(scenario, states):
    code, found = cut(scenario, states)
    assert found["failures"] == []
    assert found["states"] == states
    assert found["of these with something lost"] >= states // 2
    assert found["of these after a checkpoint was announced"] >= states // 4
    assert code == 0


@pytest.mark.slow
@needs_recorder
def test_syncs_that_are_left_out_are_found():
    """The harness would notice: the same run without a single fsync loses what it announced."""
    code, found = cut("two rounds", 16, "--without", ".")
    assert code == 1
    assert found["failed"] >= 3
    wrong = [sentence for failure in found["failures"] for sentence in failure["wrong"]]
    assert any("was announced" in sentence for sentence in wrong)


def test_without_a_compiler_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RecorderError, match=r"^power cuts are recorded with [^\n]*$"):
        compile_shim(tmp_path)
