"""What the documentation shows, works."""

from __future__ import annotations

import re

import pytest

import mmfl
from mmfl import Experiment
from support.pages import HOUSE, block, blocks, write_files

INLINE = 'engine = "inline"\n'
"""No worker processes: starting them takes longer than all else here."""


def test_ones_own_allocator_works_as_shown(tmp_path, monkeypatch):
    page = "docs/how-to/write-an-allocator.md"
    write_files(page, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    shown = block(page, "greedy.toml")
    experiment = Experiment.from_toml(INLINE + shown, allow_imports=True)
    *_, (_, last) = mmfl.rounds(experiment)
    assert last.failures == ()
    assert sorted(last.clients.values()) == [0, 8]
    assert Experiment.from_toml(experiment.to_toml(), allow_imports=True) == experiment


def test_ones_own_data_loss_and_metric_work_as_shown(tmp_path, monkeypatch):
    page = "docs/how-to/use-your-own-data.md"
    write_files(page, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    shown = block(page, "stays.toml")
    experiment = Experiment.from_toml(INLINE + shown, allow_imports=True)
    *_, (_, last) = mmfl.rounds(experiment)
    assert last.failures == ()
    assert last.clients == {"stays": 4}
    assert last.metric["stays"] > 0.3
    assert Experiment.from_toml(experiment.to_toml(), allow_imports=True) == experiment


def test_faults_happen_as_shown():
    experiment = Experiment.from_toml(block("docs/how-to/simulate-faults.md", "faulty.toml"))
    records = [record for _, record in mmfl.rounds(experiment)]
    kinds = {fault.kind for record in records for fault in record.faults}
    assert kinds == {"dropout", "late", "sign_flipped", "nan"}
    assert max(record.virtual for record in records) == 4.0
    assert Experiment.from_toml(experiment.to_toml()) == experiment


@pytest.mark.filterwarnings("ignore:.*no test data was given")
def test_the_readmes_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(HOUSE)
    first, own, second = (shown.text for shown in blocks("README.md", "python"))
    short = first.replace(
        'first_run.toml")', 'first_run.toml", sets=["rounds=2", "engine=inline"])'
    )
    assert short != first
    folder = str(tmp_path / "run")
    exec(short.replace("mmfl.run(experiment)", f"mmfl.run(experiment, out={folder!r})"), {})
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(own, names)
    assert names["run"].status == "finished"
    exec(second, {})
    assert len(capsys.readouterr().out.splitlines()) == 2 + 1 + 4 + 1


EXPERIMENTS = sorted(
    path
    for path in (*HOUSE.glob("experiments/*/*.toml"), *HOUSE.glob("experiments/*/settings/*"))
    if path.parent.name not in ("exp5", "paper", "benchmark")  # markets, studies, rules
)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.name)
def test_the_experiments_fit_the_schema_that_editors_use(path):
    import tomllib

    import jsonschema

    schema = Experiment.json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    checker = jsonschema.Draft202012Validator(schema)
    data = tomllib.loads(path.read_text())
    assert list(checker.iter_errors(data)) == []
    full = tomllib.loads(Experiment.load(path).resolved().to_toml())
    assert list(checker.iter_errors(full)) == []
    for wrong in (data | {"rouns": 3}, data | {"rounds": "3"}, data | {"allocator": {"kind": "x"}}):
        assert list(checker.iter_errors(wrong))


def test_the_analysis_computes_as_shown():
    (shown,) = blocks("docs/explanation/theory.md", "python")
    names = {}
    exec(shown.text, names)
    assert names["p"] == pytest.approx([0.94, 0.06], abs=0.005)
    assert names["omega"].sum() == pytest.approx(1 - (1 - names["p"][1]) ** 4)
    assert 0 < names["low"] < 1 < names["high"]
    assert 0 < names["noise"] < 1
    assert names["error"] > 0
    assert (names["chance"], names["before"]) == pytest.approx((0.445, 0.871), abs=5e-4)


def test_every_check_that_the_analysis_names_exists():
    page = (HOUSE / "docs/explanation/theory.md").read_text()
    named = set(re.findall(r"`(Test\w+)`", page))
    written = "\n".join(path.read_text() for path in (HOUSE / "tests/theory").glob("*.py"))
    assert named == set(re.findall(r"^class (Test\w+)", written, flags=re.MULTILINE))
