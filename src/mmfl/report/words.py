"""Numbers and names, formatted for people."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from rich.cells import cell_len, chop_cells

from mmfl.errors import printable

__all__ = ["amount", "amounts", "break_name", "counts", "escape_markdown", "number", "thin"]


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


def amounts(values: Sequence[float | None], *, nothing: float = 0.0) -> list[str]:
    """Amounts of money for one column: alike in decimals, so that the largest has four digits.

    One that would lose too much keeps two digits; one of at most `nothing` is 0; None is
    unknown.

    >>> amounts([12.5, 0.25, None, 7.1e-15], nothing=1e-9), amounts([1234567.8, 0.02])
    (['12.50', '0.25', '-', '0'], ['1,234,568', '0.02'])
    """
    known = [abs(float(v)) for v in values if v is not None and math.isfinite(v)]
    largest = max(known, default=0.0)
    decimals = 3 - math.floor(math.log10(largest)) if largest else 0
    plain = [v.is_integer() or v <= nothing for v in known]
    decimals = 0 if all(plain) else max(0, min(decimals, 6))
    return [_amount(value, decimals, nothing) for value in values]


def amount(value: float | None, *, nothing: float = 0.0) -> str:
    """One amount of money, in a sentence.

    >>> amount(0.25), amount(2.0), amount(1234567.8), amount(None)
    ('0.25', '2', '1,234,568', '-')
    """
    (text,) = amounts([value], nothing=nothing)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def _amount(value: float | None, decimals: int, nothing: float) -> str:
    if value is None:
        return "-"
    if abs(value) <= nothing:
        return "0"
    if math.isinf(value) or abs(value) >= 1e15:
        return f"{value:.4g}"
    near = math.isclose(round(value, decimals), value, rel_tol=0.05)
    return f"{value:,.{decimals}f}" if near else f"{value:.2g}"


def counts(values: Sequence[float], decimals: int = 2) -> list[str]:
    """Numbers of clients for one column: whole, or all with decimals if there are fractions.

    >>> counts([1200.0, 3.0]), counts([2.4545, 3.0])
    (['1,200', '3'], ['2.45', '3.00'])
    """
    whole = all(abs(value - round(value)) < 0.5 * 0.1**decimals for value in values)
    return [f"{value:,.{0 if whole else decimals}f}" for value in values]


def break_name(name: str, width: int) -> str:
    r"""A name in lines of at most `width` cells, broken after punctuation where it can be.

    A cell is the room of one letter on a terminal; a Chinese character takes two.

    >>> break_name("allocator.kind=round_robin", 16)
    'allocator.kind=\nround_robin'
    """
    return "\n".join(line.rstrip() for line in _lines(" ".join(name.split()), width, _WEAKER))


# Where to break, best place first; in the end, anywhere.
_WEAKER = (r"[\s,;]", r"[=:]", r"[./]", r"[_+-]", r"")


def _lines(text: str, width: int, marks: tuple[str, ...]) -> list[str]:
    if cell_len(text.rstrip()) <= width:
        return [text]
    if not marks[0]:
        return chop_cells(text, width)
    lines = [""]
    for piece in re.split(rf"(?<={marks[0]})", text):
        if cell_len((lines[-1] + piece).rstrip()) <= width:
            lines[-1] += piece
        else:
            lines += _lines(piece, width, marks[1:])
    return lines if lines[0] else lines[1:]


def escape_markdown(name: str) -> str:
    """A name as it may stand in Markdown; control characters are shown."""
    return re.sub(r"([\\|*<>`\[\]])", r"\\\1", printable(" ".join(name.split())))


def thin(budgets: Sequence[float], most: int) -> list[float]:
    """At most `most` of the budgets: the round ones, if there are some, else at equal steps.

    >>> thin(range(1, 61), 12)
    [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60]
    """
    if len(budgets) <= most:
        return list(budgets)
    unit = 10.0 ** math.floor(math.log10(budgets[-1] / most))
    for step in (unit, 2 * unit, 5 * unit, 10 * unit, 20 * unit):
        multiples = [b for b in budgets if math.isclose(b / step, round(b / step))]
        if 0.7 * most <= len(multiples) <= most:
            return multiples
    last = len(budgets) - 1
    return [budgets[round(place * last / (most - 1))] for place in range(most)]
