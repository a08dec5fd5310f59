"""What docs/planning.md says of ``mmfl plan`` is so."""

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
PAGE = (HOUSE / "docs/planning.md").read_text(encoding="utf-8")


def test_every_option_and_every_key_has_its_words():
    command = typer.main.get_command(app).commands["plan"]  # type: ignore[attr-defined]
    options = [name for option in command.params for name in option.opts if name[:2] == "--"]
    assert len(options) > 8
    assert [name for name in options if name != "--help" and f"`{name}" not in PAGE] == []
    kinds = (Plan, Scenario, Outlook, Reach, Estimate)
    keys = [field.name for kind in kinds for field in fields(kind)]
    assert [key for key in keys if not re.search(rf"`(tasks\.NAME\.)?{key}`", PAGE)] == []


def test_the_commands_that_need_no_run_work_as_shown(monkeypatch, capsys):
    monkeypatch.chdir(HOUSE)
    lines = [line.strip() for line in PAGE.splitlines() if line.startswith("    mmfl plan")]
    shown = [line.partition(" #")[0] for line in lines if "--run" not in line]
    assert len(shown) == 2
    for line in shown:
        quick = ["--draws", "1", "--set", "rounds=1", "--json"]
        monkeypatch.setattr("sys.argv", [*shlex.split(line), *quick])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        assert len(json.loads(capsys.readouterr().out)["scenarios"]) >= 4
