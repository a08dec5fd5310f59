"""A message is one line that a terminal shows and does not obey."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.errors import ConfigError, MmflError


@given(st.text())
def test_whatever_is_said_is_one_printable_line(text):
    assert str(MmflError(text)).isprintable()


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("a\n  b\u2028c", "a b c"),
        ("key \x1b[31mred\x07", r"key \x1b[31mred\x07"),
        ("name \udcff.toml \u202eabc", r"name \udcff.toml \u202eabc"),
        ("schön 名前 🙈", "schön 名前 🙈"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(said, shown):
    assert str(ConfigError(said)) == shown


def test_a_word_without_end_is_shown_by_its_ends():
    assert str(MmflError(f"no 'b{'x' * 9000}e'")) == f"no 'b{'x' * 198}...{'x' * 48}e'"
    assert str(MmflError(f"no '{'x' * 300}'")) == f"no '{'x' * 300}'"
