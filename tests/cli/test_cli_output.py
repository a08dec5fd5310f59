"""A command never overwrites its input, and nothing else unless it is told to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mmfl.system import calls

TABLE = "client,mnist,fashion\nanna,0.25,0.4\nbert,,0.3\ncarl,0.1,0.9\n"
MARKET = 'clients = 8\n[tasks.a]\nkind = "uniform"\n'
EXPERIMENT = """
rounds = 1
[clients]
count = 4
[recruitment]
mechanism = { kind = "max_min_fair", budget = 1.0 }
bids = { kind = "csv", path = "asked.csv" }
[[tasks]]
name = "a"
dataset = { kind = "synthetic" }
"""
COMMANDS = ["run", "compare"]


@pytest.fixture(autouse=True)
def _files() -> None:
    Path("bids.csv").write_text(TABLE)
    Path("market.toml").write_text(MARKET)
    Path("experiment.toml").write_text(EXPERIMENT)
    Path("asked.csv").write_text("client,a\n0,0.1\n1,0.2\n")
    Path("folder").mkdir()
    Path("soft.csv").symlink_to("bids.csv")
    os.link("bids.csv", "hard.csv")


def everything() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize(
    ("given", "out"),
    [
        ("bids.csv", "bids.csv"),
        ("bids.csv", "folder/../bids.csv"),
        ("bids.csv", "soft.csv"),
        ("bids.csv", "hard.csv"),
        ("soft.csv", "bids.csv"),
        ("market.toml", "./market.toml"),
        ("experiment.toml", "experiment.toml"),
        ("experiment.toml", "asked.csv"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_input_is_never_overwritten(call, command, given, out, force):
    before = everything()
    code, said, err = call("auction", command, given, "-b", "1", "--out", out, *force)
    assert (code, said) == (2, "")
    assert err == f"mmfl: --out: {str(Path(out))!r} is the input; name another file\n"
    assert everything() == before


@pytest.mark.parametrize("command", COMMANDS)
def test_what_exists_is_replaced_only_by_force(call, command):
    Path("mine.txt").write_text("precious")
    Path("link.txt").symlink_to("mine.txt")
    before = everything()
    for out in ("mine.txt", "link.txt"):
        code, said, err = call("auction", command, "bids.csv", "-b", "1", "--out", out)
        assert (code, said) == (2, "")
        assert err.startswith(f"mmfl: --out: {out!r} already exists; name another file, or repl")
        assert everything() == before
    code, _, err = call("auction", command, "bids.csv", "-b", "1", "--out", "link.txt", "--force")
    assert (code, err) == (0, "")
    assert Path("link.txt").is_symlink()
    assert "precious" not in Path("mine.txt").read_text()
    assert "mnist" in Path("mine.txt").read_text()
    assert {*everything()} == {*before}


@pytest.mark.parametrize("command", COMMANDS)
def test_other_places_that_cannot_be_written_are_one_sentence(call, command):
    before = everything()
    for out, words in (
        ("folder", "is a folder; name a file"),
        ("x" * 300, "File name too long"),
        ("bids.csv/a", "Not a directory"),
    ):
        code, said, err = call("auction", command, "bids.csv", "-b", "1", "--out", out, "--force")
        assert (code, said) == (2, "")
        assert (words in err, err.count("\n")) == (True, 1)
    assert everything() == before


def test_a_device_is_written_to_as_it_is(call):
    code, _, err = call("auction", "compare", "bids.csv", "-b", "1", "--out", "/dev/null")
    assert (code, err) == (0, "")
    assert Path("/dev/null").is_char_device()


def test_a_failed_write_leaves_what_was_there(call):
    Path("all.json").write_text("before")

    def fail(name, function, args, kwargs):
        if name == "fsync":
            raise OSError(28, "No space left on device")
        return function(*args, **kwargs)

    before = everything()
    words = ("bids.csv", "-b", "1", "--out", "all.json", "--force")
    with calls.intercept(fail):
        code, _, err = call("auction", "compare", *words)
    assert (code, err) == (2, "mmfl: cannot write 'all.json': No space left on device\n")
    assert everything() == before


@pytest.mark.parametrize("option", ["--figure", "--plot"])
def test_a_figure_never_takes_the_place_of_the_input(call, option):
    pytest.importorskip("matplotlib")
    Path("bids.png").write_text(TABLE)
    before = everything()
    code, _, err = call("auction", "run", "bids.png", "-b", "1", option, "./bids.png")
    assert (code, err) == (2, "mmfl: --figure: 'bids.png' is the input; name another file\n")
    words = ("-b", "1", "--out", "a.png", option, "a.png")
    code, _, err = call("auction", "run", "bids.csv", *words)
    assert (code, err) == (2, "mmfl: --figure and --out are the same file, 'a.png'\n")
    assert everything() == before


FIGURES = [
    ("auction", "run", "bids.csv", "-b", "1"),
    ("auction", "compare", "bids.csv", "-b", "1"),
    ("plan", "experiment.toml", "--difficulty", "a=0.4", "--draws", "2"),
]


@pytest.mark.parametrize("command", FIGURES, ids=lambda words: " ".join(words[:2]))
def test_a_figure_replaces_what_exists_only_by_force(call, command):
    pytest.importorskip("matplotlib")
    Path("mine.pdf").write_text("precious")
    Path("link.pdf").symlink_to("mine.pdf")
    Path("mine.pdf.part").write_text("precious, too")
    before = everything()
    for figure in ("mine.pdf", "link.pdf"):
        code, said, err = call(*command, "--figure", figure)
        assert (code, said) == (2, "")
        assert err == (
            f"mmfl: --figure: {figure!r} already exists; name another file, or replace it with "
            "--force\n"
        )
        assert everything() == before
    code, _, err = call(*command, "--figure", "link.pdf", "--force")
    assert (code, err) == (0, "")
    assert Path("link.pdf").is_symlink()
    assert Path("mine.pdf").read_bytes().startswith(b"%PDF")
    assert Path("mine.pdf.part").read_text() == "precious, too"
    assert {*everything()} == {*before}
    code, _, err = call(*command, "--figure", "new.pdf")
    assert (code, err) == (0, "")
    assert {*everything()} == {*before, "new.pdf"}
