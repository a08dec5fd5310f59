"""The data sets that come with mmfl: real data without a network. README.md names their sources.

A set is one file, ``<name>.xz``: an xz stream (``xz -dc`` reads it) in which four NumPy files lie
one after another without anything between them, in the order x_train, y_train, x_test, y_test. Each
of them is, byte by byte (NumPy's format 1.0):

    6 bytes         93 4E 55 4D 50 59, the latter five being "NUMPY"
    2 bytes         01 00, the format's version
    2 bytes         n, little-endian: the length of the description that follows
    n bytes         {'descr': '|u1', 'fortran_order': False, 'shape': (10000, 28, 28), } in ASCII,
                    then spaces and a newline up to a multiple of 64 bytes
    1 byte each     the numbers, unsigned, row by row

All arrays are bytes: images (N x height x width) or a table (N x features), and class numbers (N).
Images are sorted by class, since that saves room: the first rows alone are all of one class.
`tools/embed_data.py` made the files; `mmfl data verify` compares them with the catalogue.
"""

from __future__ import annotations

import io
from importlib import resources

import numpy as np

from mmfl.data.arrays import PARTS, Arrays
from mmfl.errors import DataError

__all__ = ["load"]


def load(name: str) -> Arrays:
    """The embedded set of this name, as the catalogue lists it."""
    where = f"embedded data set {name!r}"
    try:
        import lzma
    except ImportError:
        raise DataError(f"{where} needs the module lzma, which this Python does not have") from None
    try:
        packed = (resources.files(__name__) / f"{name}.xz").read_bytes()
        content = io.BytesIO(lzma.decompress(packed))
        parts = {part: np.load(content, allow_pickle=False) for part in PARTS}
    except (OSError, ValueError, EOFError, lzma.LZMAError) as error:
        raise DataError(f"{where} cannot be read; reinstall mmfl: {error}") from None
    return Arrays.check(where, parts)
