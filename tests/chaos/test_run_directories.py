"""The short version of ``chaos/run_directories.py``: some damaged run directories."""

from __future__ import annotations

import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

import pytest

from chaos.directory_damage import WAYS, damage
from chaos.run_directories import GOOD, Bases, Told, case, make_bases
from chaos.sandbox import Ended
from mmfl.rng import stream


@pytest.fixture(scope="module")
def bases(tmp_path_factory) -> Bases:
    return make_bases(tmp_path_factory.mktemp("bases"))


class _SlowError(BaseException):
    """Not an `OSError`, which might be taken for one of a file's."""


def in_process(work: Callable[[], None], outside: Path) -> Ended:
    """Do it here, with an eye on the clock, and put everything back."""
    out, err, code, slow = StringIO(), StringIO(), 0, False

    def wake(*_: object) -> None:
        raise _SlowError

    before = signal.signal(signal.SIGALRM, wake)
    signal.alarm(60)
    argv, shown = mock.patch.object(sys, "argv", []), warnings.catch_warnings()
    try:
        with argv, shown, redirect_stdout(out), redirect_stderr(err):
            warnings.simplefilter("always")
            work()
    except SystemExit as end:
        code = int(end.code or 0)
    except _SlowError:
        slow = True
    except Exception:
        err.write(traceback.format_exc())
        code = 1
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return code, out.getvalue(), err.getvalue(), 0.0, slow


def test_damaged_run_directories_are_found_out_or_harmless(bases, tmp_path):
    numbers = range(10_000, 10_060)
    found = [case(n, 0, bases, tmp_path, in_process, resume=False) for n in numbers]
    assert [one for one in found if one["verdict"] not in GOOD] == []
    assert {one["verdict"] for one in found} >= {"found", "harmless"}


def test_a_case_is_fixed_by_seed_and_number(bases, tmp_path):
    for number in range(30):
        said = []
        for _ in range(2):
            shutil.copytree(bases.folders["killed"], tmp_path / "run")
            said.append(damage(tmp_path / "run", stream(0, "chaos", "run directory", number)))
            shutil.rmtree(tmp_path / "run")
        assert said[0] == said[1]
        assert said[0][0] in WAYS


@pytest.mark.parametrize(
    ("told", "failure"),
    [
        (Told(0, "fine\n", "", False), None),
        (Told(2, "", "mmfl: a sentence\n", False), None),
        (Told(0, "{}\n", "mmfl: warning: beware\n", False), None),
        (Told(1, "shown\n", "mmfl: it is damaged\n", False), None),
        (Told(-9, "", "", True), "hang"),
        (Told(1, "", "Traceback (most recent call last):\n", False), "traceback"),
        (Told(0, "a \x1b[31m\n", "", False), "escape sequence"),
        (Told(-11, "", "", False), "signal 11"),
        (Told(3, "", "", False), "exit code 3"),
        (Told(2, "", "oops\n", False), "no sentence"),
        (Told(2, "", "mmfl: one\nmmfl: two\n", False), "several sentences"),
        (Told(2, "", "", False), "no sentence"),
    ],
)
def test_the_judge(told, failure):
    assert told.failure() == failure
