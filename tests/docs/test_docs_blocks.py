"""Every code block of the documentation is run or checked, whatever page it is on."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import mmfl
from mmfl import Experiment
from mmfl.cli import app, main
from support.pages import DOCS, HOUSE, blocks, name, write_files

PAGES = [name(path) for path in DOCS] + ["README.md", "CONTRIBUTING.md"]
CHECKED = {"bash", "console", "csv", "python", "text", "toml"}
"""What a block may be; `text` is output or a formula, and is only read."""

REPAIRED = "ignore:.*(no test data was given|are numbered in|becomes a column)"
"""What mmfl says about the data that pages show."""

EXTRAS = ("datasets",)
"""Modules of extras that a page may import."""

LONG = {
    *("README.md", "docs/tutorial.md"),
    *("docs/explanation/convergence.md", "docs/explanation/auctions.md"),
}
"""Pages whose Python takes long; a test of their own runs it, shortened."""

OWN = re.compile(r'"\w+:\w+"')
"""A class or function of the reader's, which the page shows."""

STORED = {"docs/how-to/compare-rules.md", "docs/how-to/verify-a-run.md"}
"""Pages whose Python needs runs; a test of their own makes them."""


def _having(language: str, *, titled: bool) -> list[str]:
    return [p for p in PAGES if any(bool(b.title) == titled for b in blocks(p, language))]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in, from which modules can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    yield tmp_path
    for module in set(sys.modules) - known:
        if getattr(sys.modules[module], "__file__", None) and Path(
            str(sys.modules[module].__file__)
        ).is_relative_to(tmp_path):
            del sys.modules[module]


@pytest.mark.parametrize("page", PAGES)
def test_a_block_is_of_a_kind_that_is_checked(page):
    text = (HOUSE / page).read_text(encoding="utf-8")
    assert {block.language for block in blocks(page)} <= CHECKED
    assert len(blocks(page)) * 2 == sum(line.startswith("```") for line in text.splitlines())


@pytest.mark.filterwarnings(REPAIRED)
@pytest.mark.parametrize("page", _having("toml", titled=True))
def test_an_experiment_runs(page, here):
    write_files(page, here)
    for block in blocks(page, "toml"):
        if "[[tasks]]" not in block.text or not block.title:
            continue
        experiment = Experiment.load(block.title, sets=["engine=inline"], allow_imports=True)
        assert Experiment.from_toml(experiment.to_toml(), allow_imports=True) == experiment
        for state, record in mmfl.rounds(experiment):
            assert not [f for f in record.failures if f.reason == "raised"]
            if state.round == 2:
                break


@pytest.mark.parametrize("page", _having("toml", titled=False))
def test_a_part_of_an_experiment_is_valid(page, here):
    write_files(page, here)
    large = tomllib.loads((HOUSE / "experiments/first_run/first_run.toml").read_text())
    small = tomllib.loads((HOUSE / "tests/docs/small.toml").read_text())
    for block in blocks(page, "toml"):
        if block.title:
            continue
        part = tomllib.loads(block.text)
        assert Experiment.from_dict(large | part, allow_imports=True).tasks
        if OWN.search(block.text):
            experiment = Experiment.from_dict(small | part, allow_imports=True)
            assert [r.failures for _, r in mmfl.rounds(experiment)] == [(), ()]


@pytest.mark.filterwarnings(REPAIRED)
@pytest.mark.parametrize("page", sorted({*_having("python", titled=False)} - LONG - STORED))
def test_python_runs(page, here, monkeypatch, capsys):
    write_files(page, here)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        if not block.title and not any(f"from {name} " in block.text for name in EXTRAS):
            exec(block.text, names)


@pytest.mark.filterwarnings(REPAIRED)
@pytest.mark.parametrize("module", EXTRAS)
def test_python_that_needs_an_extra_runs(module, here):
    pytest.importorskip(module, reason="an extra that is not installed")
    shown = [b for page in PAGES for b in blocks(page, "python") if f"from {module} " in b.text]
    assert shown
    for block in shown:
        exec(block.text, {})


@pytest.mark.parametrize("page", _having("console", titled=False))
def test_a_command_prints_what_is_shown(page, here, monkeypatch, capsys):
    write_files(page, here)
    (here / "awards.csv").unlink(missing_ok=True)
    for block in blocks(page, "console"):
        for part in block.text.split("$ ")[1:]:
            command, _, expected = part.partition("\n")
            monkeypatch.setattr("sys.argv", shlex.split(command))
            with pytest.raises(SystemExit) as ended:
                main()
            assert not ended.value.code
            assert capsys.readouterr().out == expected


def _commands(page: str) -> list[str]:
    shown = [block.text.replace("\\\n", " ") for block in blocks(page, "bash")]
    return [line for text in shown for line in text.splitlines() if line.startswith("mmfl ")]


@pytest.mark.parametrize("page", [page for page in PAGES if _commands(page)])
def test_a_command_has_the_options_that_are_shown(page):
    for line in _commands(page):
        words = shlex.split(line, comments=True)[1:]
        command = typer.main.get_command(app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
        if words != ["--version"]:
            command.make_context(line, words)
        named = [word for word in words if word.startswith("experiments/")]
        assert all((HOUSE / word).exists() for word in named)


@pytest.mark.parametrize("page", PAGES)
def test_lines_are_short(page):
    text = (HOUSE / page).read_text(encoding="utf-8")
    for block in blocks(page):
        text = text.replace(block.text, "")
    wide = [line for line in text.splitlines() if len(line) > 100]
    assert [line for line in wide if not line.startswith(("|", "![", "      members:"))] == []


def test_the_python_of_the_pages_on_stored_runs_works(here, capsys):
    small = HOUSE / "tests/docs/small.toml"
    Path("fair.toml").write_text(small.read_text())
    experiment = Experiment.load("fair.toml")
    for folder in ("runs/fair", "runs/other"):
        mmfl.run(experiment, out=folder)
    (shown,) = blocks("docs/how-to/verify-a-run.md", "python")
    exec(shown.text, {})
    assert capsys.readouterr().out == "True\n"
    (shown,) = blocks("docs/how-to/compare-rules.md", "python")
    exec(shown.text, {})
    assert "fair" in capsys.readouterr().out
    assert len(list(Path("runs/two-rules").glob("*/*/run.sqlite"))) == 4


def test_the_python_of_the_tutorial_works(here, capsys):
    small = (HOUSE / "tests/docs/small.toml").read_text()
    Path("fair.toml").write_text(small)
    (shown,) = blocks("docs/tutorial.md", "python")
    exec(shown.text, {})
    assert len(list(Path("runs").glob("*/run.sqlite"))) == 1
    assert os.fspath(next(Path("runs").iterdir())) in capsys.readouterr().out
