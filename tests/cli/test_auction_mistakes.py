"""Mistakes in what ``mmfl auction`` is given: one sentence and exit code 2 for each."""

from __future__ import annotations

from pathlib import Path

import pytest

TABLE = "client,mnist,fashion\nanna,0.25,0.4\nbert,,0.3\ncarl,0.1,0.9\n"
MARKET = "clients = 8\n[tasks]\na = { kind = 'uniform' }\nb = { kind = 'increasing_linear' }\n"


@pytest.fixture(autouse=True)
def _files(tmp_path) -> None:
    (tmp_path / "bids.csv").write_text(TABLE)
    (tmp_path / "market.toml").write_text(MARKET)


@pytest.fixture
def mistake(call):
    """From arguments to the sentence on standard error; nothing else is said or done."""

    def mistake(*arguments: str) -> str:
        code, out, err = call("auction", *arguments)
        assert (code, out) == (2, "")
        assert "Traceback" not in err
        lines = err.strip().split("\n")
        assert len(lines) == 1, err
        assert lines[0].startswith("mmfl: ")
        return lines[0].removeprefix("mmfl: ")

    return mistake


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "max_min_fair needs a budget: add --budget, such as --budget 29"),
        (("-b", "0"), "--budget must be a finite number greater than 0, got 0"),
        (("-b", "-1"), "--budget must be a finite number greater than 0, got -1"),
        (("-b", "nan"), "--budget must be a finite number greater than 0, got nan"),
        (("-b", "inf"), "--budget must be a finite number greater than 0, got inf"),
        (
            ("-b", "1", "-m", "gm_fair"),
            "--mechanism: unknown mechanism 'gm_fair'; did you mean 'gmm_fair'?",
        ),
        (("-b", "1", "-m", "x"), "--mechanism: unknown mechanism 'x'; known: budget_fair, "),
        (("-b", "1", "-m", ""), "--mechanism: unknown mechanism ''; known: "),
        (
            ("-b", "1", "-m", "gmm_fair", "--payment", "share"),
            "--payment: gmm_fair has no payment; leave it out",
        ),
        (
            ("-b", "1", "-m", "gmm_fair", "--integer"),
            "--integer has no effect: gmm_fair never recruits fractions; leave it out",
        ),
        (("-b", "1", "--payment", "first"), "--payment must be 'critical' or 'share', got 'first'"),
        (
            ("-b", "1", "--threshold", "2"),
            "--threshold: max_min_fair has no threshold; leave it out",
        ),
        (
            ("-m", "value_threshold"),
            "value_threshold needs a price to post: add --threshold, such as",
        ),
        (
            ("-m", "value_threshold", "-b", "1"),
            "--budget: value_threshold has no budget; leave it out",
        ),
        (
            ("-m", "value_threshold", "--threshold", "0"),
            "--threshold must be a finite number greater than 0, got",
        ),
    ],
)
@pytest.mark.parametrize("command", ["run", "check"])
def test_a_wrong_option_is_one_sentence(mistake, command, options, sentence):
    assert mistake(command, "bids.csv", *options).startswith(sentence)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("-b", "x"), "--budget takes amounts like 10,20,29 or 1-60, got 'x'"),
        (("-b", ""), "--budget takes amounts like"),
        (("-b", "1,"), "--budget takes amounts like"),
        (("-b", "5-1"), "--budget takes amounts like"),
        (("-b", "1-99999999"), "--budget takes amounts like"),
        (("-b", "9" * 5000 + "-1"), "--budget takes amounts like"),
        (("-b", "0-3"), "--budget must be a finite number greater than 0, got 0"),
        (("-b", "nan"), "--budget must be a finite number greater than 0, got nan"),
        (("-b", "1,-2"), "--budget must be a finite number greater than 0, got -2"),
        (("-b", "1", "--threshold", "a"), "--threshold takes amounts like"),
        (
            ("-b", "1", "--threshold", "0"),
            "--threshold must be a finite number greater than 0, got 0",
        ),
        (("-b", "1", "--payment", "first"), "--payment must be 'critical' or 'share'"),
        (
            ("-b", "1", "-m", "value_threshold"),
            "value_threshold needs a price to post: add --threshold, such as",
        ),
        (
            ("-b", "1", "-m", "gmm_fair,maxmin_fair"),
            "--mechanism: unknown mechanism 'maxmin_fair'; did",
        ),
        (("-b", "1", "-m", "gmm_fair,"), "--mechanism: unknown mechanism ''"),
        (("-b", "1", "--out", "bids.csv/all.json"), "cannot write 'bids.csv/all.json': "),
    ],
)
def test_a_wrong_option_of_compare_is_one_sentence(mistake, options, sentence):
    assert mistake("compare", "bids.csv", *options).startswith(sentence)


