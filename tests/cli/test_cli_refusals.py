"""Mistakes that are refused at once, with a sentence that says what to do."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from mmfl.market import read_bids


@pytest.fixture
def config(small_toml) -> Path:
    path = Path("fair.toml")
    path.write_text(small_toml)
    return path


@pytest.mark.parametrize("name", ["worst", "mean", "variance", "Jain"])
def test_a_task_is_not_called_like_a_column_of_the_tables(call, config, name):
    config.write_text(config.read_text().replace('"dense"', f'"{name}"'))
    code, out, err = call("check", config)
    assert (code, out) == (2, "")
    assert err.endswith(
        ".name must not be worst, mean, variance or jain (tables have columns with these names), "
        f"got {name!r}\n"
    )
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--engine", "dask"],
            "--engine: unknown engine 'dask'; known: flower, inline, local, ray",
        ),
        (
            ["--engine", "x", "--set", "engine.kind=dask"],
            "--set: engine.kind: unknown engine 'dask'",
        ),
        (["--engine", "dask", "--set", "rounds=0"], "--set: rounds must be"),
    ],
)
def test_a_mistake_in_the_engine_names_its_option(call, config, options, sentence):
    code, out, err = call("run", str(config), *options)
    assert (code, out) == (2, "")
    assert err.startswith(f"mmfl: {sentence}")


def test_a_comparison_into_a_file_is_refused_at_once(call, config):
    Path("file").write_text("mine")
    assert call("compare", config, "--seeds", "0-1", "--out", "file") == (
        2,
        "",
        "mmfl: 'file' is a file; choose a folder (--out) for the runs\n",
    )
    assert Path("file").read_text() == "mine"


@pytest.mark.parametrize("command", ["run", "compare", "check"])
@pytest.mark.parametrize("text", ["client,a,b\n", "a,b", "client,a,b\n\n\r\n"])
def test_bids_without_a_row_are_refused(call, command, text):
    Path("bids.csv").write_bytes(text.encode())
    code, out, err = call("auction", command, "bids.csv", "-b", "1")
    assert (code, out) == (2, "")
    assert err == (
        "mmfl: bids.csv: has no bids; after line 1 there must be a line for each client\n"
    )


def test_one_row_of_bids_is_enough():
    Path("bids.csv").write_text("client,a\nanna,1")
    assert read_bids("bids.csv").shape == (1, 1)


def test_too_few_open_files_are_one_sentence_that_names_the_limit(config):
    engine = ("--engine", "local", "--set", "engine.workers=1")
    done = subprocess.run(
        [sys.executable, "-m", "mmfl", "run", str(config), *engine, "--out", "run"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8)),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "TMPDIR" not in done.stderr
    assert done.stderr.endswith(
        ": Too many open files (at most 8 files may be open here: raise the limit with ulimit -n)\n"
    )
    assert done.stderr.count("\n") == 1
