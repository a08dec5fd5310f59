"""What is the user's code and what is a library's, wherever they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
import typer

import mmfl

SOURCE = Path(mmfl.__file__).parent


def call(folder: Path, *words: str) -> tuple[int, str]:
    """Exit code and standard error of a command, with a folder before all others."""
    done = subprocess.run(
        [sys.executable, "-m", "mmfl", *words],
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{SOURCE.parent}"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr


@pytest.fixture(params=["linked", "copied"])
def folder(request, tmp_path) -> Path:
    """A folder in which a link leads to mmfl, or copies of its libraries are."""
    if request.param == "linked":
        (tmp_path / "link").symlink_to(SOURCE.parent)
        return tmp_path / "link"
    for package in (click, typer):
        source = Path(package.__file__).parent
        shutil.copytree(source, tmp_path / "copies" / source.name)
    return tmp_path / "copies"


@pytest.mark.cold
def test_help_and_mistakes_are_not_errors_of_the_users_code(folder):
    assert call(folder, "run", "--help") == (0, "")
    code, said = call(folder, "run")
    assert code == 2
    assert "Missing argument" in said
