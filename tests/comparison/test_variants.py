"""``--vary`` and ``--seeds``, read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.comparison import read_seeds, read_vary
from mmfl.errors import ConfigError
from support.helpers import one_line


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("0-3", (0, 1, 2, 3)),
        ("7", (7,)),
        ("0,2,5", (0, 2, 5)),
        ("5,0-2,9", (5, 0, 1, 2, 9)),
        (" 1 - 3 , 2 ", (1, 2, 3)),
        ("3-3", (3,)),
        ("1,1,1", (1,)),
    ],
)
def test_seeds(text, seeds):
    assert read_seeds(text) == seeds


@given(st.lists(st.integers(0, 10**17), min_size=1, max_size=6))
def test_a_list_of_seeds_reads_back_without_repetition(seeds):
    assert read_seeds(",".join(map(str, seeds))) == tuple(dict.fromkeys(seeds))


@pytest.mark.parametrize(
    "text", ["", "-1", "a", "1.5", "1-", "1--3", "1,,2", "1;2", "9" * 19, "0x1", "²"]
)
def test_seeds_that_are_none_are_one_sentence(text):
    message = one_line(ConfigError, lambda: read_seeds(text))
    assert message.endswith(f"numbers and ranges like 0-3 or 0,2,5, got {text!r}")


@pytest.mark.parametrize("text", ["3-1", "0-10000", "0-999999999999999999"])
def test_a_range_has_1_to_10000_seeds(text):
    message = one_line(ConfigError, lambda: read_seeds(text))
    assert message == f"seeds: {text!r} is not a valid range: write low-high, at most 10,000 seeds"
    assert len(read_seeds("1-10000")) == 10_000


@pytest.mark.parametrize(
    ("key", "values", "names"),
    [
        ("allocator", ["fed_fair", "uniform"], ["fed_fair", "uniform"]),
        ("allocator.alpha", ["1", "3"], ["alpha=1", "alpha=3"]),
        ("allocator.kind", ["uniform"], ["uniform"]),
        ("precision", ['"bf16"'], ["bf16"]),
        ("tasks.a.loss", ["mse", "'mae'"], ["loss=mse", "loss=mae"]),
        ("a.b", ["true", "false"], ["b=True", "b=False"]),
        ("a.b", ["x=1"], ["b=x=1"]),
        ("clients.active", ["[0.5, 1]", "0.5"], ["active=[0.5,1]", "active=0.5"]),
        (
            "allocator",
            ["{kind='fed_fair', alpha=2, floor=1}", '{kind = "uniform"}'],
            ["fed_fair alpha=2 floor=1", "uniform"],
        ),
        ("tasks.a.model", ["{hidden=[8, 8]}"], ["tasks.a.model hidden=[8,8]"]),
        ("tasks.a.model", ["{kind='m', x={y=[1, 2]}}"], ["m x={'y':[1,2]}"]),
        ("dataset", ["'a,b'", '"c\'d"', "e"], ["a,b", "c'd", "e"]),
        ("dataset", ['"a\\",b"', "c"], ['a",b', "c"]),
        ("dataset", ["'a\\'", "b"], ["a\\", "b"]),
        ("dataset", ["'[{'", "']'"], ["[{", "]"]),
    ],
)
def test_values_are_split_where_toml_would(key, values, names):
    found = read_vary([f"{key}={','.join(values)}"])
    assert list(found) == names
    assert list(found.values()) == [(f"{key}={value}",) for value in values]
    spaced = read_vary([f"{key}={' , '.join(values)} "])
    assert spaced == found


def test_without_anything_to_vary_there_is_one_variant():
    assert read_vary([]) == {"as is": ()}


def test_several_make_a_grid_in_which_the_last_varies_fastest():
    found = read_vary(["allocator=uniform,fed_fair", "local.lr=0.1,0.2", "rounds=3"])
    assert list(found) == [
        "uniform lr=0.1 rounds=3",
        "uniform lr=0.2 rounds=3",
        "fed_fair lr=0.1 rounds=3",
        "fed_fair lr=0.2 rounds=3",
    ]
    assert found["fed_fair lr=0.1 rounds=3"] == ("allocator=fed_fair", "local.lr=0.1", "rounds=3")


def test_two_axes_of_one_name_are_told_apart():
    found = read_vary(["tasks.a.lr=1,2", "tasks.b.lr=1,2"])
    assert list(found) == [f"a.lr={a} b.lr={b}" for a in (1, 2) for b in (1, 2)]
    found = read_vary(["tasks.a.local.lr=1", "tasks.b.local.lr=1", "local.lr=3"])
    assert list(found) == ["a.local.lr=1 b.local.lr=1 local.lr=3"]


@pytest.mark.parametrize("text", ["", "lr", "=1", "lr=", "lr=1,", "lr=,1", "lr=1,,2", " =1"])
def test_what_is_no_list_of_values_is_one_sentence(text):
    message = one_line(ConfigError, lambda: read_vary([text]))
    assert message.endswith(f"key=a,b (e.g. allocator.alpha=1,3,5), got {text!r}")


@pytest.mark.parametrize("given_", [["lr=1,1"], ["local.lr=0.1, 0.10"], ["a='x',x"]])
def test_the_same_variant_twice_is_one_sentence(given_):
    assert one_line(ConfigError, lambda: read_vary(given_)).endswith("twice")


def test_one_key_twice_is_one_sentence():
    message = one_line(ConfigError, lambda: read_vary(["lr=1", " lr=2,3"]))
    assert message == "vary lr is given twice; put its values into one list"


@given(st.text(alphabet="ab=,[]{}'\"\\. 1", max_size=20))
def test_any_text_is_read_or_refused(text):
    try:
        found = read_vary([text])
    except ConfigError:
        return
    key = text.partition("=")[0].strip()
    assert all(one.startswith(f"{key}=") for (one,) in found.values())
    assert all(found)


def test_what_all_tables_of_a_list_share_is_not_in_their_names():
    one, other = '{kind="a", budget=6.0}', '{kind="b", budget=6.0, seed=3}'
    assert list(read_vary([f"mechanism={one},{other}"])) == ["a", "b seed=3"]
    other = '{kind="b", budget=7.0}'
    assert list(read_vary([f"mechanism={one},{other}"])) == ["a budget=6.0", "b budget=7.0"]
    assert list(read_vary([f"mechanism={one},c"])) == ["a budget=6.0", "c"]
