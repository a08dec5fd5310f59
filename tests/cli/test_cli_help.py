"""Help says all that was written, and mistakes are told what helps."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

import mmfl
from mmfl.cli import app
from mmfl.errors import InputError, StoreError
from support.experiments import LEAST_INLINE

EXPERIMENT = LEAST_INLINE


def commands(here: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    if isinstance(here, click.Group):
        for name, inner in here.commands.items():
            yield from commands(inner, (*words, name))


ALL = list(commands(typer.main.get_command(app)))


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"[│╭╮╰╯─]", " ", text))


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_says_all_that_was_written(call, monkeypatch, words):
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        monkeypatch.setenv(name, "4000")
    here = typer.main.get_command(app)
    for word in words:
        assert isinstance(here, click.Group)
        here = here.commands[word]
    code, out, err = call(*words, "--help")
    assert (code, err) == (0, "")
    shown = squeezed(out)
    written = [here.help or "", *(str(getattr(p, "help", None) or "") for p in here.params)]
    for text in written:
        for paragraph in text.split("\n\n"):
            assert squeezed(paragraph.replace("\\[", "[")).strip() in shown


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_has_no_line_breaks_within_a_paragraph(words):
    here = typer.main.get_command(app)
    for word in words:
        assert isinstance(here, click.Group)
        here = here.commands[word]
    assert not re.search(r"[^\n]\n[^\n]", here.help or "")


def test_the_help_of_auctions_names_the_section(call):
    assert "or an experiment with [recruitment]." in squeezed(call("auction", "run", "--help")[1])


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (("--rounds", "3"), "--set rounds=3"),
        (("--rounds=3",), "--set rounds=3"),
        (("--alpha", "5"), "--set allocator.alpha=5"),
        (("--lr", "0.1"), "--set local.lr=0.1"),
        (("--batch-size", "8"), "--set local.batch_size=8"),
        (("--workers", "2"), "--set engine.workers=2"),
        (("--seed",), "--set seed=..."),
        (("--count", "a b"), "--set 'clients.count=a b'"),
    ],
)
@pytest.mark.parametrize("command", ["run", "check"])
def test_a_key_that_is_no_option_is_set(call, monkeypatch, command, given, hint):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, err = call(command, "e.toml", *given)
    assert (code, out) == (2, "")
    assert f"No such option: {given[0].partition('=')[0]}. Did you mean {hint}?" in squeezed(err)


@pytest.mark.parametrize("given", [("--seed", "3"), ("--seed=3",)])
def test_a_comparison_takes_several_seeds(call, monkeypatch, given):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, err = call("compare", "e.toml", *given)
    assert (code, out) == (2, "")
    assert "No such option: --seed. Did you mean --seeds 3?" in squeezed(err)


def test_other_options_that_there_are_not_are_as_before(call):
    code, _, err = call("run", "e.toml", "--resum")
    assert code == 2
    assert "No such option: --resum" in squeezed(err)
    assert "--resume" in err


@pytest.mark.filterwarnings("always::mmfl.errors.MmflWarning")
def test_clients_without_data_are_warned_of(call):
    Path("own.py").write_text(
        "import numpy as np\n"
        "def hospitals():\n"
        "    x, y = np.zeros((120, 2), np.float32), np.arange(120) % 2\n"
        "    groups = np.arange(120) % 12\n"
        "    return dict(x_train=x, y_train=y, x_test=x, y_test=y, groups=groups)\n"
    )
    text = EXPERIMENT.replace("count = 4", "count = 15")
    text = re.sub("dataset = .*", 'dataset = "own:hospitals"\npartition = "by_group"', text)
    Path("e.toml").write_text(text)
    try:
        code, out, err = call("check", "e.toml", "--allow-imports")
        assert (code, "e.toml is valid: " in out) == (0, True)
        assert err == (
            "mmfl: warning: 3 clients hold no data for any task, so clients.count = 15 could be 12"
            "\n"
        )
        code, _, err = call("check", "e.toml", "--allow-imports", "--set", "clients.count=12")
        assert (code, err) == (0, "")
    finally:
        sys.modules.pop("own", None)


def test_the_command_line_names_the_option_that_the_library_does_not(call):
    Path("e.toml").write_text(EXPERIMENT)
    Path("taken").mkdir()
    Path("taken/mine.txt").touch()
    Path("file").touch()
    for out, said in (
        ("taken", "choose another folder (--out)"),
        ("file", "choose a folder (--out)"),
    ):
        code, _, err = call("run", "e.toml", "--out", out)
        assert (code, said in err, err.count("--out")) == (2, True, 1)


OWN = EXPERIMENT + 'model = { kind = "nowhere:Model" }\n'
DATA = EXPERIMENT.replace('{ kind = "synthetic", train = 40, test = 10 }', '"mine"')
FOLDER = "the data folder 'gone' does not exist (it was set by {0}); name another with {0} or MMFL_"


@pytest.mark.parametrize(
    ("text", "words", "act", "said", "names"),
    [
        (
            DATA,
            ("run", "--data-dir", "gone", "--out", "z"),
            lambda: mmfl.run(mmfl.Experiment.load("e.toml"), out="z", data_dir="gone"),
            FOLDER,
            ("data_dir", "--data-dir"),
        ),
        (
            OWN,
            ("check",),
            lambda: mmfl.Experiment.load("e.toml"),
            "'nowhere:Model' would import code; pass {} if you trust it",
            ("allow_imports=True, or the object itself,", "--allow-imports"),
        ),
        (
            EXPERIMENT,
            ("check", "--set", "rounds=0"),
            lambda: mmfl.Experiment.load("e.toml", sets=["rounds=0"]),
            "{}: rounds must be greater than or equal to 1, got 0",
            ("sets", "--set"),
        ),
    ],
    ids=["data", "imports", "sets"],
)
def test_python_speaks_of_arguments_and_the_command_line_of_options(
    call, text, words, act, said, names
):
    Path("e.toml").write_text(text)
    with pytest.raises(InputError) as caught:
        act()
    assert said.format(names[0]) in str(caught.value)
    assert "--" not in str(caught.value)
    code, _, err = call(words[0], "e.toml", *words[1:])
    assert code == 2
    assert said.format(names[1]) in err
    assert names[0] not in err


def test_a_folder_with_a_run_can_be_resumed_instead(call):
    Path("e.toml").write_text(EXPERIMENT)
    assert call("run", "e.toml", "--out", "run", "-q")[0] == 0
    advice = "'run' already exists; choose another folder{}, or resume that run with {}"
    code, _, err = call("run", "e.toml", "--out", "run")
    assert (code, err) == (2, f"mmfl: {advice.format(' (--out)', '--resume')}\n")
    with pytest.raises(StoreError) as caught:
        mmfl.run(mmfl.Experiment.load("e.toml"), "run")
    assert str(caught.value) == advice.format("", "resume=True")


def test_one_of_a_kind_is_not_a_plural(call):
    Path("e.toml").write_text(EXPERIMENT)
    said = "e.toml is valid: 1 task, 1 client of which 1 is active in round 1, 1 round\n"
    assert call("check", "e.toml", "--set", "clients.count=1")[1].endswith(said)
    said = "e.toml is valid: 1 task, 4 clients of which 4 are active in round 1, 2 rounds\n"
    assert call("check", "e.toml", "--set", "rounds=2")[1].endswith(said)


@pytest.mark.parametrize("command", ["check", "run", "compare", "plan", "profile"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("rounds", "must be a.b=c, got 'rounds'"),
        ("tasks.b.lr=1", "tasks has no 'b'; known: a"),
        ("rounds=0", "rounds must be greater than or equal to 1, got 0"),
    ],
)
def test_a_mistake_in_a_set_is_not_blamed_on_the_file(call, command, change, said):
    Path("e.toml").write_text(EXPERIMENT)
    code, _, err = call(command, "e.toml", "--set", change)
    assert (code, err) == (2, f"mmfl: --set: {said}\n")


def test_a_mistake_in_the_file_is_not_blamed_on_a_set(call):
    Path("e.toml").write_text(EXPERIMENT.replace("rounds = 1", "rounds = 0"))
    code, _, err = call("check", "e.toml", "--set", "seed=1")
    assert (code, err) == (2, "mmfl: e.toml: rounds must be greater than or equal to 1, got 0\n")


OWN = """
from dataclasses import dataclass
@dataclass(frozen=True)
class Tiny:
    def build(self, shape, outputs):
        from torch import nn
        return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], outputs))
