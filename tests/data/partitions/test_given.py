"""Who holds what, given in a file: npy and text, and a sentence for everything wrong with one."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl import Experiment
from mmfl.data import Arrays, Examples, FromFile, Shards, Synthetic
from mmfl.errors import ConfigError, DataError
from mmfl.experiment import Clients, Task, simulate
from mmfl.rng import stream
from support.helpers import one_line

RNG = stream(0, "partition", "task")


def held(shards: Shards, clients: int) -> list[list[int]]:
    return [shards.shard(client).tolist() for client in range(clients)]


def refused(act: Callable[[], object]) -> str:
    return one_line(DataError, act)


def write(name: str, numbers: Any) -> FromFile:
    if name.endswith("npy"):
        np.save(name, np.asarray(numbers))
    else:
        Path(name).write_text("\n".join(map(str, numbers)))
    return FromFile(name)


def of(count: int, kept: tuple[int, ...] = ()) -> Examples:
    """Examples of which the server keeps some."""
    rows = np.setdiff1d(np.arange(count), kept)
    return Examples(rows, np.zeros(len(rows), np.int64), None, count)


@given(
    st.lists(st.integers(-1, 4), min_size=2, max_size=30).filter(lambda owner: max(owner) >= 0),
    st.sampled_from(["a.npy", "a.csv", "a.txt", "A.CSV", ".npy"]),
)
def test_a_row_lies_where_the_file_says(owner: list[int], name: str) -> None:
    shards = write(name, owner).split(of(len(owner)), 5, rng=RNG)
    assert held(shards, 5) == [[i for i, k in enumerate(owner) if k == c] for c in range(5)]
    assert shards.everybody is (set(owner) >= set(range(5)))


@pytest.mark.parametrize("name", ["a.npy", "a.csv"])
def test_rows_are_those_of_the_whole_training_data(name: str) -> None:
    shards = write(name, [0, 1, 0, -1, 1, 0]).split(of(6, kept=(0, 4)), 2, rng=RNG)
    assert held(shards, 2) == [[1, 3], [0]]  # places among the rows 1, 2, 3, 5


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.uint64, ">i4"])
def test_whole_numbers_of_any_type(dtype: str) -> None:
    shards = write("a.npy", np.array([1, 0, 1], dtype)).split(of(3), 2, rng=RNG)
    assert held(shards, 2) == [[1], [0, 2]]


@pytest.mark.parametrize("text", ["1\r\n0\r\n1\r\n", "\ufeff1\n 0 \n1\n\n\n", "1\n0\n1"])
def test_text_as_other_programs_write_it(text: str) -> None:
    Path("a.csv").write_bytes(text.encode())
    assert held(FromFile("a.csv").split(of(3), 2, rng=RNG), 2) == [[1], [0, 2]]


LENGTH = "must have one number per row of the training data (4, the server's 1 included), got "
RANGE = "must be a client from 0 to 1 (clients.count = 2) or -1 for nobody, got "
LINE = "must be a client's number, or -1 for nobody, got "


def saved(array: Any, **how: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **how)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "rule"),
    [
        ("a.npy", saved([0, 1, 0]), f" {LENGTH}3"),
        ("a.csv", b"0\n1\n0\n1\n0\n", f" {LENGTH}5"),
        ("a.txt", b"", f" {LENGTH}0"),
        ("a.npy", saved([0, 1, 2, 0]), f": row 2 {RANGE}2"),
        ("a.npy", saved([0, -2, 1, 0]), f": row 1 {RANGE}-2"),
        ("a.npy", saved(np.array([2**64 - 1, 1, 1, 0], np.uint64)), f": row 0 {RANGE}{2**64 - 1}"),
        ("a.csv", b"0\n1\n2\n0", f": line 3 {RANGE}2"),
        ("a.txt", b"0\n-2\n1\n0", f": line 2 {RANGE}-2"),
        ("a.csv", b"0\n1.0\n1\n0", f": line 2 {LINE}'1.0'"),
        ("a.csv", b"0\n1\n\n0", f": line 3 {LINE}''"),
        ("a.csv", b"0,1\n1,1", f": line 1 {LINE}'0,1'; a header is not allowed"),
        ("a.csv", b"client\n0\n1", f": line 1 {LINE}'client'; a header is not allowed"),
        ("a.csv", b"0\n" + b"9" * 19, f": line 2 {LINE}'{'9' * 19}'"),
        ("a.csv", "0\n\u0663\n1\n1".encode(), f": line 2 {LINE}'\u0663'"),
        ("a.csv", b"\xff\xfe0", " cannot be read: "),
        ("a.npy", saved([0.0, 1.0, 0.0, 1.0]), " must be one vector of whole numbers, got float64"),
        (
            "a.npy",
            saved([[0], [1], [0], [1]]),
            " must be one vector of whole numbers, got int64 of shape (4, 1)",
        ),
        ("a.npy", saved([True] * 4), " must be one vector of whole numbers, got bool"),
        (
            "a.npy",
            saved(np.array([0, None, 1, 0], object), allow_pickle=True),
            " holds Python objects, which are never loaded; save one vector of whole numbers",
        ),
        ("a.npy", pickle.dumps([0, 1]), " is not a valid npy file"),
        ("a.npy", b"0\n1\n", " is not a valid npy file"),
        ("a.npy", saved([0, 1, 0, 1])[:-3], " cannot be read: "),
        ("a.npy", saved([0, 1, 0, 1])[:20], " cannot be read: "),
        ("a.npy", saved([-1] * 4), " assigns none of the 3 available rows to a client"),
        ("a.csv", b"-1\n-1\n1\n-1", " assigns none of the 3 available rows to a client"),
    ],
)
def test_a_wrong_file_is_one_sentence(name: str, content: bytes, rule: str) -> None:
    Path(name).write_bytes(content)
    message = refused(lambda: FromFile(name).split(of(4, kept=(2,)), 2, rng=RNG))
    assert message.startswith(f"partition file {name!r}{rule}")


def test_no_file_is_one_sentence() -> None:
    message = refused(lambda: FromFile("a.csv").split(of(4), 2, rng=RNG))
    assert message == f"partition file 'a.csv' does not exist in {str(Path.cwd())!r}"
    message = refused(lambda: FromFile("/nowhere/a.csv").split(of(4), 2, rng=RNG))
    assert message == "partition file '/nowhere/a.csv' does not exist"
    Path("b.npy").mkdir()
    message = refused(lambda: FromFile("b.npy").split(of(4), 2, rng=RNG))
    assert message == "partition file 'b.npy' cannot be read: Is a directory"
    for odd in ("x" * 5000 + ".csv", "a\0b.csv"):
        assert " cannot be read: " in refused(
            lambda odd=odd: FromFile(odd).split(of(4), 2, rng=RNG)
        )


@pytest.mark.parametrize("path", ["a.npz", "a", "csv"])
def test_a_file_of_another_kind_is_one_sentence(path: str) -> None:
    message = one_line(ConfigError, lambda: FromFile(path))
    assert message == f"FromFile: path must end in .npy, .csv or .txt, got {path!r}"


def test_a_file_never_gives_the_servers_rows_away() -> None:
    owner = np.arange(100) % 5
    np.save("owner.npy", owner)
    nothing = np.zeros((0, 1), np.uint8)
    data = Arrays(nothing, owner, nothing, owner, 5)
    task = Task("t0", Synthetic(), partition=FromFile("owner.npy"))
    federation = simulate(Experiment(1, Clients(5), (task,)), {"t0": data})
    kept = federation.piece("t0", "validation", 0).tolist()
    rows = [federation.shard("t0", client) for client in federation.clients]
    assert all((owner[mine] == client).all() for client, mine in enumerate(rows))
    assert sorted([*kept, *chain(*(mine.tolist() for mine in rows))]) == list(range(100))
