"""Make the data sets that come with mmfl (src/mmfl/data/embedded), each time the same bytes.

It needs three files, all of which it checks before it writes anything:

    mnist.npz, fashion_mnist.npz    complete, as `mmfl data fetch mnist fashion_mnist` makes them
    letter-recognition.data         as UCI publishes it, https://doi.org/10.24432/C5ZP40

    python tools/embed_data.py FOLDER_WITH_THE_THREE [--out FOLDER]

Images: of each class as many as its share of the whole set (rounded by largest remainder), taken at
even steps through the class in the publisher's order; train from train, test from test; sorted by
class. Letters: all rows in the publisher's order, the first 16,000 for training and the last 4,000
for testing, as the publisher says; the label is the letter's place in the alphabet from 0.

The same bytes are promised for one version of liblzma (5.4 here); the content is the same for any.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import lzma
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.data import Arrays, Npz, content_hash
from mmfl.data.arrays import PARTS
from mmfl.data.sources import CATALOGUE
from mmfl.errors import DataError, MmflError

__all__ = ["choose", "main", "pack"]

Bytes = npt.NDArray[np.uint8]
SMALL = {
    "mnist_small": ("mnist", 10_000, 2_000),
    "fashion_mnist_small": ("fashion_mnist", 8_000, 1_600),
}
LETTERS = "letter-recognition.data"
LETTERS_SHA256 = "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2"
EMBEDDED = Path(__file__).parent.parent / "src/mmfl/data/embedded"


def choose(labels: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """`count` rows, sorted by class, each class by its share and at even steps."""
    sizes = np.bincount(labels)
    share = sizes * count / len(labels)
    take = np.floor(share).astype(np.int64)
    take[np.argsort(take - share, kind="stable")[: count - int(take.sum())]] += 1
    rows = [
        np.flatnonzero(labels == c)[np.arange(n) * sizes[c] // n]
        for c, n in enumerate(take.tolist())
    ]
    return np.concatenate(rows)


def pack(parts: dict[str, Bytes]) -> bytes:
    """An embedded set's file (the format is in mmfl.data.embedded)."""
    content = io.BytesIO()
    for name in PARTS:
        np.lib.format.write_array(content, np.ascontiguousarray(parts[name]), version=(1, 0))
    return lzma.compress(content.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def _small(source: Arrays, train: int, test: int) -> dict[str, Bytes]:
    some, other = choose(source.y_train, train), choose(source.y_test, test)
    return {
        "x_train": source.x_train[some],
        "y_train": source.y_train[some].astype(np.uint8),
        "x_test": source.x_test[other],
        "y_test": source.y_test[other].astype(np.uint8),
    }


def _letters(path: Path) -> dict[str, Bytes]:
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != LETTERS_SHA256:
        raise DataError(f"{str(path)!r} is not UCI's {LETTERS} (sha256 {LETTERS_SHA256})")
    rows = [line.split(",") for line in content.decode("ascii").splitlines()]
    x = np.array([row[1:] for row in rows]).astype(np.uint8)
    y = np.array([ord(row[0]) - ord("A") for row in rows], np.uint8)
    return {
        "x_train": x[:16_000],
        "y_train": y[:16_000],
        "x_test": x[16_000:],
        "y_test": y[16_000:],
    }


def _complete(folder: Path, name: str) -> Arrays:
    found = Npz(str((folder / f"{name}.npz").resolve())).load(None)
    if content_hash(found) != CATALOGUE[name].content:
        raise DataError(f"{name}.npz in {str(folder)!r} is not the complete {name}")
    return found


def main(arguments: list[str] | None = None) -> None:
    """Check the sources, then write the files and print their hashes."""
    wanted = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    wanted.add_argument("folder", type=Path, help=f"holds mnist.npz, fashion_mnist.npz, {LETTERS}")
    wanted.add_argument("--out", type=Path, default=EMBEDDED, help="where to write the .xz files")
    given = wanted.parse_args(arguments)
    try:
        made: dict[str, Any] = {"letters": _letters(given.folder / LETTERS)}
        for name, (source, train, test) in SMALL.items():
            made[name] = _small(_complete(given.folder, source), train, test)
        given.out.mkdir(parents=True, exist_ok=True)
        for name, parts in sorted(made.items()):
            packed = pack(parts)
            (given.out / f"{name}.xz").write_bytes(packed)
            content = content_hash(Arrays.check(name, parts))
            sys.stdout.write(
                f"{name}.xz: {len(packed):,} bytes, sha256 {hashlib.sha256(packed).hexdigest()}, "
                f"content {content}\n"
            )
    except (MmflError, OSError) as error:
        sys.exit(f"embed_data: {error}")


if __name__ == "__main__":
    main()
