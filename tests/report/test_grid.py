"""A table shows everything, on a terminal of any width, and obeys nothing."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from mmfl.report import Cell, Column, Differences, Grid, make_text, markdown_table
from support.made_runs import three


def show(table: object, width: int, *, colour: bool = False) -> list[str]:
    system = "standard" if colour else None
    console = Console(width=width, color_system=system, force_terminal=True, legacy_windows=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get().splitlines()


def make(names: list[str], columns: int = 6) -> Grid:
    titles = ["task", *(f"column number {n}" for n in range(columns))]
    return Grid.of(titles, [[name, *(f"1,234.5{n}" for n in range(columns))] for name in names])


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_every_number_is_whole_and_no_line_is_too_long(width):
    lines = show(make(["short", "a rather long name of a task, with a comma"]), width)
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    for n in range(6):
        assert len(re.findall(rf"(?<!\S)1,234\.5{n}(?!\S)", "\n".join(lines))) == 2


@pytest.mark.parametrize("width", [44, 60, 80])
def test_differences_are_whole_on_narrow_terminals(width):
    text = "\n".join(show(Differences(three()), width))
    assert "…" not in text
    assert len(re.findall(r"\[[+-]?\.\d+, [+-]?\.\d+\]", text)) == 2 * 4
    assert len(re.findall(r"\d of 3 seeds", text)) == 2 * 4


def test_every_part_of_a_table_repeats_the_names():
    lines = show(make(["first", "second"]), 40)
    assert sum(line.startswith("first") for line in lines) > 1
    assert lines.count("") == sum(line.startswith("first") for line in lines) - 1


def test_a_name_without_room_is_broken_and_not_cut():
    name = "allocator.kind=round_robin,local.epochs=5"
    text = " ".join(show(Grid.of(["", "n"], [[name, "1234"]]), 30))
    assert "".join(text.split()) == f"n{name}1234"


def test_a_name_is_broken_once_into_as_few_lines_as_it_takes():
    name = "a_very_long_name_of_a_task_that_does_not_fit"
    lines = show(Grid.of(["", "n"], [[name, "123456"]]), 28)
    assert [line.split()[0] for line in lines[1:]] == [
        "a_very_long_name_of_", "a_task_that_does_", "not_fit",
    ]  # fmt: skip


def test_what_is_wider_than_the_terminal_is_folded():
    path = "/".join(f"folder{n}" for n in range(12))
    places = Column.of("where", [path], "left")
    lines = show(Grid([Column.of("name", ["mnist"], "left"), places]), 40)
    assert max(map(len, lines)) <= 40
    assert "".join(line[7:].strip() for line in lines[1:]) == path


def test_wide_letters_keep_the_columns_in_line():
    lines = show(Grid.of(["task", "n"], [["数字模型", "1"], ["a", "23"]]), 80)
    assert {cell_len(line.rstrip()) for line in lines} == {12}


def test_names_and_titles_are_shown_and_never_obeyed():
    table = Grid.of(["[bold]t\x1b[2J", "n"], [["[red]x[/red]\x1b[31m\r\n", "1"]])
    text = "\n".join(show(table, 80))
    assert "[bold]t\\x1b[2J" in text
    assert "[red]x[/red]\\x1b[31m\\r\\n" in text
    assert "\x1b" not in text
    assert make_text("[red]\x1b[31m").plain == "[red]\\x1b[31m"


def test_a_cell_that_stands_out_is_bold_or_has_a_star():
    table = Grid(
        [Column.of("", ["a", "b"], "left"), Column("n", [Cell("1", bold=True), Cell("2")])]
    )
    assert [line.split() for line in show(table, 80)] == [["n"], ["a", "*1"], ["b", "2"]]
    assert re.search(r"\x1b\[1m *1\x1b\[0m", "\n".join(show(table, 80, colour=True)))


def test_blanks_at_the_end_of_a_number_stand_for_a_mark():
    lines = show(Grid.of(["", "n"], [["a", "1.0!"], ["b", "22.0 "]]), 80)
    assert [line.index(".") for line in lines[1:]] == [5, 5]


def test_a_table_without_rows_has_its_titles():
    assert [line.split() for line in show(Grid.of(["task", "n"], []), 80)] == [["task", "n"]]


def test_a_markdown_table():
    assert markdown_table(["a", "n"], [["x", "1"]]) == "| a | n |\n| --- | ---: |\n| x | 1 |\n"
