"""Studies as data: the paper's own, and mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmfl.errors import ConfigError
from mmfl.reproduce import AuctionStudy, find_paper, find_studies, load_scales, load_study
from mmfl.reproduce.study import merge
from support.helpers import one_line

PAPER = find_paper()
SCALES = load_scales(PAPER)
STUDIES = {name: load_study(PAPER, name) for name in find_studies(PAPER)}
TRAINED = {name: study for name, study in STUDIES.items() if not isinstance(study, AuctionStudy)}


def test_all_experiments_of_the_paper_are_there():
    assert {*STUDIES} >= {*(f"exp{number}" for number in range(1, 7)), "table2", "qfel"}
    assert {*SCALES} == {"smoke", "small", "paper"}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", TRAINED)
def test_every_setting_makes_valid_experiments(name, scale):
    study = TRAINED[name]
    for setting in study.settings:
        for experiment in study.experiments(setting, SCALES[scale]).values():
            assert experiment.rounds == SCALES[scale].rounds
            assert tuple(task.name for task in experiment.tasks) == study.settings[setting].tasks


@pytest.mark.parametrize("name", STUDIES)
def test_claims_and_panels_name_what_exists(name):
    study = STUDIES[name]
    for claim in study.claims:
        for setting in getattr(claim, "settings", None) or (claim.setting,):
            assert setting in study.settings
        named = getattr(claim, "variants", None) or (claim.of, *getattr(claim, "over", ()))
        assert set(named) <= set(study.variants)
    for panel in study.panels:
        assert panel.setting in study.settings
        one = getattr(panel, "variant", None)
        assert set(getattr(panel, "variants", None) or ([one] if one else ())) <= {*study.variants}


def test_the_papers_constants():
    paper = SCALES["paper"]
    one = TRAINED["exp1"].experiments("clean networks", paper)["FedFairMMFL"]
    assert (one.rounds, one.clients.count, one.clients.active) == (120, 120, 0.35)
    assert (one.local.epochs, one.local.batch_size, one.local.momentum) == (5, 32, 0.9)
    assert one.tasks[0].partition.points == (150, 250)
    three = TRAINED["exp3"].experiments("160 clients", paper)["random"]
    assert (three.clients.count, three.clients.active) == (160, 0.25)
    ten = TRAINED["exp2"].experiments("10 tasks", paper)["FedFairMMFL"]
    assert (len(ten.tasks), ten.clients.count, ten.clients.active) == (10, 20, 1.0)
    assert ten.allocator.alpha == 3.0
    six = TRAINED["exp6"].experiments("Gaussian 0.5, 0.2", paper)["Max-Min Fair"]
    assert six.recruitment.mechanism.budget == 29.0


def test_studies_that_share_runs_have_the_same_experiments():
    for name, study in TRAINED.items():
        if study.runs is None:
            continue
        owner = TRAINED[study.runs]
        shared = 0
        for setting in study.settings:
            ours = study.experiments(setting, SCALES["small"])
            theirs = owner.experiments(setting, SCALES["small"])
            for variant in ours.keys() & theirs.keys():
                assert ours[variant] == theirs[variant], (name, setting, variant)
                shared += 1
        assert shared


def test_rules_differ_in_nothing_but_the_rule():
    for setting in TRAINED["exp2"].settings:
        found = TRAINED["exp2"].experiments(setting, SCALES["small"])
        tables = [{**vars(one), "allocator": None} for one in found.values()]
        assert all(table == tables[0] for table in tables)


def test_tables_are_merged_key_by_key():
    merged = merge({"a": {"x": 1, "y": 2}, "b": 1}, {"a": {"y": 3}}, {"b": {"z": 1}})
    assert merged == {"a": {"x": 1, "y": 3}, "b": {"z": 1}}


def test_another_kind_replaces_a_table():
    merged = merge({"a": {"kind": "one", "x": 1}}, {"a": {"kind": "two"}})
    assert merged == {"a": {"kind": "two"}}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('title = "More', 'titel = "More', "titel"),
        ('kind = "gain"', 'kind = "gian"', "gian"),
        ("points = [400, 600]", "points = [400]", "points"),
        ('quantity = "mean"', "quantity = 3", "quantity"),
        (
            "[variants.random]",
            '[settings.new]\ntasks = ["mnist"]\nvariants = ["fast"]\n[variants.random]',
            "fast",
        ),
        ("title = ", "title = [", "not valid TOML"),
        ('setting = "3 tasks"', 'setting = "3 task"', "unknown setting '3 task'; did you mean '3"),
        ('of = "FedFairMMFL"', 'of = "FedFair"', "claims[0]: unknown variant 'FedFair'"),
        ('over = ["random"', 'over = ["chance"', "unknown variant 'chance'"),
        ('quantity = "mean"', 'quantity = "median"', "unknown quantity 'median'"),
        ('quantity = "mean"', 'quantity = "task mmist"', "unknown task 'mmist'"),
        ('quantity = "mean"', 'quantity = "worst at budget 5"', "needs a study of budgets"),
        ("points = [400, 600]", 'points = [400, 600]\nruns = "../x"', "no study '../x'"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_file(tmp_path: Path, old, new, words):
    text = (PAPER / "exp2.toml").read_text()
    assert old in text
    (tmp_path / "scales.toml").write_text((PAPER / "scales.toml").read_text())
    (tmp_path / "mine.toml").write_text(text.replace(old, new))
    said = one_line(ConfigError, lambda: load_study(tmp_path, "mine"))
    assert "mine.toml" in said
    assert words in said


@pytest.mark.parametrize("budget", [0, 61])
def test_a_claim_at_a_budget_that_is_not_tried_is_one_sentence(tmp_path: Path, budget):
    text = (PAPER / "exp5.toml").read_text().replace("at budget 10", f"at budget {budget}", 1)
    (tmp_path / "scales.toml").write_text((PAPER / "scales.toml").read_text())
    (tmp_path / "mine.toml").write_text(text)
    said = one_line(ConfigError, lambda: load_study(tmp_path, "mine"))
    assert "must be at a budget from 1 to 60" in said


@pytest.mark.parametrize("table", ["settings", "variants"])
def test_a_study_of_nothing_is_one_sentence(tmp_path: Path, table):
    (tmp_path / "scales.toml").write_text((PAPER / "scales.toml").read_text())
    other = {"settings": "variants", "variants": "settings"}[table]
    inner = {"settings": 'tasks = ["mnist"]', "variants": ""}[other]
    text = f'title = "x"\npaper = "y"\npoints = [1, 2]\n[{table}]\n[{other}.a]\n{inner}\n'
    (tmp_path / "mine.toml").write_text(text)
    said = one_line(ConfigError, lambda: load_study(tmp_path, "mine"))
    assert said.endswith(f"{table} must have at least 1 item, not 0, got {{}}")


def test_a_scale_that_is_no_table_is_one_sentence(tmp_path: Path):
    (tmp_path / "scales.toml").write_text("tiny = 3\n")
    said = one_line(ConfigError, lambda: load_scales(tmp_path))
    assert said.endswith("scales.toml: tiny must be a table, got 3")


def test_an_unknown_study_or_task_is_named(tmp_path: Path):
    assert "exp2" in one_line(ConfigError, lambda: load_study(PAPER, "exp22"))
    text = (PAPER / "exp2.toml").read_text().replace('"fashion"]', '"fashon"]')
    (tmp_path / "scales.toml").write_text((PAPER / "scales.toml").read_text())
    (tmp_path / "mine.toml").write_text(text)
    study = load_study(tmp_path, "mine")
    said = one_line(ConfigError, lambda: study.experiments("3 tasks", SCALES["small"]))
    assert "fashion" in said
