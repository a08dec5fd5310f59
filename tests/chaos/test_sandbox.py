"""The sandbox of the fuzzer: time, memory and files are watched, and nothing leaks out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent.parent

SCRIPT = """
import os, sys, time
sys.path[:0] = [{house!r}]
import mmfl.cli
from chaos import sandbox
from chaos.mutated_inputs import Case
from chaos.verdict import verdict
sandbox.SECONDS = 1.5

def hang():
    while True: pass

def greedy():
    return bytearray(7 << 30)

def litter():
    open("left.txt", "w").write("x"); sys.stderr.write("mmfl: case.toml: line 3\\n"); sys.exit(2)

def killed():
    os.kill(os.getpid(), 11)

def good():
    assert open("case.toml").read() == "seed = 1"
    print("fine")

mmfl.cli.main = lambda: globals()[sys.argv[1]]()
box = sandbox.Sandbox(__import__("pathlib").Path("box/here"))
for what in sys.argv[1:]:
    case = Case((what,), "case.toml", b"seed = 1", ())
    print(what, "=", verdict(case, box.run(case)))
"""


@pytest.fixture
def verdicts():
    def verdicts(*what: str) -> dict[str, str]:
        script = SCRIPT.format(house=str(HOUSE))
        Path("box").mkdir()
        command = [sys.executable, "-c", script, *what]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return dict(line.split(" = ") for line in done.stdout.splitlines())

    return verdicts


def test_each_way_to_fail_is_found_and_the_next_case_begins_anew(verdicts):
    assert verdicts("good", "hang", "litter", "greedy", "killed") == {
        "good": "valid",
        "hang": "too slow",
        "litter": "left files behind",
        "greedy": "traceback",
        "killed": "signal 11",
    }
