"""An auction in an experiment, as the command line shows it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

RECRUITMENT = """
[recruitment]
mechanism = { kind = "budget_fair", budget = 2.0 }
bids = { kind = "csv", path = "bids.csv" }
"""


@pytest.fixture
def config(tmp_path, small_toml) -> Path:
    path = tmp_path / "fair.toml"
    path.write_text(small_toml + RECRUITMENT)
    rows = [f"{client},0.{client + 1},0.2\n" for client in range(6)]
    (tmp_path / "bids.csv").write_text("client,dense,image\n" + "".join(rows))
    return path


def test_take_up_and_spend_are_shown_at_the_start_and_payments_at_the_end(call, config):
    code, out, err = call("run", config)
    assert (code, err) == (0, "")
    head, line, *_ = lines = out.splitlines()
    assert head.split() == ["recruited", "for", "willing", "take-up", "price", "spend"]
    assert line.split()[:3] == ["dense", "6", "3"]
    begin = next(number for number, line in enumerate(lines) if line.startswith("round 1/3"))
    assert lines[begin - 1] == "budget_fair: 2 of 2 is committed, min take-up 3"
    assert "budget_fair: 2 of 2 is committed, min take-up 3; 2 was paid" in lines[begin:]


def test_json_status_and_check_tell_of_it(call, config):
    code, out, _ = call("run", config, "--json", "--out", "out")
    told = json.loads(out)["recruitment"]
    assert code == 0
    assert told["mechanism"] == "budget_fair"
    assert told["tasks"]["image"]["take_up"] == 5
    assert told["paid"] == pytest.approx(told["spent"])
    assert "budget_fair: 2 of 2 is committed" in call("status", "out")[1]
    assert "recruited: dense 3, image 5 clients for 2" in call("check", config)[1]


def test_a_task_without_clients_stops_the_run_or_is_warned_of(call, config):
    Path("bids.csv").write_text("client,dense,image\n0,0.1,\n1,0.1,\n")
    code, out, err = call("run", config, "--out", "out")
    assert (code, out) == (2, "")
    assert err.startswith(
        "mmfl: the auction recruited no client that can train task 'image': nobody is"
    )
    assert err.count("\n") == 1
    assert not Path("out").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        leave = ("--set", "recruitment.empty=leave_out")
        code, out, err = call("run", config, "--out", "out", *leave)
    assert code == 0
    assert err == (
        "mmfl: warning: the auction recruited no client that can train image; "
        "left out of training\n"
    )
    assert "never trained" in out


def test_a_bad_cell_is_one_sentence_before_anything_is_written(call, config):
    Path("bids.csv").write_text("client,dense,image\n0,0.1,cheap\n")
    code, out, err = call("run", config, "--out", "out")
    assert (code, out) == (2, "")
    assert err == (
        "mmfl: recruitment.bids: bids.csv, line 2, column 'image' (client '0'): must be a "
        "number >= 0, or empty (or inf) if the client is unwilling, got 'cheap'\n"
    )
    assert not Path("out").exists()
