"""What the command line shows of tasks whose metric is better if it is lower."""

from __future__ import annotations

import dataclasses
import io

import pytest

import mmfl
from mmfl import Experiment
from mmfl.cli.views.progress import ProgressView

TOML = """
rounds = 1
clients = 4
engine = "inline"
[[tasks]]
name = "words"
dataset = { kind = "synthetic", classes = 5, train = 80, test = 60 }
metric = "perplexity"
[[tasks]]
name = "dense"
dataset = { kind = "synthetic", classes = 3, train = 80, test = 60 }
"""


def test_the_command_line_says_what_the_worst_task_is_judged_by(call, tmp_path):
    (tmp_path / "a.toml").write_text(TOML)
    _, said, _ = call("run", tmp_path / "a.toml", "--out", tmp_path / "run")
    _, status, _ = call("status", tmp_path / "run")
    for text in (said, status):
        assert "\nover all tasks, words counts as 1 / perplexity\n" in text
    accuracy = ("--set", "tasks.words.metric=accuracy", "--out", tmp_path / "other")
    assert "counts as" not in call("run", tmp_path / "a.toml", *accuracy)[1]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("kind", "value", "width"), [("perplexity", 4.0, 6), ("accuracy", 0.5, 12)]
)
def test_the_bar_of_a_running_task_is_its_merit(monkeypatch, kind, value, width):
    for name, setting in {"COLUMNS": "100", "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, setting)
    experiment = Experiment.from_toml(TOML, sets=[f"tasks.words.metric={kind}"])
    [(_, record)] = mmfl.rounds(experiment)
    record = dataclasses.replace(record, metric=record.metric | {"words": value})
    stream = Terminal()
    with ProgressView(experiment, stream, quiet=False) as view:
        view.show(record)
    row = next(line for line in stream.getvalue().splitlines() if "words" in line)
    assert row.count("━") == width
