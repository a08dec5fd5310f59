from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.report import amount, amounts, counts, number
from mmfl.report.words import break_name, escape_markdown


@pytest.mark.parametrize(
    ("value", "decimals", "sign", "text"),
    [
        (0.8421, 3, False, ".842"),
        (0.8421, 3, True, "+.842"),
        (-0.0312, 3, False, "-.031"),
        (1.0, 3, False, "1.000"),
        (12.345, 1, True, "+12.3"),
        (0.0, 3, True, ".000"),
        (-0.0001, 3, False, ".000"),
        (math.nan, 3, True, "-"),
        (math.inf, 3, False, "inf"),
        (-math.inf, 3, False, "-inf"),
        (10.0, 0, False, "10"),
    ],
)
def test_numbers(value, decimals, sign, text):
    assert number(value, decimals, sign=sign) == text


@given(st.floats(-1e6, 1e6), st.integers(1, 5))
def test_a_number_reads_back(value, decimals):
    assert float(number(value, decimals)) == pytest.approx(value, abs=0.5001 * 10**-decimals)


def test_names_break_after_punctuation_the_strongest_first():
    assert break_name("allocator.kind=round_robin", 16) == "allocator.kind=\nround_robin"
    assert break_name("allocator.kind=a,local.epochs=5", 18) == "allocator.kind=a,\nlocal.epochs=5"
    assert break_name("short", 16) == "short"
    assert break_name("abcdefgh", 3) == "abc\ndef\ngh"


names = st.text("ab=._, -", min_size=1, max_size=40)


@given(names, st.integers(1, 20))
def test_broken_lines_are_short_and_lose_nothing(name, width):
    lines = break_name(name, width).split("\n")
    assert all(len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(name.split())


def test_names_that_mean_something_in_markdown_are_escaped():
    assert escape_markdown("a|b *c* <i> `d` [e]\nf") == r"a\|b \*c\* \<i\> \`d\` \[e\] f"
    assert escape_markdown("fed_fair") == "fed_fair"


@given(st.lists(st.none() | st.floats(0, 1e12), max_size=6))
def test_a_column_of_amounts_hides_nothing(values):
    for value, text in zip(values, amounts(values), strict=True):
        if value is None:
            assert text == "-"
        else:
            assert float(text.replace(",", "")) == pytest.approx(value, rel=0.06, abs=0)


def test_amounts_and_counts_are_alike_in_a_column():
    assert amounts([12.5, 0.25, None, 7.1e-15], nothing=1e-9) == ["12.50", "0.25", "-", "0"]
    assert amounts([1234567.8, 0.02]) == ["1,234,568", "0.02"]
    assert amounts([math.inf, 2.0]) == ["inf", "2"]
    assert [amount(v) for v in (0.25, 2.0, 100.0, None)] == ["0.25", "2", "100", "-"]
    assert counts([1200.0, 3.0]) == ["1,200", "3"]
    assert counts([2.4545, 3.0]) == ["2.45", "3.00"]
