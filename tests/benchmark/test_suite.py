"""The suite as data: its settings and rules, and mistakes in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmfl.benchmark import find_suite, load_suite
from mmfl.errors import ConfigError, InputError
from support.helpers import one_line

SUITE = load_suite(find_suite())

SETTING = """
rounds = 2
clients = { count = 6 }
[[tasks]]
name = "a"
dataset = { kind = "synthetic", train = 60, test = 20 }
"""
FILE = """
baseline = "uniform"
[rules]
uniform = { allocator = "uniform" }
[scales.full]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings/plain.toml").write_text(SETTING)
    (tmp_path / "suite.toml").write_text(FILE)
    return tmp_path


def test_there_are_at_least_eight_settings_with_embedded_data() -> None:
    assert len({*SUITE.settings} - {*SUITE.full_data}) >= 8
    assert {"fed_fair", "uniform", SUITE.baseline} <= {*SUITE.rules}


@pytest.mark.parametrize("scale", SUITE.scales)
@pytest.mark.parametrize("setting", SUITE.settings)
def test_every_setting_makes_experiments_that_differ_in_the_rule_alone(setting, scale) -> None:
    found = SUITE.experiments(setting, SUITE.rules, scale)
    tables = [{**vars(one), "allocator": None, "aggregator": None} for one in found.values()]
    assert all(table == tables[0] for table in tables)
    if scale == "smoke":
        assert all(one.rounds == 2 for one in found.values())


def test_a_scale_replaces_keys_of_every_setting(folder: Path) -> None:
    (folder / "suite.toml").write_text(f"{FILE}[scales.long]\nrounds = 9\nlocal.epochs = 2\n")
    made = load_suite(folder).experiments("plain", ["uniform"], "long")["uniform"]
    assert (made.rounds, made.local.epochs, made.clients.count) == (9, 2, 6)


def test_a_rule_can_be_added(folder: Path) -> None:
    suite, name = load_suite(folder).add_rule("{kind='fed_fair', alpha=5}")
    assert name == "fed_fair alpha=5"
    assert suite.experiments("plain", [name], "full")[name].allocator.alpha == 5.0
    again, same = suite.add_rule("uniform")
    assert same == "uniform"
    assert again.rules == suite.rules


def test_a_name_must_mean_one_rule(folder: Path) -> None:
    text = FILE.replace('allocator = "uniform"', 'allocator = "round_robin"')
    (folder / "suite.toml").write_text(text)
    said = one_line(InputError, lambda: load_suite(folder).add_rule("uniform"))
    assert said == "rule: the suite has another rule 'uniform' than uniform"


@pytest.mark.parametrize("text", ["", "a,b"])
def test_a_rule_that_is_none_is_one_sentence(folder: Path, text: str) -> None:
    suite = load_suite(folder)
    assert "rule takes" in one_line(InputError, lambda: suite.add_rule(text))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('baseline = "uniform"', "", "baseline is missing"),
        ('baseline = "uniform"', 'baseline = "unifrm"', "did you mean 'uniform'"),
        ("[rules]", "[ruels]", "ruels"),
        ("[scales.full]", "[scales", "not valid TOML"),
        ("[scales.full]", 'full_data = ["plan"]\n[scales.full]', "full_data"),
    ],
)
def test_a_mistake_in_the_suite_is_one_sentence(folder: Path, old, new, words) -> None:
    text = FILE.replace(old, new)
    assert text != FILE
    (folder / "suite.toml").write_text(text)
    said = one_line(ConfigError, lambda: load_suite(folder))
    assert "suite.toml" in said
    assert words in said


def test_a_setting_has_no_allocator(folder: Path) -> None:
    (folder / "settings/plain.toml").write_text(f'allocator = "uniform"\n{SETTING}')
    assert "plain.toml: a setting" in one_line(ConfigError, lambda: load_suite(folder))


def test_a_mistake_in_a_setting_names_it_and_the_rule(folder: Path) -> None:
    (folder / "settings/plain.toml").write_text(SETTING.replace("rounds = 2", "rounds = 0"))
    suite = load_suite(folder)
    said = one_line(ConfigError, lambda: suite.experiments("plain", ["uniform"], "full"))
    assert said.startswith("plain, uniform: rounds must be")


def test_a_folder_without_a_suite_is_one_sentence(tmp_path: Path) -> None:
    assert "has no suite.toml" in one_line(ConfigError, lambda: load_suite(tmp_path))
    (tmp_path / "suite.toml").write_text(FILE)
    assert "has no settings" in one_line(ConfigError, lambda: load_suite(tmp_path))


def test_unknown_names_get_a_hint() -> None:
    said = one_line(InputError, lambda: SUITE.select("settings", "few_client"))
    assert said.endswith("did you mean 'few_clients'?")
    said = one_line(InputError, lambda: SUITE.experiments("few_clients", ["uniform"], "ful"))
    assert "'full'" in said