@pytest.mark.parametrize("command", ["run", "compare", "check"])
@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("bad.csv", b"client,a\nx,1\ny,oops\n", "bad.csv, line 3, column 'a' (client 'y'): must"),
        ("bad.csv", b"client,a\nx,-1\n", "bad.csv, line 2, column 'a' (client 'x'): must"),
        ("bad.csv", b"", "bad.csv, line 1: must name the columns"),
        ("bad.csv", b"a,b\n1\n", "bad.csv, line 2: has 1 cell,"),
        ("bad.csv", b"a\rb\r", "bad.csv, line 1: "),
        ("bad.csv", b"\xff\xfe", "bad.csv, line 1: is not UTF-8 text"),
        ("none.csv", None, "cannot read 'none.csv': No such file or directory"),
        ("none.toml", None, "cannot read 'none.toml': No such file or directory"),
        ("bad.toml", b"clients = 0\n", "bad.toml: "),
        ("bad.toml", b"clients = \n", "bad.toml: not valid TOML"),
        ("bad.toml", b'clients = 5\n[tasks.a]\nkind = "normal"\n', "bad.toml: tasks.a.kind: un"),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_sentence(mistake, command, name, content, sentence):
    if content is not None:
        Path(name).write_bytes(content)
    assert mistake(command, name, "-b", "1").startswith(sentence)


def test_other_mistakes_are_one_sentence(mistake):
    assert mistake("run", ".", "-b", "1") == "cannot read '.': Is a directory"
    out = mistake("run", "bids.csv", "-b", "1", "--out", "no/where.csv")
    assert out == "cannot write 'no/where.csv': No such file or directory"
    assert "must end in .png, .svg or .pdf" in mistake(
        "run", "bids.csv", "-b", "1", "--figure", "x.txt"
    )
    assert "--seeds takes numbers" in mistake("compare", "market.toml", "-b", "1", "--seeds", "x")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "bids.csv", "-b", "abc"),
        ("run", "bids.csv", "-b", "1", "--seed", "-1"),
        ("run",),
        ("compare", "bids.csv"),
        ("check", "bids.csv", "-b", "1", "--clients", "-1"),
        ("check", "bids.csv", "-b", "1", "--tries", "3"),
        ("sell", "bids.csv"),
    ],
)
def test_wrong_usage_exits_with_2_and_shows_the_usage(call, arguments):
    code, out, err = call("auction", *arguments)
    assert (code, out) == (2, "")
    assert "Usage:" in err
    assert "Traceback" not in err


def test_a_seed_is_refused_where_nothing_is_drawn(mistake, small_toml):
    said = "the bids come from a file, so nothing is drawn; leave it out"
    assert mistake("run", "bids.csv", "-b", "1", "--seed", "1") == f"--seed: {said}"
    assert mistake("compare", "bids.csv", "-b", "1", "--seeds", "0-1") == f"--seeds: {said}"
    Path("plain.toml").write_text(small_toml)
    found = mistake("run", "plain.toml", "-b", "1")
    assert found == "plain.toml: the experiment has no [recruitment], so there are no bids"
