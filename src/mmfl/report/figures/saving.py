"""Save figures: .png, .svg or .pdf, with the same bytes for the same figure."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmfl.errors import InputError, StoreError
from mmfl.report.figures.style import own_style
from mmfl.system.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["check_path", "render", "save"]

# Without these the same figure would have different bytes each time.
_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}


def check_path(path: str | Path) -> str:
    """The format that a file's name asks for; one sentence if it cannot be drawn."""
    kind = Path(path).suffix.lower()
    if kind not in _METADATA:
        raise InputError(f"a figure's file must end in .png, .svg or .pdf, got {str(path)!r}")
    with own_style():  # which needs matplotlib
        return kind


def render(figure: Figure, path: str | Path) -> bytes:
    """The content of a figure's file; the suffix says in which format."""
    kind = check_path(path)
    buffer = io.BytesIO()
    with own_style():
        figure.savefig(buffer, format=kind[1:], metadata=_METADATA[kind])
    return buffer.getvalue()


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure; an existing file is replaced atomically."""
    path = Path(path)
    content = render(figure, path)
    try:
        write_file(path, content)
    except OSError as error:
        raise StoreError(f"cannot write the figure {str(path)!r}: {error.strerror}") from None
    return path
