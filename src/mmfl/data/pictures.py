"""From pictures of Pillow to arrays of bytes; Pillow is imported by those who open files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.errors import DataError

__all__ = ["match_channels", "read_pixels", "stack"]

Bytes = npt.NDArray[np.uint8]

_GREY = ("1", "L", "LA")
_COLOUR = ("P", "PA", "RGB", "RGBA", "RGBX", "RGBa", "CMYK", "YCbCr", "LAB", "HSV")


def read_pixels(picture: Any, where: str, *, colors: str = "auto") -> Bytes:
    """The pixels of a picture: height x width if it is grey, else height x width x 3.

    Transparency is left out.

    Args:
        picture: The picture.
        where: What it is called in messages.
        colors: "grey", "rgb", or "auto" for those that it has.
    """
    mode = str(getattr(picture, "mode", type(picture).__name__))
    if mode not in (*_GREY, *_COLOUR):
        raise DataError(f"{where} must have 8 bits per pixel and channel, but its mode is {mode!r}")
    grey = mode in _GREY if colors == "auto" else colors == "grey"
    return np.array(picture.convert("L" if grey else "RGB"), np.uint8)


def match_channels(one: Bytes, other: Bytes) -> tuple[Bytes, Bytes]:
    """Two arrays of pictures, both grey or both in colour."""
    if one.ndim == other.ndim:
        return one, other
    made = [x if x.ndim == 4 else np.repeat(x[..., None], 3, axis=3) for x in (one, other)]
    return made[0], made[1]


def stack(pictures: Sequence[Bytes]) -> Bytes:
    """Pictures of one size as one array; if any is in colour, all are."""
    if any(pixels.ndim == 3 for pixels in pictures):
        pictures = [
            pixels if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, axis=2)
            for pixels in pictures
        ]
    return np.stack(pictures)
