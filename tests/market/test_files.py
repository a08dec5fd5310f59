"""CSV files of bids and awards: every rule, every mistake's sentence, block borders everywhere."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mmfl.errors import InputError
from mmfl.market import Bids, max_min_fair, random_within_budget, read_bids, write_awards
from mmfl.market.bids_io import Csv, files
from support.helpers import one_line

no = math.inf
quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=[1, 3, 7, 1 << 23], ids="block {}".format, autouse=True)
def block(request, monkeypatch) -> int:
    """How many bytes are read at a time: block borders fall everywhere."""
    monkeypatch.setattr(files, "_BLOCK", request.param)
    return request.param


@pytest.fixture
def read(tmp_path) -> Callable[[str | bytes], Bids]:
    """From the content of a file `bids.csv` to what is read from it."""

    def read(content: str | bytes) -> Bids:
        path = tmp_path / "bids.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_bids(path)

    return read


@pytest.fixture
def refused(read) -> Callable[[str | bytes], str]:
    """... or to the sentence that refuses it."""
    return lambda content: one_line(InputError, lambda: read(content))


# What is read


@pytest.mark.parametrize(
    "content",
    [
        "client,mnist,fashion\nanna,0.25,0.4\nbert,,0.3\n",
        "client,mnist,fashion\nanna,0.25,0.4\nbert,,0.3",
        "client,mnist,fashion\r\nanna,0.25,0.4\r\nbert,,0.3\r\n",
        "client,mnist,fashion\r\nanna,0.25,0.4\r\nbert,,0.3",
        "\ufeffclient,mnist,fashion\nanna,0.25,0.4\nbert,,0.3\n",
        "client,mnist,fashion\nanna,0.25,0.4\nbert,,0.3\n\n\r\n\n",
        " Client , mnist,fashion \n anna , 0.25,0.4 \nbert,  ,0.3\n",
        '"client","mnist","fashion"\n"anna","0.25","0.4"\nbert,"",0.3\n',
        "USER,mnist,fashion\nanna,2.5e-1,+.4\nbert,inf,3E-1\n",
        "id,mnist,fashion\nanna,.25,0.40\nbert,Infinity,00.3\n",
        "name,mnist,fashion\nanna,0.25,0.4\nbert,INF,0.3\n",
        "clients,mnist,fashion\nanna,0.25,0.4\nbert,+inf,0.3\n",
        ",mnist,fashion\nanna,0.25,0.4\nbert,,0.3\n",
    ],
)
def test_the_same_table_in_many_spellings(read, content):
    bids = read(content)
    assert list(bids.clients) == ["anna", "bert"]
    assert bids.tasks == ("mnist", "fashion")
    assert bids.values.tolist() == [[0.25, 0.4], [no, 0.3]]


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ("a,b,c\n,1,2\n1,,2\n1,2,\n", [[no, 1, 2], [1, no, 2], [1, 2, no]]),
        ("a,b,c\n,,\n,,3\n1,,\n", [[no, no, no], [no, no, 3], [1, no, no]]),
        ("a,b,c,d\n,,,\n1,,,2\n", [[no] * 4, [1, no, no, 2]]),
        ("a\n1\n2\n", [[1], [2]]),
        ("a\n-0\n-0.0\n0\n", [[0], [0], [0]]),
        ("a\ninf\n1\n", [[no], [1]]),
        ('a,b\n"1",2\n,"3"\n', [[1, 2], [no, 3]]),
        ("a,1\n5,6\n", [[5, 6]]),
        ("tâche,b\n5,6\n", [[5, 6]]),
    ],
)
def test_without_a_column_of_names_clients_are_numbered(read, content, values):
    bids = read(content)
    assert bids.values.tolist() == values
    assert list(bids.clients) == list(range(len(values)))


def test_a_first_column_of_names_under_another_name_is_told_the_right_ones(read):
    message = one_line(InputError, lambda: read("person,a\nanna,1\n"))
    assert message.endswith(
        f"line 2, column 'person': {RULE}, got 'anna'; a first column that names clients must be "
        "called client, clients, user, id or name"
    )
    for content in ("person,a\n-1,1\n", "person,a\n1,anna\n", "user,a\nanna,anna\n"):
        assert "must be called" not in one_line(InputError, lambda content=content: read(content))


def test_names_that_are_whole_numbers_are_whole_numbers(read):
    assert list(read("id,a\n7,1\n0,2\n123456789012345678,3\n").clients) == [
        7,
        0,
        123456789012345678,
    ]
    assert list(read("id,a\n7,1\nx,2\n").clients) == ["7", "x"]
    for names in (["07", "7"], ["-1"], ["1.0"], ["٣"], ["9" * 5000]):
        content = "id,a\n" + "".join(f"{name},1\n" for name in names)
        assert list(read(content).clients) == names


@pytest.mark.parametrize("content", ["a,b", "a,b\n", "a,b\r\n", "a,b\n\n\n", "client,a,b\n"])
def test_a_table_without_clients_is_refused(read, content):
    message = one_line(InputError, lambda: read(content))
    assert message == "bids.csv: has no bids; after line 1 there must be a line for each client"


def test_quoted_cells_may_hold_commas_quotes_and_line_breaks(read):
    bids = read('client,"a, b"\n"x, ""y""\nz",1\nq,2\n"\nr\n\n",3\ns,4\n')
    assert bids.tasks == ("a, b",)
    assert list(bids.clients) == ['x, "y"\nz', "q", "r", "s"]
    assert bids.values.ravel().tolist() == [1, 2, 3, 4]


def test_a_large_file_is_the_same_as_its_cells(read, block):
    rng = np.random.default_rng(0)
    rows = 3000 if block > 99 else 60
    values = np.where(rng.random((rows, 3)) < 0.3, np.inf, rng.random((rows, 3)))
    text = "".join(
        ",".join("" if math.isinf(v) else repr(v) for v in row) + "\n" for row in values.tolist()
    )
    assert np.array_equal(read("a,b,c\n" + text).values, values)


def test_a_component_names_the_file(read, tmp_path):
    read("a\n1\n")
    assert Csv(str(tmp_path / "bids.csv")).read().values.tolist() == [[1]]


# What is refused

RULE = "must be a number >= 0, or empty (or inf) if the client is unwilling"


@pytest.mark.parametrize(
    "cell",
    ["nan", "NaN", "-1", "-1e-9", "-inf", "x", "1 2", "1_000", "0x10", "1d5", "True", "None", "1;2",
     "--1", "1e", "e5", ".", "+", "1e400", "9" * 400, "9" * 250 + "e60", "1e0400", "１", "٣",
     "1\0"],
)  # fmt: skip
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_bad_cell_is_named_by_line_column_and_client(refused, cell, quote):
    message = refused(f"client,x,y\nanna,1,2\nbert,3,{quote}{cell}{quote}\ncarl,5,6\n")
    assert message.startswith(f"bids.csv, line 3, column 'y' (client 'bert'): {RULE}, got ")
    assert message.endswith(repr(cell)) or len(cell) > 50 or "\0" in cell


def test_a_bad_cell_without_names(refused):
    message = refused("x,y\n1,2\n3,4\n-5,6\n")
    assert message == f"bids.csv, line 4, column 'x': {RULE}, got '-5'"


def test_lines_are_counted_with_the_breaks_inside_cells(refused):
    message = refused('client,x\n"a\nb\nc",1\nd,2\ne,oops\n')
    assert "line 6" in message
    assert "'oops'" in message
    message = refused('client,x\n"a\nb",1\nd,2\nd,3\n')
    assert message == "bids.csv, line 5: client 'd' already appears in line 4"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "line 1: must name the columns, such as client,task a,task b"),
        ("\n1,2\n", "line 1: must name the columns"),
        (",,\n1,2,3\n", "line 1: must name the columns"),
        ("1,2\n3,4\n", "line 1: must name the columns, such as client,task a,task b, got '1,2'"),
        ("client\nanna\n", "line 1: has no task columns, only 'client'"),
        ("client,a,\nx,1,2\n", "line 1: column 3 has no name"),
        ("a,,b\n1,2,3\n", "line 1: column 2 has no name"),
        ("a,b,a\n", "line 1: two columns are called 'a'"),
        ("client,a,client,a\n", "line 1: two columns are called 'a'"),
        ("a,b\n1,2\n3\n", "line 3: has 1 cell, but line 1 names 2 columns"),
        ("a\n1,2\n", "line 2: has 2 cells, but line 1 names 1 column"),
        (
            "client;red;green\nx;1,5;2\n",
            "line 1: columns must be separated by commas, got 'client;red;green'",
        ),
        ("red\tgreen\n1\t2\n", "line 1: columns must be separated by commas, got 'red\\tgreen'"),
        ("a,b\n1,2\n3,4,5\n", "line 3: has 3 cells, but line 1 names 2 columns"),
        ("a,b\n1,2,3\n4\n", "line 2: has 3 cells, but line 1 names 2 columns"),
        ("a,b\n1,2\n\n3,4\n", "line 3: is empty; every line after the first is a client"),
        ("a,b\n\n\n3,4\n", "line 2: is empty"),
        ("a,b\n1,2\n\n\r\n\n\n3,4\n", "line 3: is empty"),
        ("a,b\n1,2\r3,4\n\n5,6\n", "line 2: "),
        ("client,a\n,1\n", "line 2: names no client in column 'client'"),
        ("client,a\nx,1\n  ,2\n", "line 3: names no client in column 'client'"),
        ('client,a\nx,1\n"",2\n', "line 3: names no client in column 'client'"),
        (",a\nx,1\n,2\n", "line 3: names no client in column ''"),
        ("client,a\nx,1\ny,2\nx,3\n", "line 4: client 'x' already appears in line 2"),
        ("client,a\n7,1\n 7 ,2\n", "line 3: client '7' already appears in line 2"),
        ('client,a\n"x,1\n', "line 2: "),
        ('client,a\nx,1\n"y"z,1\n', "line 3: "),
        ('client,"a\nx,1\n', "line 1: "),
        ("client,a\rx,1\ry,2\r", "line 1: "),
        ("client," + "a" * 200_000 + "\n", "line 1: "),
        ("client,a\n" + '"' + "x" * 200_000 + '",1\n', "line 2: "),
        (b"a,\xff\n1,2\n", "line 1: is not UTF-8 text"),
        (b"a,b\n1,2\n3,\xff\n", "line 3: is not UTF-8 text"),
        ("a,b\n".encode("utf-16"), "line 1: is not UTF-8 text"),
        (b"client,a\nx,1\nJos\xe9,2\n", "line 3: is not UTF-8 text"),
    ],
)
def test_every_mistake_has_its_sentence(refused, block, content, sentence):
    if len(content) > 100_000 and block < 100:
        return  # quadratic in the number of blocks
    assert refused(content).startswith(f"bids.csv, {sentence}")


def test_files_that_cannot_be_read(tmp_path):
    for path, why in ((tmp_path / "none.csv", "No such file"), (tmp_path, "Is a directory")):
        message = one_line(InputError, lambda path=path: read_bids(path))
        assert message.startswith(f"cannot read '{path}': {why}")


# Hypothesis

names = st.text(st.sampled_from('ab,"\n é;#\t'), min_size=1, max_size=4).map(str.strip)
amounts = st.sampled_from([0.0, 0.1, 1e-300, 1e300, no]) | st.floats(0, 1e6)


@quick
@given(data=st.data(), S=st.integers(1, 3), dialect=st.sampled_from(["\n", "\r\n"]))
def test_whatever_the_csv_module_writes_is_read_back(read, data, S, dialect):
    unique = {"unique": True, "min_size": 1, "max_size": 6}
    clients = data.draw(st.lists(names.filter(lambda name: name and name[0].isalpha()), **unique))
    tasks = [f"t{s},\"'" if data.draw(st.booleans()) else f"t{s}" for s in range(S)]
    rows = [data.draw(st.lists(amounts, min_size=S, max_size=S)) for _ in clients]
    file = io.StringIO(newline="")
    writer = csv.writer(
        file,
        lineterminator=dialect,
        quoting=data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
    )
    writer.writerow(["client", *tasks])
    for client, row in zip(clients, rows, strict=True):
        writer.writerow([client, *("" if math.isinf(cell) else repr(cell) for cell in row)])
    bids = read(file.getvalue())
    assert list(bids.clients) == clients
    assert bids.tasks == tuple(tasks)
    assert bids.values.tolist() == rows


SOUND = [
    b"client,x,y\nanna,0.25,0.4\nbert,,0.3\n12,1e-3,inf\n",
    b"x,y\r\n1,2\r\n,\r\n3,4\r\n",
    b'client,x\n"a\nb",1\n"c ""d""",2\n',
    b"\xef\xbb\xbfid,x\n1,5\n2,\n\n",
]
PIECES = [b",", b'"', b"\n", b"\r", b"\r\n", b"\0", b"\xff", b"", b"-", b"e", b"9", b"inf", b" ",
          b"nan", b"\xef\xbb\xbf", b"\xc2\x85", b"\xe2\x80\xa8", b",,", b'""', b"1e999",
          b"\x1c"]  # fmt: skip


