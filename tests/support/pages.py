"""The documentation as tests see it: its pages, and the code blocks on them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

HOUSE = Path(__file__).parents[2]
DOCS = sorted((HOUSE / "docs").rglob("*.md"))
"""All pages of the site."""

GENERATED = ("docs/reference/configuration.md", "docs/reference/command-line.md")


class Block(NamedTuple):
    """A fenced block of code; one with a title is a file of that name."""

    language: str
    title: str
    text: str


def blocks(page: str, language: str = "") -> list[Block]:
    """The code blocks of a page, in order; of one language, or of all."""
    text = (HOUSE / page).read_text(encoding="utf-8")
    found = re.findall(
        r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', text, flags=re.DOTALL | re.MULTILINE
    )
    return [Block(*one) for one in found if language in ("", one[0])]


def block(page: str, title: str) -> str:
    """The text of the block with this title."""
    (found,) = (one.text for one in blocks(page) if one.title == title)
    return found


def write_files(page: str, folder: Path) -> None:
    """Write the blocks that have a title into a folder."""
    for one in blocks(page):
        if one.title:
            (folder / one.title).write_text(one.text, encoding="utf-8")


def name(path: Path) -> str:
    """A page's path from the root of the repository."""
    return path.relative_to(HOUSE).as_posix()
