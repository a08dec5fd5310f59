"""File names that a task's name becomes part of: what is too long is refused before training."""

from __future__ import annotations

import dataclasses
import errno
from pathlib import Path

import pytest

import mmfl
from mmfl.comparison import Comparison
from mmfl.errors import StoreError
from mmfl.runs import stored_rounds
from mmfl.system import calls
from support.helpers import one_line, refused

FOUR = "\U00020000"  # a letter of four bytes


def named(small: mmfl.Experiment, name: str) -> mmfl.Experiment:
    return dataclasses.replace(small, tasks=(dataclasses.replace(small.tasks[0], name=name),))


def test_a_name_of_too_many_bytes_is_refused():
    message = refused(f"tasks.a.name={FOUR * 64}")
    rule = (
        "tasks[0].name must have at most 200 bytes in UTF-8 (it is used in file names), got 256: "
    )
    assert message.startswith(rule)
    assert refused(f"tasks.a.name={FOUR * 50}x").count("got 201")
    assert refused(f"tasks.a.name={'x' * 65}").count("at most 63 of those")


@pytest.mark.parametrize("name", [FOUR * 50, "x" * 64, "ä" * 64, "字" * 64])
def test_the_longest_names_train_to_the_end_and_resume(small, name):
    experiment = named(small, name)
    with stored_rounds(experiment, "out") as rounds:
        next(rounds)
    run = mmfl.run(experiment, "out", resume=True)
    assert (run.status, run.rounds) == ("finished", 3)
    assert Path("out/models", f"{name}.safetensors").is_file()


def test_a_file_system_that_takes_only_shorter_names_is_noticed_before_training(small):
    def short(name, function, arguments, options):
        if any(len(Path(str(word)).name) > 50 for word in arguments[:1]):
            raise OSError(errno.ENAMETOOLONG, "File name too long")
        return function(*arguments, **options)

    with calls.intercept(short):
        message = one_line(StoreError, lambda: mmfl.run(named(small, "x" * 20), "out"))
    assert (
        message == f"task {'x' * 20!r} cannot be used as a file name in 'out': File name too long"
    )
    assert not Path("out").exists()


def test_a_path_that_cannot_be_is_one_sentence(small):
    for out in ("x" * 300, "a\0b"):
        message = one_line(StoreError, lambda out=out: mmfl.run(small, out))
        assert "cannot hold a run: " in message


def test_a_variants_folder_has_a_short_name(small):
    plan = Comparison({FOUR * 80: small, FOUR * 80 + "x": small}, [0], "out")
    folders = {run.folder.parent.name for run in plan.runs}
    assert len(folders) == 2
    assert all(len(folder.encode()) <= 100 for folder in folders)
