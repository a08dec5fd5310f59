"""Surroundings in which nothing can work are one sentence, before anything is loaded."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from mmfl.cli.shared.streams import explain
from support.experiments import LEAST_INLINE

MMFL = (sys.executable, "-P", "-c", "from mmfl.__main__ import main; main()")


@pytest.fixture
def config(tmp_path) -> Path:
    path = tmp_path / "e.toml"
    path.write_text(LEAST_INLINE)
    return path


def test_a_current_folder_that_was_removed_is_one_sentence(config):
    gone = config.parent / "gone"
    gone.mkdir()

    def enter() -> None:
        os.chdir(gone)
        gone.rmdir()

    done = subprocess.run(
        [*MMFL, "run", str(config), "--out", str(config.parent / "out")],
        preexec_fn=enter,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "mmfl: the current folder cannot be used (No such file or directory); change to another "
        "one with cd\n"
    )
    assert not (config.parent / "out").exists()


def test_an_address_space_that_torch_does_not_fit_in_is_one_sentence(config):
    limit = 1 << 29
    done = subprocess.run(
        [*MMFL, "check", str(config)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "mmfl: the limit on address space is 537 MB, but mmfl needs 1.1 GB; raise it with "
        "ulimit -v\n"
    )


def test_an_error_about_an_open_file_has_no_name():
    assert explain(IsADirectoryError(21, "Is a directory", 0)) == "Is a directory"
    assert explain(IsADirectoryError(21, "Is a directory", "x")) == "'x': Is a directory"


def test_forced_colours_draw_no_bars_into_files(config):
    """FORCE_COLOR is common where nobody watches: a bar would be drawn again and again."""
    done = subprocess.run(
        [sys.executable, "-m", "mmfl", "plan", str(config), "--draws", "3", "--json"],
        env=os.environ | {"FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
