"""What the pages about ``mmfl plan`` say is so."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from mmfl.cli import app, main
from mmfl.planning import Estimate, Outlook, Plan, Reach, Scenario

HOUSE = Path(__file__).parents[2]
PAGE = (HOUSE / "docs/how-to/plan-alpha-and-budget.md").read_text(encoding="utf-8")
FORMATS = (HOUSE / "docs/reference/file-formats.md").read_text(encoding="utf-8")


def test_every_option_and_every_key_has_its_words():
    command = typer.main.get_command(app).commands["plan"]  # type: ignore[attr-defined]
    options = [name for option in command.params for name in option.opts if name[:2] == "--"]
    assert len(options) > 8
    assert [name for name in options if name != "--help" and f"`{name}" not in PAGE] == []
    kinds = (Plan, Scenario, Outlook, Reach, Estimate)
    keys = [field.name for kind in kinds for field in fields(kind)]
    assert [key for key in keys if not re.search(rf"`(tasks\.NAME\.)?{key}`", FORMATS)] == []


def test_the_commands_that_need_no_run_work_as_shown(monkeypatch, capsys):
    monkeypatch.chdir(HOUSE)
    lines = PAGE.replace("\\\n", " ").splitlines()
    shown = [line for line in lines if line.startswith("mmfl plan") and "--run" not in line]
    assert len(shown) == 2
    for line in shown:
        quick = ["--draws", "1", "--set", "rounds=1", "--json"]
        monkeypatch.setattr("sys.argv", [*shlex.split(line), *quick])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        assert len(json.loads(capsys.readouterr().out)["scenarios"]) >= 4
