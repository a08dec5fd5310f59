"""A partition that a file gives."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field

from mmfl.config import Text, component, short
from mmfl.data.arrays import Examples
from mmfl.data.npy import MAGIC, read_header
from mmfl.data.partition.base import Cut, Ints, Shards
from mmfl.errors import DataError
from mmfl.rng import Stream
from mmfl.system import calls
from mmfl.system.files import SETTINGS, open_file, read_text
from mmfl.system.user_code import pass_on

__all__ = ["FromFile"]

_KINDS = (".npy", ".csv", ".txt")
_ENDING = "\\.([nN][pP][yY]|[cC][sS][vV]|[tT][xX][tT])$"
_WHOLE = re.compile(r"-?[0-9]{1,18}")


def _ending(path: str) -> str:
    if not path.lower().endswith(_KINDS):
        raise ValueError(f"must end in {', '.join(_KINDS[:-1])} or {_KINDS[-1]}, got {path!r}")
    return path


@component
class FromFile:
    """Every example belongs to the client that a file names.

    A row that the server keeps for validation belongs to no client, whatever the file says.

    Attributes:
        path: A .npy file (one vector of whole numbers), or a .csv or .txt file (one whole number
            per line, no header), relative to the folder you run from. It has one number per row of
            the task's complete training data: its client, or -1 for nobody.
    """

    path: Annotated[Text, AfterValidator(_ending), Field(json_schema_extra={"pattern": _ENDING})]

    def named_files(self) -> dict[str, str]:
        """From key to path: what a run must not be resumed with if it has changed."""
        return {"path": self.path}

    def split(self, examples: Examples, clients: int, *, rng: Stream) -> Shards:
        """Read the file, check it, put each client's rows together."""
        where = f"partition file {self.path!r}"
        path = Path(self.path)
        binary = self.path.lower().endswith(".npy")
        total = len(examples) if examples.total is None else examples.total
        try:
            found = _vector(where, path) if binary else _lines(where, path, total)
        except DataError:
            raise
        except FileNotFoundError:
            folder = "" if path.is_absolute() else f" in {str(Path.cwd())!r}"
            raise DataError(f"{where} does not exist{folder}") from None
        except Exception as error:  # a damaged file can raise nearly anything from inside NumPy
            pass_on(error)
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise DataError(f"{where} cannot be read: {said}") from None
        if len(found) != total:
            kept = total - len(examples)
            also = f", the server's {kept} included" if kept else ""
            raise DataError(
                f"{where} must have one number per row of the training data ({total}{also}), "
                f"got {len(found)}"
            )
        wrong = np.flatnonzero((found < -1) | (found >= clients))
        if len(wrong):
            place = f"row {wrong[0]}" if binary else f"line {wrong[0] + 1}"
            raise DataError(
                f"{where}: {place} must be a client from 0 to {clients - 1} (clients.count = "
                f"{clients}) or -1 for nobody, got {found[wrong[0]]}"
            )
        owner = found.astype(np.int64)[examples.rows]
        if owner.max() < 0:
            raise DataError(f"{where} assigns none of the {len(owner)} available rows to a client")
        return Cut.of(owner, clients)


def _vector(where: str, path: Path) -> npt.NDArray[Any]:
    with open_file(path) as file:
        if file.read(6) != MAGIC:
            raise DataError(f"{where} is not a valid npy file")
        file.seek(0)
        head = read_header(file)
        if head.dtype.hasobject:
            raise DataError(
                f"{where} holds Python objects, which are never loaded; "
                "save one vector of whole numbers"
            )
        if len(head.shape) != 1 or head.dtype.kind not in "iu":
            said = f"{head.dtype} of shape {head.shape}"
            raise DataError(f"{where} must be one vector of whole numbers, got {said}")
        start = file.tell()
        left = calls.status_of_open(file.fileno()).st_size - start
        if head.bytes > left:
            raise DataError(
                f"{where} cannot be read: its header says {head.bytes:,} bytes, but {left:,} follow"
            )
        file.seek(0)
        content = io.BytesIO(file.read(start + head.bytes))
    found: npt.NDArray[Any] = np.lib.format.read_array(content, allow_pickle=False)
    return found


def _lines(where: str, path: Path, total: int) -> Ints:
    text = read_text(path, limit=max(SETTINGS, 24 * total)).rstrip()
    lines = [line.strip() for line in text.split("\n")] if text else []
    for number, line in enumerate(lines, 1):
        if not _WHOLE.fullmatch(line):
            also = "; a header is not allowed" if number == 1 and line else ""
            raise DataError(
                f"{where}: line {number} must be a client's number, or -1 for nobody, "
                f"got {short(line)}{also}"
            )
    return np.array(lines, dtype=np.int64)
