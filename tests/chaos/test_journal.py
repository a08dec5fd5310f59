from pathlib import Path

from chaos.journal import Journal


def test_an_interrupted_journal_continues_without_the_line_that_was_cut_off(
    tmp_path: Path,
) -> None:
    file = tmp_path / "new" / "journal.jsonl"
    first = Journal(file, {"commit": "a"})
    first.add("1 EIO", {"broken": None})
    first.add("2 kill", {"broken": "x"})
    file.write_text(file.read_text()[:-5])
    again = Journal(file, {"commit": "a"})
    assert again.done == {"1 EIO": {"broken": None}}
    again.add("2 kill", {"broken": None})
    assert Journal(file, {"commit": "a"}).done == again.done


def test_a_journal_of_something_else_starts_anew(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    Journal(file, {"commit": "a"}).add("1 EIO", None)
    assert not Journal(file, {"commit": "b"}).done
    assert not Journal(file, {"commit": "a"}).done


def test_without_a_file_it_is_in_memory_only(tmp_path: Path) -> None:
    journal = Journal(None, {})
    journal.add("1 EIO", None)
    assert journal.done == {"1 EIO": None}
    assert not list(tmp_path.iterdir())
