"""Numbers and names as people read them."""

from __future__ import annotations

import math
import re

__all__ = ["broken", "escaped", "number"]


def number(value: float, decimals: int, *, sign: bool = False) -> str:
    """A number without a zero before the point; "-" if it is unknown.

    >>> number(0.8421, 3), number(-0.0312, 3), number(0.0312, 3, sign=True), number(1, 3)
    ('.842', '-.031', '+.031', '1.000')
    """
    if math.isnan(value):
        return "-"
    text = f"{value:+.{decimals}f}"
    mark, digits = text[0], text[1:]
    if not digits.strip("0."):
        mark = ""
    if digits.startswith("0."):
        digits = digits[1:]
    return (mark if sign or mark == "-" else "") + digits


def broken(name: str, width: int) -> str:
    r"""A name in lines of at most `width` characters, broken after punctuation where it can be.

    >>> broken("allocator.kind=round_robin", 16)
    'allocator.kind=\nround_robin'
    """
    return "\n".join(line.rstrip() for line in _lines(" ".join(name.split()), width, _WEAKER))


# Where to break, best place first; in the end, anywhere.
_WEAKER = (r"[\s,;]", r"[=:]", r"[./]", r"[_+-]", r"")


def _lines(text: str, width: int, marks: tuple[str, ...]) -> list[str]:
    if len(text.rstrip()) <= width:
        return [text]
    if not marks[0]:
        return [text[at : at + width] for at in range(0, len(text), width)]
    lines = [""]
    for piece in re.split(rf"(?<={marks[0]})", text):
        if len((lines[-1] + piece).rstrip()) <= width:
            lines[-1] += piece
        else:
            lines += _lines(piece, width, marks[1:])
    return lines if lines[0] else lines[1:]


def escaped(name: str) -> str:
    """A name as it may stand in Markdown."""
    return re.sub(r"([\\|*<>`\[\]])", r"\\\1", " ".join(name.split()))