@quick
@given(
    content=st.sampled_from(SOUND),
    changes=st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 3), st.sampled_from(PIECES)), max_size=5
    ),
)
def test_damaged_files_are_read_or_refused_in_one_line(read, content, changes):
    for place, length, piece in changes:
        content = content[:place] + piece + content[place + length :]
    try:
        bids = read(content)
    except InputError as error:
        message = str(error)
    else:
        message = "bids.csv"
        assert (bids.values >= 0).all()
        assert all(name != "" for name in bids.clients)
    assert message.startswith("bids.csv")
    assert len(message.splitlines()) == 1


@quick
@given(
    content=st.sampled_from(SOUND),
    changes=st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 3), st.sampled_from(PIECES)), max_size=3
    ),
)
def test_block_borders_do_not_matter(read, block, monkeypatch, content, changes):
    """Up to a stray quote, which some block may take for the begin of a cell."""
    for place, length, piece in changes:
        content = content[:place] + piece.replace(b'"', b"") + content[place + length :]
    if content.count(b'"') not in (0, 6):
        return
    answers = []
    for size in (block, 1 << 23):
        monkeypatch.setattr(files, "_BLOCK", size)
        try:
            bids = read(content)
            answers.append((list(bids.clients), bids.tasks, bids.values.tolist()))
        except InputError:  # of two mistakes in a file, either may be found first
            answers.append(None)
    monkeypatch.setattr(files, "_BLOCK", block)
    assert answers[0] == answers[1]


