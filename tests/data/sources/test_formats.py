"""Publishers' and packages' files as arrays, from small files in the same formats."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mmfl.data.sources import formats
from mmfl.errors import DataError
from support.helpers import one_line

Bytes = npt.NDArray[np.uint8]
RNG = np.random.default_rng(0)


def idx_of(array: Bytes) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def images(*shape: int) -> Bytes:
    return RNG.integers(256, size=shape, dtype=np.uint8)


def tar_of(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def png_of(picture: Bytes, filters: list[int]) -> bytes:
    """A PNG whose lines use these filters in turn (the rules of RFC 2083, forwards)."""
    height, width, _ = picture.shape
    rows = picture.reshape(height, -1).astype(int)
    lines = b""
    for y in range(height):
        b = rows[y - 1] if y else np.zeros(3 * width, int)
        a = np.concatenate([[0, 0, 0], rows[y][:-3]])
        c = np.concatenate([[0, 0, 0], b[:-3]])
        p = a + b - c
        near = np.where(abs(p - b) <= abs(p - c), b, c)
        paeth = np.where((abs(p - a) <= abs(p - b)) & (abs(p - a) <= abs(p - c)), a, near)
        kind = filters[y % len(filters)]
        guess = [0 * a, a, b, (a + b) // 2, paeth][kind]
        lines += bytes([kind]) + ((rows[y] - guess) % 256).astype(np.uint8).tobytes()
    packed = zlib.compress(lines)
    half = len(packed) // 2
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))]
    chunks += [(b"IDAT", packed[:half]), (b"IDAT", packed[half:]), (b"IEND", b"")]
    made = b"\x89PNG\r\n\x1a\n"
    for kind_, content in chunks:
        made += struct.pack(">I", len(content)) + kind_ + content
        made += struct.pack(">I", zlib.crc32(kind_ + content))
    return made


def refused(content: bytes) -> str:
    return one_line(DataError, lambda: formats.png(content, "a.png"))


@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=4)))
def test_idx_round_trip(array: Bytes) -> None:
    np.testing.assert_array_equal(formats.idx(idx_of(array), "a"), array)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "a is not an idx file of bytes"),
        (b"\0\0\x0d\x01\0\0\0\x01\0", "a is not an idx file of bytes"),
        (b"\0\0\x08\x03\0\0", "a ends within its header"),
        (idx_of(np.zeros(4, np.uint8))[:-1], "a has 3 bytes for the shape (4,)"),
        (idx_of(np.zeros(4, np.uint8)) + b"x", "a has 5 bytes for the shape (4,)"),
    ],
)
def test_a_broken_idx_is_one_sentence(content: bytes, rule: str) -> None:
    assert one_line(DataError, lambda: formats.idx(content, "a")) == rule


@given(
    hnp.arrays(np.uint8, st.tuples(st.integers(1, 6), st.integers(1, 7), st.just(3))),
    st.lists(st.integers(0, 4), min_size=1, max_size=6),
)
def test_png_round_trip_with_every_filter(picture: Bytes, filters: list[int]) -> None:
    np.testing.assert_array_equal(formats.png(png_of(picture, filters), "a"), picture)


def test_a_broken_png_is_one_sentence() -> None:
    whole = png_of(images(2, 3, 3), [1])
    assert refused(b"hello") == "a.png is not a PNG file"
    assert refused(whole[:33]) == "a.png is not a PNG file"
    grey = whole[:25] + b"\0" + whole[26:]
    assert refused(grey) == "a.png is not a plain 8-bit RGB PNG file"
    high = whole[:20] + struct.pack(">I", 2**31) + whole[24:]
    assert refused(high) == "a.png is not a plain 8-bit RGB PNG file"
    taller = whole[:23] + b"\x09" + whole[24:]
    assert refused(taller) == "a.png has 20 bytes for 3 x 9 pixels"
    assert refused(whole[:41] + b"\xff\xff" + whole[43:]).startswith("a.png cannot be read: ")
    odd = zlib.compress(b"\x07" + bytes(3))
    wrong = whole[:16] + struct.pack(">II", 1, 1) + whole[24:33]
    assert refused(wrong + struct.pack(">I4s", len(odd), b"IDAT") + odd + bytes(4)) == (
        "a.png has an unknown PNG filter, 7"
    )


def test_emnist_is_made_upright_and_its_classes_are_named(tmp_path: Path) -> None:
    x, y = images(3, 28, 28), np.array([0, 10, 46], np.uint8)
    with zipfile.ZipFile(tmp_path / "gzip.zip", "w") as archive:
        for split in ("train", "test"):
            lying = idx_of(np.ascontiguousarray(x.transpose(0, 2, 1)))
            place = f"gzip/emnist-balanced-{split}"
            archive.writestr(f"{place}-images-idx3-ubyte.gz", gzip.compress(lying))
            archive.writestr(f"{place}-labels-idx1-ubyte.gz", gzip.compress(idx_of(y)))
    parts = formats.emnist_balanced_in_zip(tmp_path)
    np.testing.assert_array_equal(parts["x_test"], x)
    np.testing.assert_array_equal(parts["y_train"], y)
    assert [str(parts["classes"])[c] for c in y] == ["0", "A", "t"]
    assert len(str(parts["classes"])) == 47


def cifar_batches() -> tuple[list[Bytes], list[list[int]]]:
    return [images(4, 32, 32, 3) for _ in range(6)], [[n, 1, 2, 9] for n in range(6)]


NAMES = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]


def test_cifar_binary(tmp_path: Path) -> None:
    xs, ys = cifar_batches()
    members = {}
    for name, x, y in zip(NAMES, xs, ys, strict=True):
        planes = x.transpose(0, 3, 1, 2).reshape(4, -1)
        records = [bytes([label]) + image.tobytes() for label, image in zip(y, planes, strict=True)]
        members[f"cifar-10-batches-bin/{name}.bin"] = b"".join(records)
    tar_of(tmp_path / "cifar-10-binary.tar.gz", members)
    parts = formats.cifar_binary_in_tar(tmp_path)
    np.testing.assert_array_equal(parts["x_train"], np.concatenate(xs[:5]))
    assert parts["y_train"].tolist() == [label for y in ys[:5] for label in y]
    np.testing.assert_array_equal(parts["x_test"], xs[5])
    members["cifar-10-batches-bin/test_batch.bin"] += b"x"
    tar_of(tmp_path / "cifar-10-binary.tar.gz", members)
    message = one_line(DataError, lambda: formats.cifar_binary_in_tar(tmp_path))
    assert message.endswith("test_batch.bin has 12293 bytes, not 3073 per image")


def test_cifar_in_pngs(tmp_path: Path) -> None:
    xs, ys = cifar_batches()
    members = {
        f"package/{name}.png": png_of(x.reshape(4, 1024, 3), [1, 4])
        for name, x in zip(NAMES, xs, strict=True)
    }
    members["package/train_lables.json"] = json.dumps(
        [label for y in ys[:5] for label in y]
    ).encode()
    members["package/test_lables.json"] = json.dumps(ys[5]).encode()
    parts = formats.cifar_png_in_tar(tar_of(tmp_path / "a.tgz", members))
    np.testing.assert_array_equal(parts["x_train"], np.concatenate(xs[:5]))
    np.testing.assert_array_equal(parts["x_test"], xs[5])
    assert parts["y_test"].tolist() == ys[5]
    members["package/test_lables.json"] = b"[1, "
    broken = tar_of(tmp_path / "a.tgz", members)
    message = one_line(DataError, lambda: formats.cifar_png_in_tar(broken))
    assert message.startswith("package/test_lables.json is not a list of class numbers: ")


def test_an_archive_is_read_by_exact_names_and_never_unpacked(tmp_path: Path) -> None:
    tarball = tmp_path / "in" / "a.tgz"
    tarball.parent.mkdir()
    with tarfile.open(tarball, "w:gz") as archive:
        for name in ("../package/data/train-images-idx3-ubyte", "/etc/evil"):
            archive.addfile(tarfile.TarInfo(name))
        link = tarfile.TarInfo("package/data/t10k-labels-idx1-ubyte")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    message = one_line(DataError, lambda: formats.idx_in_tar(tarball))
    assert message == "a.tgz has no file package/data/t10k-images-idx3-ubyte"
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "a.tgz"]


@pytest.mark.parametrize("content", [b"", b"hello", gzip.compress(b"x" * 600, mtime=0)[:-9]])
def test_a_damaged_archive_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    for name in ("a.tgz", "gzip.zip", "train-images-idx3-ubyte.gz"):
        (tmp_path / name).write_bytes(content)
    for act in (
        lambda: formats.idx_in_tar(tmp_path / "a.tgz"),
        lambda: formats.emnist_balanced_in_zip(tmp_path),
        lambda: formats.idx_in_gz(tmp_path),
    ):
        one_line(DataError, act)
