"""Is an outcome what mmfl promises: valid, or one sentence that says where the mistake is?"""

from __future__ import annotations

import re

from chaos.mutated_inputs import Case
from chaos.sandbox import Outcome

__all__ = ["GOOD", "verdict"]

GOOD = ("valid", "refused")
"""The verdicts that are not failures."""

_UNREADABLE = "cannot read "
_PLACE = re.compile(r"\b(line|row) \d+\b|\(at end of document\)")


def verdict(case: Case, found: Outcome) -> str:
    """The verdict on an outcome: one of `GOOD`, or what is wrong with it."""
    lines = found.err.splitlines()
    if found.slow:
        return "too slow"
    if "Traceback (most recent call last)" in found.err:
        return "traceback"
    if found.left:
        return "left files behind"
    if found.code == 0:
        if not found.out.strip():
            return "nothing was said"
        ours = all(line.startswith("mmfl: warning: ") for line in lines)
        if not ours or any(_foreign(line) for line in lines):
            return "complaints"
        return "valid"
    if found.code != 2:
        return f"signal {-found.code}" if found.code < 0 else f"exit code {found.code}"
    if found.out:
        return "partial output"
    if not lines:
        return "silent"
    if len(lines) > 1 and case.arguments[0] != "check":  # it lists every mistake, one per line
        return "several lines"
    if not all(line.startswith("mmfl: ") and line.isprintable() for line in lines):
        return "no sentence"
    if max(map(len, lines)) > 1000:
        return "no sentence"
    located = all(_located(case, line.removeprefix("mmfl: ")) for line in lines)
    return "refused" if located else "not located"


def _foreign(line: str) -> bool:
    """Whether a warning is not mmfl's own: those do not name a class."""
    return re.match(r"mmfl: warning: \w+Warning: ", line) is not None


def _located(case: Case, sentence: str) -> bool:
    """Whether a message names the file and, if that could be read, a line or a key of it.

    A key counts only where it is written as one: as a path at the beginning or with a dot, in
    quotes or brackets, or before "=". So the article "a" is not the key a.
    """
    if case.name not in sentence:
        return False
    rest = re.sub(rf"^{re.escape(case.name)}[:,] ", "", sentence)
    if sentence.startswith(_UNREADABLE) or _PLACE.search(rest):
        return True
    first = re.match(r"'.*?'(?= )|[^\s.:\[]+", rest)
    spelt = {first[0]} if first else set[str]()
    for way in (r"([\w-]+)\.\w", r"'(.*?)'", r"\[+([\w-]+)\]+", r"([\w-]+) = "):
        spelt |= set(re.findall(way, rest))
    quoted = {repr(key) for key in case.keys}
    long = [word for word in spelt if len(word) > 40]  # long keys are shortened
    cut = any(key.startswith(word) for word in long for key in quoted)
    return cut or bool(spelt & (case.keys | quoted))
