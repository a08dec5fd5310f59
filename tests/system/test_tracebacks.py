"""Messages show the user's own frames, innermost last; what is behind them travels as text."""

from __future__ import annotations

import functools
import importlib
import sys
import textwrap
from pathlib import Path

import pytest
from torch import nn

from mmfl.errors import EngineError
from mmfl.system.definitions import describe_place, find_definition
from mmfl.system.tracebacks import (
    RemoteError,
    find_frames,
    format_cause,
    format_traceback,
    hand_over,
    make_cause,
)
from mmfl.system.user_code import Guard, add_prefix, describe_error

OWN = """
import functools
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        return self.inner(x)

    def inner(self, x):
        return self.innermost(x)

    def innermost(self, x):
        return deepest(x)

def deepest(x):
    raise ValueError("too deep: \\x1b[31m" + str(x))

def fits():
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(5, 2))(torch.zeros(1, 3))

def recursive(n):
    return recursive(n + 1)

def handed(items):
    return list(items)

def wraps(function):
    @functools.wraps(function)
    def inner():
        return function()
    return inner

@wraps
def wrapped():
    return 1

class Bare(nn.Linear):
    func = None
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of the user's."""
    (tmp_path / "frames_of_mine.py").write_text(textwrap.dedent(OWN))
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("frames_of_mine")
    del sys.modules["frames_of_mine"]


def catch(act, *arguments) -> BaseException:
    try:
        act(*arguments)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next  # without this function
        return error
    raise AssertionError("it must raise")


def test_the_innermost_frames_are_shown_and_the_innermost_is_the_last(own):
    said = describe_error(catch(own.Net(), 1))
    assert said == (
        "ValueError: too deep: \x1b[31m1 "
        "(frames_of_mine.py, line 11, in Net.inner: return self.innermost(x); "
        "frames_of_mine.py, line 14, in Net.innermost: return deepest(x); "
        "frames_of_mine.py, line 17, in deepest: "
        'raise ValueError("too deep: \\x1b[31m" + str(x)))'
    )
    assert "\\x1b[31m1" in str(EngineError(said))  # as all messages escape it


def test_a_recursion_that_is_too_deep_shows_where_it_begins(own):
    said = {describe_error(error) for error in (catch(own.recursive, n) for n in (1, 2))}
    where = "frames_of_mine.py, line 23, in recursive: return recursive(n + 1)"
    assert said == {f"RecursionError: maximum recursion depth exceeded ({where})"}


def test_an_error_that_no_code_of_the_users_raised_names_where_the_part_is_defined(own):
    error = catch(nn.Linear(3, 4), "nothing")
    assert find_frames(error) == []
    assert describe_error(error, own.Net()).endswith("(frames_of_mine.py, line 6)")
    assert "(" not in describe_error(error, nn.Linear(1, 1))[-30:]


def test_who_asks_for_items_that_are_handed_over_is_not_to_blame(own):
    assert find_frames(catch(own.handed, hand_over(1 // n for n in (1, 0)))) != []
    error = catch(own.handed, hand_over(map({}.__getitem__, "a")))
    assert find_frames(error) == []


def test_definitions_are_found(own):
    assert str(find_definition(own.Net)) == "frames_of_mine.py, line 6"
    assert str(find_definition(own.Net())) == "frames_of_mine.py, line 6"
    assert str(find_definition(own.Net().inner)) == "frames_of_mine.py, line 10"
    assert str(find_definition(own.deepest)) == "frames_of_mine.py, line 16"
    assert str(find_definition(functools.partial(own.deepest, 1))) == "frames_of_mine.py, line 16"
    assert str(find_definition(own.wrapped)) == "frames_of_mine.py, line 34"
    assert str(find_definition(own.Bare(1, 1))) == "frames_of_mine.py, line 38"
    assert find_definition(nn.Linear(1, 1)) is None
    assert find_definition(3) is None
    assert describe_place(nn.ReLU(), own.deepest) == " (frames_of_mine.py, line 16)"
    assert describe_place(nn.ReLU()) == ""


def test_a_long_text_is_shortened_and_a_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "pack_of_mine").mkdir()
    (tmp_path / "pack_of_mine" / "__init__.py").write_text(
        "def fail():\n    raise ValueError('x' * 10**6)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("pack_of_mine")
    said = describe_error(catch(own.fail))
    where = "pack_of_mine/__init__.py, line 2, in fail: raise ValueError('x' * 10**6)"
    assert said == f"ValueError: {'x' * 797}... ({where})"


def test_a_debugger_finds_the_users_frame_in_the_error_that_is_raised(own):
    with pytest.raises(EngineError) as caught, Guard("it failed", always=True):
        own.deepest(3)
    traces = [caught.value, add_prefix(caught.value, "here: ")]
    for error in traces:
        *_, (frame, _) = _walk(error)
        assert frame.f_code.co_name == "deepest"
        assert frame.f_locals == {"x": 3}
        assert isinstance(error.__cause__, ValueError)


def _walk(error):
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def test_the_whole_traceback_is_text_without_control_characters(own):
    text = format_traceback(catch(own.Net(), 1))
    assert "\x1b" not in text
    assert "ValueError: too deep: \\x1b[31m1\n" in text
    for number in (8, 11, 14, 17):
        assert f'frames_of_mine.py", line {number}, in' in text
    assert "torch" in text


def test_a_very_long_traceback_keeps_its_end():
    text = format_traceback(ValueError("\n".join(map(str, range(10_000)))))
    assert text.startswith("...\n")
    assert text.endswith("\n9999\n")
    assert len(text) < 20_010


class MuteError(Exception):
    def __str__(self):
        raise SystemExit(3)


def test_an_exception_that_cannot_be_printed_has_a_traceback_too():
    assert "MuteError" in format_traceback(MuteError())


def test_a_cause_from_another_process_says_what_it_was(own):
    inner = catch(own.deepest, 3)
    outer = EngineError("it failed")
    outer.__cause__ = inner
    text = format_cause(outer)
    assert text == format_traceback(inner)
    assert text.endswith("ValueError: too deep: \\x1b[31m3\n")
    cause = make_cause(text)
    assert isinstance(cause, RemoteError)
    assert text in str(cause)
    again = EngineError("it failed")
    again.__cause__ = cause
    assert format_cause(again) == text
    assert format_cause(EngineError("a mistake")) == ""
    assert make_cause("") is None
    assert Path(__file__).name in format_cause(catch(lambda: 1 // 0))