"""


@pytest.fixture
def project(call, monkeypatch, tmp_path):
    """A run of an experiment with a model of the user's; this is another folder now."""
    home, name = tmp_path / "project", "module_of_one_project"
    home.mkdir()
    (home / f"{name}.py").write_text(OWN)
    (home / "e.toml").write_text(f'{EXPERIMENT}model = {{ kind = "{name}:Tiny" }}\n')
    path = list(sys.path)
    monkeypatch.chdir(home)
    code, _, err = call("run", "e.toml", "--allow-imports", "-q", "--out", tmp_path / "run")
    assert (code, err) == (0, "")
    sys.path[:] = path
    sys.modules.pop(name)
    monkeypatch.chdir(tmp_path)
    yield home
    sys.path[:] = path
    sys.modules.pop(name, None)


def test_the_experiment_of_a_run_is_checked_from_anywhere(call, project):
    code, _, err = call("check", "run/experiment.toml")
    assert (code, "would import code" in err) == (2, True)
    code, out, err = call("check", "run/experiment.toml", "--allow-imports")
    assert (code, err, "is valid" in out) == (0, "", True)
    again = ("run", "run/experiment.toml", "--allow-imports", "--out", "run", "--resume", "-q")
    assert call(*again, "--set", "rounds=2")[0] == 0


def test_a_module_that_is_gone_is_one_sentence(call, project):
    shutil.rmtree(project)
    code, _, err = call("check", "run/experiment.toml", "--allow-imports")
    assert code == 2
    assert err.endswith(
        "ModuleNotFoundError: No module named 'module_of_one_project'; put the module next to "
        "the experiment file, or add its folder to PYTHONPATH\n"
    )


@pytest.mark.parametrize("content", ["[" * 200_000, '{"path": ' * 50_000, "{", "[]", '{"path": 1}'])
def test_a_file_about_a_run_that_makes_no_sense_names_no_modules(call, monkeypatch, content):
    monkeypatch.setattr("sys.path", list(sys.path))
    Path("experiment.toml").write_text(EXPERIMENT)
    Path("environment.json").write_text(content)
    code, out, err = call("check", "experiment.toml", "--allow-imports")
    assert (code, err, "is valid" in out) == (0, "", True)
