"""Whatever a file claims, it is known what it takes before that is taken."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmfl.data import Examples, FromFile, Npz
from mmfl.data.npy import read_header
from mmfl.data.sources import list_datasets
from mmfl.errors import DataError, MmflError, ResourceError
from mmfl.rng import stream
from support.helpers import one_line

HUGE = 10**15
VERSIONS = [(1, 0), (2, 0), (3, 0)]


def npy(array: Any, version: tuple[int, int] | None = None) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), version)
    return buffer.getvalue()


def head(shape: tuple[int, ...], version: int, descr: str = "|u1", length: int = 0) -> bytes:
    """A head that is followed by nothing."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", length or len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text


def parts() -> dict[str, bytes]:
    x, y = np.zeros((4, 2), np.float32), np.arange(4) % 2
    return {f"{name}.npy": npy(x if name[0] == "x" else y) for name in
            ("x_train", "y_train", "x_test", "y_test")}  # fmt: skip


def write(path: str, members: dict[str, bytes]) -> Npz:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return Npz(path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("array", [np.zeros((3, 0, 5), "<f8"), np.array(7), np.array(["é", "b"])])
def test_a_head_says_what_numpy_reads(array, version):
    found = read_header(io.BytesIO(npy(array, version)))
    assert (found.shape, found.dtype, found.bytes) == (array.shape, array.dtype, array.nbytes)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("name", ["x_train", "y_test", "classes", "groups"])
@pytest.mark.parametrize("member", ["{}.npy", "{}"])
def test_an_array_that_would_inflate_is_refused(name, version, member):
    held = parts()
    held.pop(f"{name}.npy", None)
    data = write("a.npz", held | {member.format(name): head((HUGE,), version)})
    assert data.bytes_needed(None) > HUGE
    message = one_line(ResourceError, lambda: data.load(None))
    assert message.startswith("data set 'a.npz' needs about 1.0 PB; ")
    (row,) = (row for row in list_datasets(Path()) if row.name == "a")
    assert row.licence is None


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_read(version):
    held = {name: npy(np.load(io.BytesIO(content)), version) for name, content in parts().items()}
    found = write("a.npz", held | {"classes.npy": npy(["é", "b"], version)}).load(None)
    assert (found.x_train.shape, found.classes) == ((4, 2), 2)
    (row,) = (row for row in list_datasets(Path()) if row.name == "a")
    assert (row.train, row.shape, row.classes) == (4, (2,), 2)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            head((1,), 3, length=2**32 - 1),
            "its header has 4,294,967,295 bytes, but may have at most",
        ),
        (head((-1, -(10**9)), 1), "the shape must be whole numbers, got (-1, -1000000000)"),
        (head((2,), 1, descr="nothing"), "its header is damaged"),
        (b"\x93NUMPY\x04\x00\x00\x00", "version (4, 0) of the npy format is unknown"),
        (b"\x93NUMPY\x01\x00\x04\x00((((", "its header is damaged"),
        (b"words", "it is not in NumPy's npy format"),
    ],
)
def test_a_damaged_head_is_one_sentence(content, words):
    data = write("a.npz", parts() | {"classes.npy": content})
    assert data.bytes_needed(None) == 0
    message = one_line(DataError, lambda: data.load(None))
    assert message.startswith("data set 'a.npz' cannot be read: classes: ")
    assert words in message
    Path("a.npy").write_bytes(content)
    shards = FromFile("a.npy")
    assert one_line(DataError, lambda: shards.split(Examples.of([0]), 2, rng=stream(0, "p")))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_partition_that_claims_more_than_the_file_has_is_refused(version):
    Path("a.npy").write_bytes(head((HUGE,), version))
    shards = FromFile("a.npy")
    message = one_line(MmflError, lambda: shards.split(Examples.of([0]), 2, rng=stream(0, "p")))
    assert message.endswith("its header says 1,000,000,000,000,000 bytes, but 0 follow")


def test_a_large_text_is_no_partition():
    with Path("a.csv").open("wb") as file:
        file.truncate(2 << 30)
    shards = FromFile("a.csv")
    message = one_line(DataError, lambda: shards.split(Examples.of([0]), 2, rng=stream(0, "p")))
    assert message.endswith("it has 2,147,483,648 bytes; the limit is 67,108,864")
