"""Small images with few colours, as PNG in a data URI."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["make_png"]


def make_png(pixels: npt.NDArray[np.uint8], colours: Sequence[str]) -> str:
    """The data URI of an image; colour 0 is transparent.

    Args:
        pixels: (rows, columns) numbers of colours.
        colours: From 1 on, as "#RRGGBB".
    """
    height, width = pixels.shape
    table = b"\0\0\0" + b"".join(bytes.fromhex(colour[1:]) for colour in colours)
    lines = np.hstack([np.zeros((height, 1), np.uint8), pixels]).tobytes()  # 0: no filter
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", table),
        (b"tRNS", b"\0"),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"
