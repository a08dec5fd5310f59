"""`mmfl export --csv`: every table, whole, readable by pandas, and never in place of a file."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import mmfl
from mmfl import Experiment, Run
from mmfl.errors import MmflWarning, StoreError
from mmfl.runs import stored_rounds
from mmfl.runs.export import export_tables
from mmfl.runs.records import RECORDS
from mmfl.system.calls import intercept
from support.helpers import one_line
from support.rewriting import edited, make_older

RICH = """
[recruitment]
bids = { kind = "uniform", low = 0.1, high = 1.0 }
mechanism = { kind = "max_min_fair", budget = 6.0 }
[faults]
dropout = 0.5
"""


@pytest.fixture
def run(small_toml) -> Run:
    return mmfl.run(Experiment.from_toml(small_toml + RICH), "run")


def test_pandas_reads_what_the_run_says(run):
    pd = pytest.importorskip("pandas")
    counts = export_tables(Path("run"), Path("out"))
    assert {path.name: count for path, count in counts.items()} == {
        f"{name}.csv": len(run.table(name)) for name in RECORDS
    }
    for name, (kind, _) in RECORDS.items():
        found = pd.read_csv(f"out/{name}.csv")
        wanted = pd.DataFrame(run.table(name), columns=kind._fields)
        wanted = wanted.where(wanted.notna(), float("nan"))
        pd.testing.assert_frame_equal(found, wanted, check_dtype=False)


def test_a_file_that_exists_is_replaced_only_if_that_is_wanted(run):
    Path("out").mkdir()
    Path("out/turns.csv").write_text("precious")
    said = one_line(StoreError, lambda: export_tables(Path("run"), Path("out")))
    assert said == (
        "'out/turns.csv' already exists; name another folder, or replace it with force=True"
    )
    assert [path.name for path in Path("out").iterdir()] == ["turns.csv"]
    export_tables(Path("run"), Path("out"), force=True)
    assert len(list(Path("out").iterdir())) == len(RECORDS)
    assert Path("out/turns.csv").read_text().startswith("round,client,task")


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("run", "'run' is in the run directory"),
        ("run/models/csv", "'run/models/csv' is in the run directory"),
        ("file", "'file' is a file; name another folder"),
        ("file/out", "cannot write 'file/out'"),
        ("x" * 300, "cannot write"),
    ],
)
def test_a_folder_that_cannot_be_written_is_one_sentence(run, out, said):
    Path("file").write_text("precious")
    before = sorted(Path().rglob("*"))
    assert said in one_line(StoreError, lambda: export_tables(Path("run"), Path(out)))
    assert sorted(Path().rglob("*")) == before


def test_no_file_is_ever_half_written(run):
    export_tables(Path("run"), Path("out"))
    before = {path: path.read_bytes() for path in Path("out").iterdir()}
    Path("out/turns.csv").write_text("older")

    def fail(name, function, args, kwargs):
        if name == "rename":
            raise OSError(28, "No space left on device")
        return function(*args, **kwargs)

    with intercept(fail):
        said = one_line(StoreError, lambda: export_tables(Path("run"), Path("out"), force=True))
    assert said == "cannot write 'out/tasks.csv': No space left on device"
    after = {path: path.read_bytes() for path in Path("out").iterdir()}
    assert after == before | {Path("out/turns.csv"): b"older"}


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        *(("=1+1", "'=1+1"), ("+1", "'+1"), ("-1", "'-1"), ("@SUM(A1)", "'@SUM(A1)")),
        *(('a,"b"\nc', 'a,"b"\\nc'), ("\x1b[31mred", "\\x1b[31mred"), ("x=1", "x=1")),
    ],
)
def test_text_cannot_become_a_formula_or_an_escape_sequence(run, text, cell):
    with edited("run") as database:
        database.execute("UPDATE failure SET detail = ?", (text,))
    export_tables(Path("run"), Path("out"))
    with Path("out/failures.csv").open(newline="") as file:
        assert {row["detail"] for row in csv.DictReader(file)} == {cell}


def test_a_run_that_is_not_finished_says_so(small):
    with stored_rounds(small, "run") as rounds:
        next(rounds)
    with pytest.warns(MmflWarning, match="is not finished: its tables have 1 of 3 rounds"):
        counts = export_tables(Path("run"), Path("out"))
    assert counts[Path("out/rounds.csv")] == 1


def test_a_damaged_run_is_refused_and_an_older_one_is_not(run):
    make_older("run", faults=False)
    export_tables(Path("run"), Path("out"))
    assert Path("out/faults.csv").read_text() == "round,client,task,kind,outcome\n"
    with Path("run/run.sqlite").open("r+b") as file:
        file.truncate(5000)
    one_line(StoreError, lambda: export_tables(Path("run"), Path("other")))
    assert not Path("other").exists()
