"""Images in folders, one folder for each class."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mmfl.config import Count, Text, component, short
from mmfl.data.arrays import Arrays
from mmfl.data.conversion import to_arrays
from mmfl.data.folders import find_input, is_folder_here, wanted_folder
from mmfl.data.pictures import match_channels, read_pixels, stack
from mmfl.errors import DataError, plural, text_of
from mmfl.system.files import SETTINGS, list_folder, read_file
from mmfl.system.memory import Need, refuse
from mmfl.system.user_code import pass_on, warn_user

__all__ = ["ImageFolder"]

Bytes = npt.NDArray[np.uint8]

_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""What Pillow may take a file for: other formats start programs, or are no images of pixels."""

_PIXELS = 1 << 26
"""The most pixels that an image may have, before it is made smaller."""

_SPLITS = ("train", "test", "validation", "val", "valid")


@component
class ImageFolder:
    """A folder with a folder of images for each class: ``path/CLASS/image.png``.

    Or ``path/train/CLASS/image.png`` and ``path/test/CLASS/image.png``. It needs Pillow:
    ``pip install 'mmfl[images]'``. Images are bytes; they are in colour if one of them is.

    Attributes:
        path: The folder. A relative path is relative to the data folder if one is set (--data-dir
            or MMFL_DATA), else to the folder you run mmfl from.
        size: [height, width] to which all images are resized; by default they must agree.
        colors: Whether all images become "grey" (one channel) or "rgb" (three); "auto" means grey
            if all of them are.
    """

    path: Text
    size: tuple[Count, Count] | None = None
    colors: Literal["auto", "grey", "rgb"] = "auto"

    def find_files(self, data_dir: str | Path | None) -> list[Path]:
        """Where the folder is, or would be."""
        return [(wanted_folder(data_dir) or Path()) / self.path]

    def load(self, data_dir: Path | None) -> Arrays:
        """Read all images; what is left out is a warning."""
        folder = find_input(self.path, data_dir, folder=True)
        where = f"data set {str(folder)!r}"
        reader = _Reader(where, folder, self.size, self.colors)
        try:
            parts = reader.read()
        except OSError as error:
            raise DataError(f"{where} cannot be read: {error.strerror}") from None
        arrays, notes = to_arrays(parts, where)
        for note in [*reader.notes, *notes]:
            warn_user(f"{where}: {note}")
        return arrays


