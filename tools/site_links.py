"""A hook of MkDocs: a link that leaves docs/ becomes the path of that file in the repository.

In the repository such links can be followed. The site has no copy of those files, so it shows where
they are. A link to a file that does not exist fails the build.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

__all__ = ["name_repository_file", "on_page_markdown"]

HOUSE = Path(__file__).parents[1]
DOCS = HOUSE / "docs"


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """What MkDocs calls with the text of each page."""
    folder = (DOCS / page.file.src_uri).parent
    return re.sub(
        r"(?<!!)\[([^\]]*)\]\((\.\./[^)\s#]*)(#[^)\s]*)?\)",
        lambda link: name_repository_file(link[0], link[1], link[2], folder),
        markdown,
    )


def name_repository_file(link: str, text: str, target: str, folder: Path) -> str:
    """A link as it is if it stays in docs/, else its text and the path in the repository."""
    path = (folder / target).resolve()
    if path.is_relative_to(DOCS):
        return link
    if not path.exists():
        raise FileNotFoundError(
            f"{folder.relative_to(HOUSE)}: no file {target}, linked as {text!r}"
        )
    shown = path.relative_to(HOUSE).as_posix()
    return text if text.strip("`") == shown else f"{text} (`{shown}`)"
