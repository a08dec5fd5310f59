"""The style of all figures: colours that everybody can distinguish, one style for every panel."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from mmfl.errors import InputError

__all__ = [
    "BOLD",
    "BROKEN",
    "DASHES",
    "GREY",
    "INK",
    "PALE",
    "SMALL",
    "STRONG",
    "TITLE",
    "get_line_look",
    "own_style",
]

# People with any kind of colour vision can tell these apart: strong ones for lines (Okabe and Ito),
# pale ones for areas under black text (Tol, "light").
STRONG = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000")
PALE = (
    "#77AADD", "#EEDD88", "#EE8866", "#99DDFF", "#BBCC33",
    "#FFAABB", "#44BB99", "#DDDDDD", "#CCAA55", "#BBAADD",
)  # fmt: skip
INK, GREY = "#222222", "#666666"
BROKEN = "#F9D5C8"  # between a bound and a measured value that it should not be below
TITLE, BOLD, SMALL = 11.0, 9.0, 8.0  # sizes of letters, in points
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1.5, 1.5)), (0, (4, 1.3, 1, 1.3)))

_STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": GREY,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": BOLD,
    "axes.titleweight": "bold",
    "figure.dpi": 200,
    "figure.labelsize": SMALL,
    "figure.titlesize": TITLE,
    "figure.titleweight": "bold",
    "font.size": SMALL,
    "grid.color": "#E2E2E2",
    "grid.linewidth": 0.6,
    "legend.borderaxespad": 0.5,
    "legend.borderpad": 0.5,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 3.5,
    "savefig.dpi": 200,
    "svg.hashsalt": "mmfl",  # the same ids in each SVG
    "text.color": INK,
    "text.parse_math": False,  # a $ in a name is a $
    "xtick.color": GREY,
    "xtick.major.pad": 5,
    "xtick.major.size": 0,
    "ytick.color": GREY,
    "ytick.major.size": 0,
}


def get_line_look(number: int) -> dict[str, Any]:
    """The colour and dashes of one of many lines."""
    again, colour = divmod(number, len(STRONG))
    return {"color": STRONG[colour], "linestyle": DASHES[again % len(DASHES)]}


@contextmanager
def own_style() -> Iterator[None]:
    """Matplotlib in this style, whatever the user's settings are; needs matplotlib."""
    try:
        style = _import_style()
    except ImportError:
        raise InputError(
            "a figure needs matplotlib, which is not installed: pip install 'mmfl[report]'"
        ) from None
    with style.context(["default", _STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        yield


def _import_style() -> Any:
    """Matplotlib's styles; they do not need the backend that MPLBACKEND names, which may not exist.

    A notebook's backend, for one, is inherited by processes that have no notebook's packages. When
    it is imported, Matplotlib refuses such a name and cannot be imported again in this process. So
    it does not see the name; a backend that exists is set afterwards, as Matplotlib would have.
    """
    if "matplotlib" in sys.modules:
        from matplotlib import style

        return style
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        from matplotlib import rcParams, style
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    if backend:
        with suppress(ValueError):
            rcParams["backend"] = backend
    return style