# Awards


def awards(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_awards_are_written_by_task_and_in_joining_order(tmp_path):
    bids = Bids([[0.2, 0.9], [0.1, 0.8]], clients=['an,"na', "b\nért"], tasks=("x, y", "z"))
    outcome = max_min_fair(bids, 1.3)
    write_awards(outcome, tmp_path / "awards.csv")
    found = awards(tmp_path / "awards.csv")
    assert [(row["client"], row["task"]) for row in found] == [
        ("b\nért", "x, y"),
        ('an,"na', "x, y"),
        ("b\nért", "z"),
        ('an,"na', "z"),
    ]
    assert float(found[3]["participation"]) == outcome.fractional[1].participation
    assert list(found[0]) == ["client", "task", "bid", "participation", "payment"]


@pytest.mark.parametrize("rule", [max_min_fair, random_within_budget])
def test_awards_say_exactly_what_the_outcome_is(tmp_path, rule):
    bids = np.random.default_rng(1).uniform(0, 1, (40, 3))
    outcome = rule(bids, 7.0)
    write_awards(outcome, tmp_path / "awards.csv")
    payment, participation = np.zeros((40, 3)), np.zeros((40, 3))
    for row in awards(tmp_path / "awards.csv"):
        place = int(row["client"]), outcome.bids.tasks.index(row["task"])
        assert float(row["bid"]) == bids[place]
        payment[place], participation[place] = float(row["payment"]), float(row["participation"])
    assert np.array_equal(payment, outcome.payment)
    assert np.array_equal(participation, outcome.participation)


def test_awards_that_cannot_be_written(tmp_path):
    outcome = max_min_fair([[0.5]], 1.0)
    message = one_line(InputError, lambda: write_awards(outcome, tmp_path / "no" / "awards.csv"))
    assert message.startswith("cannot write")
    assert "No such file" in message


def test_numbers_with_a_line_break_between_them_are_a_name():
    Path("bids.csv").write_text('client,a\n"1\n2",0.5\n3,0.5\n')
    assert list(read_bids("bids.csv").clients) == ["1\n2", "3"]
