"""Folders of images: what is read, and what is refused in one sentence."""

from __future__ import annotations

import os
import struct
import sys
import warnings
import zlib

import numpy as np
import pytest

from mmfl.data import ImageFolder, content_hash
from mmfl.errors import DataError, MmflWarning
from support.helpers import one_line

Image = pytest.importorskip("PIL.Image", reason="the extra 'images' is not installed")


def save(path, shade=0, *, size=(4, 5), mode="L"):
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = size if mode == "L" else (*size, 3)
    Image.fromarray(np.full(shape, shade, np.uint8)).convert(mode).save(path)


@pytest.fixture
def photos(tmp_path):
    for number in range(10):
        save(tmp_path / f"photos/{['cat', 'dog'][number % 2]}/{number}.png", number)
    return tmp_path / "photos"


def load(photos, **keys):
    with warnings.catch_warnings(record=True, action="always") as caught:
        found = ImageFolder(path=str(photos), **keys).load(None)
    start = f"data set {str(photos)!r}: "
    said = [str(one.message).removeprefix(start) for one in caught]
    return found, [one for one in said if "no test data" not in one]


def refuse(photos, **keys):
    said = one_line(DataError, lambda: ImageFolder(path=str(photos), **keys).load(None))
    return said.removeprefix(f"data set {str(photos)!r}")


def test_a_folder_for_each_class(photos):
    found, said = load(photos)
    assert (found.x_train.shape, found.x_train.dtype, found.classes) == ((8, 4, 5), np.uint8, 2)
    np.testing.assert_array_equal(found.x_train[:, 0, 0] % 2, found.y_train)
    assert said == []


def test_folders_for_training_and_test(photos, tmp_path):
    for split, rows in (("train", range(6)), ("test", range(6, 10))):
        for number in rows:
            save(tmp_path / f"apart/{split}/{['cat', 'dog'][number % 2]}/{number}.png", number)
    save(tmp_path / "apart/test/fox/11.png", 11)
    found, said = load(tmp_path / "apart")
    assert (len(found.x_train), len(found.x_test), found.classes, said) == (6, 5, 3, [])
    (tmp_path / "apart/test").rename(tmp_path / "apart/val")
    again, said = load(tmp_path / "apart")
    assert content_hash(again) == content_hash(found)
    assert said == ["the folder 'val' is used as the test split"]


def test_a_class_may_be_called_train(photos):
    save(photos / "train/1.png", 3)
    assert load(photos)[0].classes == 3


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "CMYK"])
def test_one_image_in_colour_gives_all_of_them_colours(photos, mode):
    save(photos / f"cat/0.{'tif' if mode == 'CMYK' else 'png'}", 10, mode=mode)
    found, _ = load(photos)
    assert found.shape == (3, 4, 5)
    assert load(photos, colors="grey")[0].shape == (1, 4, 5)
    assert load(photos, colors="rgb")[0].shape == (3, 4, 5)


def test_images_are_resized_on_demand(photos):
    save(photos / "cat/0.png", size=(8, 10))
    said = refuse(photos)
    assert said == (
        " has images of different sizes, 8 x 10 ('cat/0.png') and 4 x 5 ('cat/2.png'); "
        "set size = [height, width]"
    )
    found, _ = load(photos, size=[2, 3])
    assert found.shape == (1, 2, 3)


def test_other_files_are_left_out_and_said(photos):
    for name in (".DS_Store", "cat/.hidden.png", "notes.txt", "cat/Thumbs.db"):
        (photos / name).write_text("x")
    found, said = load(photos)
    assert len(found.x_train) == 8
    assert said == ["not images, and left out: 2 files, such as 'notes.txt'"]


def test_an_edited_image_is_other_data(photos):
    before = content_hash(load(photos)[0])
    save(photos / "dog/1.png", 2)
    assert content_hash(load(photos)[0]) != before


