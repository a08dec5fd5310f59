"""Reading pages of a report: elements, numbers, texts."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import numpy as np

VOID = {"meta", "link", "img", "br", "input"}


@dataclass
class Element:
    """An element, with what is inside it: elements and texts."""

    tag: str
    attributes: dict[str, str]
    inside: list[Element | str] = field(default_factory=list)

    def find_all(self, *tags: str) -> list[Element]:
        """All elements with one of these tags inside it."""
        found = []
        for one in self.inside:
            if isinstance(one, Element):
                found += [one] if one.tag in tags else []
                found += one.find_all(*tags)
        return found

    def text(self, *without: str) -> str:
        """All text inside it, without that of some elements."""
        return "".join(
            one if isinstance(one, str) else "" if one.tag in without else one.text(*without)
            for one in self.inside
        )


class Page(HTMLParser):
    """A page as a tree; every element that is opened must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("document", {})
        self._open = [self.root]
        self.feed(text)
        self.close()
        assert self._open == [self.root], [one.tag for one in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].inside.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].inside.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, (self._open[-1].tag, tag)
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].inside.append(data)

    @property
    def content(self) -> Any:
        """The data in the page."""
        (found,) = [s for s in self.root.find_all("script") if s.attributes.get("id") == "content"]
        return json.loads(found.text())


def decode_png(uri: str) -> tuple[np.ndarray, list[str]]:
    """The numbers of the colours of an image, and the colours from number 1 on."""
    data = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, chunks = 8, {}
    while place < len(data):
        (length,) = struct.unpack_from(">I", data, place)
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        (crc,) = struct.unpack_from(">I", data, place + 8 + length)
        assert crc == zlib.crc32(kind + body)
        chunks[kind] = body
        place += 12 + length
    width, height = struct.unpack_from(">II", chunks[b"IHDR"])
    pixels = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    palette = chunks[b"PLTE"]
    colours = [f"#{palette[k : k + 3].hex().upper()}" for k in range(3, len(palette), 3)]
    return pixels[:, 1:], colours