class _Reader:
    """Reads one folder.

    Attributes:
        notes: A sentence for each thing that is left out.
    """

    def __init__(
        self,
        where: str,
        folder: Path,
        size: tuple[int, int] | None,
        colors: str,
    ) -> None:
        try:
            from PIL import Image
        except ImportError:
            raise DataError(
                f"{where}: images need Pillow, which is not installed: pip install 'mmfl[images]'"
            ) from None
        self._open: Any = Image.open
        self._where, self._folder = where, folder
        self._size, self._colors = size, colors
        self._first: tuple[tuple[int, ...], str] | None = None
        self._others: dict[str, None] = {}
        self.notes: list[str] = []

    def read(self) -> dict[str, Any]:
        """The parts of a data set, as `Arrays.check` takes them."""
        splits = self._find_splits()
        files = {name: self._list_classes(split) for name, split in splits.items()}
        classes = sorted({one for by_class in files.values() for one in by_class})
        if len(classes) < 2:
            raise DataError(
                f"{self._where} must hold a folder of images for each of several classes, got "
                f"{plural(len(classes), 'folder')}"
            )
        if self._others:
            count = plural(len(self._others), "file")
            self.notes.append(
                f"not images, and left out: {count}, such as {next(iter(self._others))}"
            )
        parts: dict[str, Any] = {"classes": classes}
        for name, by_class in files.items():
            images = [path for one in classes for path in by_class.get(one, ())]
            counts = [len(by_class.get(one, ())) for one in classes]
            if not images:
                raise DataError(f"{self._where} has no images in {self._name(splits[name])}")
            parts[f"x_{name}"] = self._read_images(images)
            parts[f"y_{name}"] = np.repeat(np.arange(len(classes)), counts)
        if "test" in files:
            parts["x_train"], parts["x_test"] = match_channels(parts["x_train"], parts["x_test"])
        return parts

    def _find_splits(self) -> dict[str, Path]:
        """The folders of training and test data; only the first if they are not apart."""
        names = {path.name for path in self._list_folders(self._folder)}
        if "train" not in names or not names <= set(_SPLITS):
            return {"train": self._folder}
        test = next((name for name in _SPLITS[1:] if name in names), None)
        if test not in (None, "test"):
            self.notes.append(f"the folder {test!r} is used as the test split")
        unused = sorted(names - {"train", test})
        if unused:
            self.notes.append(f"not used: {', '.join(map(short, unused))}")
        found = {"train": self._folder / "train"}
        return found if test is None else found | {"test": self._folder / test}

    def _list_folders(self, folder: Path) -> list[Path]:
        """The folders in a folder, in the order of their names; files beside them are noted."""
        here = [path for path in list_folder(folder) if not path.name.startswith(".")]
        folders = [path for path in here if is_folder_here(path)]
        self._others |= {self._name(path): None for path in here if path not in folders}
        return folders

    def _list_classes(self, split: Path) -> dict[str, list[Path]]:
        """From each class to its images."""
        classes = {}
        for folder in self._list_folders(split):
            here = [path for path in list_folder(folder) if not path.name.startswith(".")]
            images = [path for path in here if path.suffix.lower() in _ENDINGS]
            others = [path for path in here if path.suffix.lower() not in _ENDINGS]
            deep = next((path for path in others if is_folder_here(path)), None)
            if deep is not None:
                raise DataError(
                    f"{self._where} has a folder {self._name(deep)} in the folder of a class; "
                    "images must be in path/CLASS, or in path/train/CLASS and path/test/CLASS"
                )
            self._others |= {self._name(path): None for path in others}
            classes[folder.name] = images
        return classes

    def _read_images(self, paths: Sequence[Path]) -> Bytes:
        """Images of one size; N x height x width, or N x height x width x 3."""
        pixels = []
        for path in paths:
            pixels.append(self._read_image(path))
            shape = pixels[-1].shape
            if self._first is None:
                self._first = shape[:2], self._name(path)
            first, named = self._first
            if shape[:2] != first:
                raise DataError(
                    f"{self._where} has images of different sizes, {_by(first)} ({named}) and "
                    f"{_by(shape[:2])} ({self._name(path)}); set size = [height, width]"
                )
            if len(pixels) == 1:
                refuse([Need(self._where, 2 * len(paths) * pixels[0].size)])
        return stack(pixels)

    def _read_image(self, path: Path) -> Bytes:
        where = f"{self._where}: {self._name(path)}"
        try:
            content = io.BytesIO(read_file(path, limit=SETTINGS))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of odd metadata, and of what is refused here
                with self._open(content, formats=_FORMATS) as picture:
                    width, height = picture.size
                    if width * height > _PIXELS:
                        raise DataError(
                            f"{where} has {width:,} x {height:,} pixels; at most {_PIXELS:,} are "
                            "allowed"
                        )
                    if getattr(picture, "n_frames", 1) > 1:
                        raise DataError(f"{where} has {picture.n_frames} images in one file")
                    return self._shape(picture, where)
        except OSError as error:
            unknown = "it is not an image" if "identify" in str(error) else text_of(error)
            said = error.strerror or unknown
            raise DataError(f"{where} cannot be read: {said}") from None
        except DataError:
            raise
        except Exception as error:  # a damaged file can raise nearly anything from inside Pillow
            pass_on(error)
            raise DataError(f"{where} cannot be read: {text_of(error)}") from None

    def _shape(self, picture: Any, where: str) -> Bytes:
        """The pixels of an open image, in the size and in the colours that are wanted."""
        pixels = read_pixels(picture, where, colors=self._colors)
        if self._size is None or pixels.shape[:2] == self._size:
            return pixels
        from PIL import Image

        height, width = self._size
        made = Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR)
        return np.array(made, np.uint8)

    def _name(self, path: Path) -> str:
        """A file as it is called in messages."""
        return short(str(path.relative_to(self._folder)))


def _by(size: tuple[int, ...]) -> str:
    return " x ".join(map(str, size))