def bomb(width, height):
    """A PNG that claims this size."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cannot be read: it is not an image"),
        (b"GIF89a", "cannot be read: "),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "it is not an image"),
        (bomb(60_000, 60_000), "cannot be read: Image size (3600000000 pixels) exceeds limit"),
        (bomb(9_000, 9_000), "has 9,000 x 9,000 pixels; at most 67,108,864 are allowed"),
        (bomb(2**31 - 1, 1), "exceeds limit"),
        (bomb(200, 200), "cannot be read: "),
    ],
    ids=["empty", "cut", "PostScript", "huge", "large", "long", "short of pixels"],
)
def test_a_broken_image_is_one_sentence_that_names_it(photos, content, words):
    (photos / "cat/0.png").write_bytes(content)
    said = refuse(photos)
    assert said.startswith(": 'cat/0.png' ")
    assert words in said


def test_damaged_bytes_never_raise_anything_else(photos):
    path = photos / "cat/0.png"
    rng = np.random.default_rng(0)
    for ending in ("png", "jpg", "tif", "webp", "bmp", "ppm", "gif"):
        save(photos / f"cat/0.{ending}", 9)
        whole = (photos / f"cat/0.{ending}").read_bytes()
        (photos / f"cat/0.{ending}").unlink()
        for _ in range(12):
            content = bytearray(whole[: rng.integers(len(whole) // 2, len(whole) + 1)])
            for place in rng.integers(len(content), size=3):
                content[place] = rng.integers(256)
            path.write_bytes(content)
            try:
                load(photos)
            except DataError as error:
                one_line(DataError, lambda error=error: (_ for _ in ()).throw(error))


def test_more_than_8_bits_and_more_than_one_image(photos):
    Image.fromarray(np.zeros((4, 5), np.uint16)).save(photos / "cat/0.png")
    assert "must have 8 bits per pixel and channel, but its mode is 'I;16'" in refuse(photos)
    frames = [Image.fromarray(np.full((4, 5), shade, np.uint8)) for shade in (0, 9)]
    frames[0].save(photos / "cat/0.png", save_all=True, append_images=frames[1:])
    assert ": 'cat/0.png' has 2 images in one file" in refuse(photos)


def test_links_pipes_and_folders_in_folders(photos):
    (photos / "cat/0.png").unlink()
    (photos / "cat/0.png").symlink_to(photos / "cat/2.png")
    assert len(load(photos)[0].x_train) == 8
    (photos / "cat/0.png").unlink()
    (photos / "cat/0.png").symlink_to("0.png")
    assert "'cat/0.png' cannot be read: Too many levels of symbolic links" in refuse(photos)
    (photos / "cat/0.png").unlink()
    os.mkfifo(photos / "cat/0.png")
    assert "'cat/0.png' cannot be read: it is a pipe, not a file" in refuse(photos)
    (photos / "cat/0.png").unlink()
    (photos / "cat/again").symlink_to(photos)
    assert " has a folder 'cat/again' in the folder of a class; images must be in" in refuse(photos)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], " must hold a folder of images for each of several classes, got 0 folders"),
        (["cat/1.png", "cat/2.png"], "for each of several classes, got 1 folder"),
        (["1.png", "2.png"], "for each of several classes, got 0 folders"),
        (["cat/a.txt", "dog/a.txt"], " has no images in '.'"),
        (["train/a/1.png", "train/b/1.png", "test/a/x.txt"], " has no images in 'test'"),
        (["train/\x1b[2J/x/1.png", "train/b/1.png"], " has a folder 'train/\\x1b[2J/x' in"),
    ],
)
def test_folders_without_classes_or_images_are_one_sentence(tmp_path, names, words):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        save(folder / "x.png") if name.endswith("png") else None
        (folder / name).write_bytes(
            (folder / "x.png").read_bytes() if name.endswith("png") else b""
        )
    (folder / "x.png").unlink(missing_ok=True)
    assert words in refuse(folder)


def test_a_file_and_nothing_are_no_folder(tmp_path):
    (tmp_path / "file").touch()
    assert refuse(tmp_path / "file") == " is a file, not a folder"
    assert refuse(tmp_path / "none") == " does not exist"


def test_without_pillow_a_sentence_says_what_to_install(photos, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert refuse(photos).endswith("pip install 'mmfl[images]'")


def test_without_test_images_that_is_said(photos):
    with pytest.warns(MmflWarning, match="no test data was given; 2 of 10"):
        ImageFolder(path=str(photos)).load(None)
