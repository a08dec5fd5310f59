"""``mmfl export``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from torch import nn

import mmfl
from mmfl import Experiment, Task
from mmfl.comparison import compare
from support.made_data import clouds


def test_tables_and_models_with_a_line_for_each_file(call, small):
    mmfl.run(small, "run")
    code, out, err = call("export", "run", "--csv", "out", "--model", "models")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert {"out/tasks.csv: 2 rows", "out/clients.csv: 0 rows", "out/rounds.csv: 3 rows"} < {*lines}
    assert lines[-1] == "models/image/README.md"
    assert all(Path(line.partition(":")[0]).is_file() for line in lines)
    code, out, err = call("export", "run", "--csv", "other", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["tables"]["other/turns.csv"] == 24
    assert told["models"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], "say what to export: --csv DIR, --model DIR or both"),
        (["run", "--csv", "run"], "'run' is in the run directory"),
        (
            ["run", "--csv", "full"],
            "'full/turns.csv' already exists; name another folder, or replace it with --force",
        ),
        (["gone", "--csv", "out"], "'gone' does not exist"),
        (
            ["compared", "--csv", "out"],
            "'compared' is a comparison; name one of its runs, such as compared/x/seed-1",
        ),
        (["gone", "--model", "out"], "'gone' does not exist"),
    ],
)
def test_mistakes_are_one_sentence(call, small, words, said):
    mmfl.run(small, "run")
    Path("full").mkdir()
    Path("full/turns.csv").touch()
    if "compared" in words:
        compare({"x": small}, [1], "compared")
    code, out, err = call("export", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert not Path("out").exists()


def test_a_run_of_a_comparison_is_exported(call, small):
    compare({"x": small}, [1], "compared")
    assert call("export", "compared/x/seed-1", "--csv", "out", "--model", "out")[0] == 0
    code, _, err = call("export", "compared/x/seed-1", "--csv", "out", "--force")
    assert (code, err) == (0, "")


@pytest.mark.filterwarnings("ignore:the data")
def test_a_network_in_memory_comes_out_in_another_process():
    x, y = clouds(["a", "b"])
    network = nn.Sequential(nn.Linear(5, 2))
    task = Task("heart", data=(x, y, x, y), model=lambda shape, outputs: network)
    run = mmfl.run(Experiment(tasks=[task], clients=3, rounds=2, engine="inline"), "run")
    said = run.model("heart").predict(x)
    done = subprocess.run(
        [sys.executable, "-m", "mmfl", "export", "run", "--model", "out"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    text = Path("out/heart/README.md").read_text()
    assert 'mmfl.load_model(".", network=...)' in text
    assert "The network is your own (`function`). `model.safetensors` has its weights" in text
    assert (mmfl.load_model("out/heart", network=network).predict(x) == said).all()
    assert np.array_equal(mmfl.load_model("out/heart").predict(x), said)


def test_an_unfinished_run_is_exported_with_a_warning(call, small):
    from mmfl.runs import stored_rounds

    with stored_rounds(small, "run") as rounds:
        next(rounds)
    code, _, err = call("export", "run", "--csv", "out")
    assert code == 0
    assert err == (
        "mmfl: warning: the run in 'run' is not finished: its tables have 1 of 3 rounds\n"
    )
