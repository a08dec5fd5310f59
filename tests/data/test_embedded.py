"""What comes with mmfl: the embedded sets, their hashes, and the script that made them."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import lzma
import os
import re
from importlib import resources
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mmfl.data import Arrays, Named, Synthetic, content_hash, embedded
from mmfl.data.arrays import PARTS
from mmfl.data.sources import CATALOGUE
from mmfl.errors import DataError
from support.helpers import one_line

EMBEDDED = [name for name, entry in CATALOGUE.items() if entry.published is None]
HOUSE = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("embed_data", HOUSE / "tools/embed_data.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_embedded_set_is_what_the_catalogue_says(name: str) -> None:
    entry, arrays = CATALOGUE[name], Named(name).load(None)
    assert content_hash(arrays) == entry.content
    assert arrays.x_train.shape == (entry.train, *entry.shape)
    assert arrays.x_test.shape == (entry.test, *entry.shape)
    assert arrays.classes == entry.classes
    assert arrays.x_train.dtype == np.uint8
    for y in (arrays.y_train, arrays.y_test):
        assert set(y.tolist()) == set(range(entry.classes))


def test_the_readme_has_a_row_and_a_licence_for_each_file() -> None:
    folder = resources.files(embedded)
    text = (folder / "README.md").read_text()
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".xz"))
    assert files == sorted(f"{name}.xz" for name in EMBEDDED)
    for name in EMBEDDED:
        packed = (folder / f"{name}.xz").read_bytes()
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}.xz`"))
        assert hashlib.sha256(packed).hexdigest() in row
        assert f"{len(packed):,}" in row
        about = text.split(f"## {name}\n")[1].split("\n## ")[0]
        short = re.sub("CC BY-SA 3.0", "Share Alike 3.0", CATALOGUE[name].licence)
        assert short in about


def test_the_script_packs_what_is_embedded_byte_for_byte(script: ModuleType) -> None:
    arrays = embedded.load("letters")
    parts = {part: getattr(arrays, part).astype(np.uint8) for part in PARTS}
    packed = script.pack(parts)
    assert packed == script.pack(parts)
    # Unpacked: another liblzma than the one that was used may pack the same bytes otherwise.
    there = (resources.files(embedded) / "letters.xz").read_bytes()
    assert lzma.decompress(packed) == lzma.decompress(there)


def test_a_choice_is_stratified_and_evenly_spaced(script: ModuleType) -> None:
    labels = np.array([0, 1, 1, 2] * 25)
    rows = script.choose(labels, 20)
    assert np.bincount(labels[rows]).tolist() == [5, 10, 5]
    assert rows.tolist()[:5] == [0, 20, 40, 60, 80]
    assert len(script.choose(labels, 33)) == 33
    assert (np.diff(labels[script.choose(labels, 33)]) >= 0).all()


def test_the_script_refuses_other_sources_in_one_sentence(
    script: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main([str(tmp_path), "--out", str(tmp_path / "out")])
    assert "is not UCI's letter-recognition.data" in str(ended.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_the_small_sets_are_lossless_parts_of_the_whole(script: ModuleType, name: str) -> None:
    folder = os.environ.get("MMFL_TEST_DATA", "")
    if not (Path(folder) / f"{name}.npz").is_file():
        pytest.skip(f"MMFL_TEST_DATA names no folder with {name}.npz")
    whole, part = Named(name).load(Path(folder)), Named(f"{name}_small").load(None)
    assert content_hash(whole) == CATALOGUE[name].content
    for split in ("train", "test"):
        y = getattr(part, f"y_{split}")
        rows = script.choose(getattr(whole, f"y_{split}"), len(y))
        np.testing.assert_array_equal(getattr(whole, f"y_{split}")[rows], y)
        np.testing.assert_array_equal(
            getattr(whole, f"x_{split}")[rows], getattr(part, f"x_{split}")
        )


def test_a_missing_file_is_one_sentence() -> None:
    message = one_line(DataError, lambda: embedded.load("nothing"))
    assert message.startswith("embedded data set 'nothing' cannot be read; reinstall mmfl: ")


# The content hash


def changed(arrays: Arrays, **fields: object) -> str:
    return content_hash(dataclasses.replace(arrays, **fields))


def test_a_content_hash_sees_every_part_and_only_content() -> None:
    arrays = Synthetic(train=12, test=6).load(None)
    same = content_hash(arrays)
    assert changed(arrays, x_train=np.asfortranarray(arrays.x_train)) == same
    assert changed(arrays, y_test=arrays.y_test.astype(">i8")) == same
    others = {
        changed(arrays, x_train=arrays.x_train.reshape(12, 4, 4)),
        changed(arrays, x_train=arrays.x_train.astype(np.float64)),
        changed(arrays, x_train=-arrays.x_train),
        changed(arrays, y_train=arrays.y_train[::-1]),
        changed(arrays, x_test=arrays.x_test[:5]),
        changed(arrays, groups=np.zeros(12, np.int64)),
        changed(arrays, x_train=arrays.x_test, x_test=arrays.x_train),
    }
    assert len(others) == 7
    assert same not in others


def test_the_content_hash_is_as_documented() -> None:
    x, y = np.array([[1, 2]], np.uint8), np.array([3])
    number = (3).to_bytes(8, "little")
    split = b"|u1 1 2\n\x01\x02", b"<i8 1\n" + number
    words = [
        b"x_train ",
        split[0],
        b"y_train ",
        split[1],
        b"x_test ",
        split[0],
        b"y_test ",
        split[1],
    ]
    assert content_hash(Arrays(x, y, x, y, 4)) == hashlib.sha256(b"".join(words)).hexdigest()
