"""What the command line shows of faults."""

from __future__ import annotations

import json

from mmfl import Run
from support.experiments import LEAST_INLINE

BAD = """
[faults]
dropout = 0.3
[[faults.clients]]
does = "nan"
share = 0.6
[quarantine]
strikes = 1
"""


def test_what_was_injected_and_what_came_of_it_is_shown(call, small_toml, tmp_path):
    (tmp_path / "bad.toml").write_text(small_toml + BAD)
    code, said, _ = call("run", tmp_path / "bad.toml", "--out", tmp_path / "run")
    assert code == 0
    run = Run.load(tmp_path / "run")
    _, status, _ = call("status", tmp_path / "run")
    for text in (said, status):
        lines = [line.split() for line in text.splitlines()]
        assert ["fault", "injected", "lost", "refused", "accepted"] in lines
        gone, bad = run.faults["dropout"], run.faults["nan"]
        assert ["dropout", str(gone.injected), str(gone.injected), "0", "0"] in lines
        assert ["nan", str(bad.injected), "0", str(bad.injected), "0"] in lines
        assert f"{run.quarantined} clients are in quarantine after the last round" in text
    assert min(gone.injected, bad.injected, run.quarantined) > 0
    _, out, _ = call("status", tmp_path / "run", "--json")
    assert json.loads(out)["faults"]["nan"] == {
        "injected": bad.injected, "lost": 0, "refused": bad.injected, "accepted": 0,
    }  # fmt: skip


def test_without_faults_nothing_is_said_of_them(call, small_toml, tmp_path):
    (tmp_path / "plain.toml").write_text(small_toml)
    _, said, _ = call("run", tmp_path / "plain.toml", "--out", tmp_path / "run")
    _, status, _ = call("status", tmp_path / "run")
    assert "injected" not in said + status
    assert "quarantine" not in said + status
    _, out, _ = call("run", tmp_path / "plain.toml", "--out", tmp_path / "again", "--json")
    assert "faults" not in json.loads(out)


def test_a_mistake_in_the_faults_is_one_sentence(call, small_toml, tmp_path):
    (tmp_path / "odd.toml").write_text(small_toml + BAD.replace('"nan"', '"nun"'))
    code, _, err = call("check", tmp_path / "odd.toml")
    assert code == 2
    assert len(err.splitlines()) == 1
    assert "faults.clients[0].does.kind" in err


def test_one_failed_turn_and_one_client_in_quarantine_are_singular(call, tmp_path):
    one = (
        LEAST_INLINE
        + """
[[faults.clients]]
does = "nan"
ids = [2]
[quarantine]
strikes = 1
"""
    )
    (tmp_path / "one.toml").write_text(one)
    code, said, _ = call("run", tmp_path / "one.toml", "--out", tmp_path / "run")
    assert code == 0
    assert "\n1 client turn failed; most common reason: " in said
    assert "\n1 client is in quarantine after the last round\n" in said


def test_turns_and_evaluations_that_failed_are_counted_apart(call, tmp_path):
    (tmp_path / "a.toml").write_text(LEAST_INLINE)
    does = "{ids=[1],does={kind='false_loss',factor=1.0,metric=7.0}}"
    lies = f"faults={{clients=[{does},{{ids=[2],does='nan'}}]}}"
    sets = ("--set", "score_source=clients", "--set", lies)
    code, said, _ = call("run", tmp_path / "a.toml", *sets, "--out", tmp_path / "run")
    assert code == 0
    assert "\n1 client turn and 1 client evaluation failed; most common reason: " in said
    one = ("--set", "score_source=clients", "--set", f"faults={{clients=[{does}]}}")
    _, said, _ = call("run", tmp_path / "a.toml", *one, "--out", tmp_path / "one")
    assert (
        "\n1 client evaluation failed; most common reason: evaluation: claims a mean metric of 7, "
        "which is not a number from 0 to 1\n"
    ) in said
