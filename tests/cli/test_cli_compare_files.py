"""``mmfl compare`` replaces the tables and figures that it wrote, and no other file."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from mmfl.system import calls
from support.experiments import write_small
from support.marks import slow

TEXT = write_small(top="rounds = 1", local="steps = 1")
NAMES = ["comparison.md", "comparison.json", "comparison.png", "report.html"]


@pytest.fixture
def command(tmp_path) -> list[str]:
    pytest.importorskip("matplotlib")
    (tmp_path / "fair.toml").write_text(TEXT)
    Path("here").mkdir()
    return ["compare", str(tmp_path / "fair.toml"), "--seeds", "0", "--out", "here"]


def contents(folder: str = "here") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


@pytest.mark.parametrize("name", [NAMES[0], *map(slow, NAMES[1:])])
def test_the_users_own_file_is_refused_before_anything_runs(call, command, name):
    Path("here", name).write_text("precious")
    code, out, err = call(*command)
    assert (code, out) == (2, "")
    assert err == (
        f"mmfl: 'here/{name}' already exists, and mmfl compare did not write it, or it was "
        "changed; move it, or replace it with --force\n"
    )
    assert contents() == {name: b"precious"}
    assert not Path("here/as-is").exists()
    assert call(*command, "--force")[0] == 0
    assert contents()[name] != b"precious"
    assert call(*command)[0] == 0


@pytest.mark.parametrize("name", [*map(slow, NAMES[:-1]), NAMES[-1]])
def test_a_table_that_the_user_changed_is_not_replaced(call, command, name):
    assert call(*command)[0] == 0
    with Path("here", name).open("ab") as file:
        file.write(b"my notes")
    before = contents()
    code, out, err = call(*command)
    assert (code, out) == (2, "")
    assert err.startswith(f"mmfl: 'here/{name}' already exists")
    assert contents() == before


def test_what_it_wrote_is_replaced_also_in_a_folder_that_was_moved(call, command):
    assert call(*command)[0] == 0
    first = contents()
    Path("here").rename("there")
    code, _, err = call(*command[:3], "0-1", "--out", "there")
    assert (code, err) == (0, "")
    second = contents("there")
    assert all(second[name] != first[name] for name in NAMES)
    Path("there").rename("here")
    assert call(*command)[0] == 0
    assert {name: contents()[name] for name in NAMES} == {name: first[name] for name in NAMES}


def test_a_finished_comparison_in_a_folder_that_cannot_be_written_is_shown_again(call, command):
    assert call(*command)[0] == 0
    command[3] = "0-1"
    assert call(*command)[0] == 0
    before = contents()

    def refuse(name, function, args, kwargs):
        writing = name == "open_fd" and args[1] & (os.O_WRONLY | os.O_RDWR)
        here = Path("here").resolve()
        if (writing or name == "rename") and Path(args[0]).resolve().is_relative_to(here):
            raise OSError(30, "Read-only file system")
        return function(*args, **kwargs)

    with calls.intercept(refuse):
        code, out, err = call(*command)
    assert (code, err, "tables and runs: here" in out) == (0, "", True)
    assert contents() == before


def test_files_that_end_in_part_are_left_alone(call, command):
    parts = {f"{name}.part": b"precious" for name in [*NAMES, "mmfl-compare.json"]}
    for name, content in parts.items():
        Path("here", name).write_bytes(content)
    assert call(*command)[0] == 0
    assert contents().items() >= parts.items()
    assert {*contents()} == {*parts, *NAMES, "mmfl-compare.json"}


@pytest.mark.slow
def test_a_figure_of_its_own_is_drawn_again_and_another_file_is_not_replaced(call, command):
    drawn = [*command, "--figure", "it.svg"]
    assert call(*drawn)[0] == 0
    first = Path("it.svg").read_bytes()
    assert call(*drawn)[0] == 0
    assert Path("it.svg").read_bytes() == first
    assert call(*drawn[:3], "0-1", *drawn[4:])[0] == 0
    assert Path("it.svg").read_bytes() != first
    Path("it.svg").write_text("precious")
    code, out, err = call(*drawn)
    assert (code, out) == (2, "")
    assert err.startswith("mmfl: 'it.svg' already exists")
    assert Path("it.svg").read_text() == "precious"
    assert call(*drawn, "--force")[0] == 0
    assert Path("it.svg").read_bytes() == first


def test_the_input_is_never_the_figure(call, command):
    shutil.copy(command[1], "it.png")
    code, _, err = call("compare", "it.png", *command[2:], "--figure", "./it.png", "--force")
    assert (code, err) == (2, "mmfl: --figure: 'it.png' is the input; name another file\n")


def test_a_folder_of_an_older_version_that_says_the_same_becomes_its_own(call, command):
    assert call(*command)[0] == 0
    before = contents()
    Path("here/mmfl-compare.json").unlink()
    code, _, err = call(*command)
    assert (code, err) == (0, "")
    assert {name: contents()[name] for name in NAMES} == {name: before[name] for name in NAMES}
    assert call(*command[:3], "0-1", *command[4:])[0] == 0


def test_another_file_of_the_name_of_its_list_is_refused(call, command):
    for text in ("precious", "[1]", json.dumps({"sha256": {}})):
        Path("here/mmfl-compare.json").write_text(text)
        code, out, err = call(*command)
        assert (code, out) == (2, "")
        assert err == "mmfl: 'here/mmfl-compare.json' was not written by mmfl compare; move it\n"
        assert contents() == {"mmfl-compare.json": text.encode()}


@pytest.mark.slow
def test_after_a_failure_at_any_write_the_same_command_goes_on(call, command):
    assert call(*command)[0] == 0
    first = contents()
    command[3] = "0-1"
    assert call(*command)[0] == 0
    second = {name: content for name, content in contents().items() if name in NAMES}
    reached: list[str] = []

    def fail_at(number):
        count = 0

        def fail(name, function, args, kwargs):
            nonlocal count
            if name == "rename" and Path(args[1]).parent.resolve() == Path("here").resolve():
                count += 1
                if count == number:
                    reached.append(Path(args[1]).name)
                    raise OSError(28, "No space left on device")
            return function(*args, **kwargs)

        return fail

    writes = [*NAMES, *["mmfl-compare.json"] * len(NAMES)]
    for number in range(1, len(writes) + 1):
        for name, content in first.items():
            Path("here", name).write_bytes(content)
        with calls.intercept(fail_at(number)):
            code, _, err = call(*command)
        assert (code, err.startswith("mmfl: cannot write 'here/")) == (2, True), err
        code, _, err = call(*command)
        assert (code, err) == (0, "")
        assert contents().items() >= second.items()
    assert sorted(reached) == sorted(writes)
    assert {*contents()} == {*first}
