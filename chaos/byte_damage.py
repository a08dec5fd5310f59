"""Damage the bytes of a file, regardless of what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mmfl.rng import Stream

__all__ = ["damage_bytes"]


def _one(choices: Sequence[Any], rng: Stream) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _flip(data: bytearray, rng: Stream) -> None:
    for _ in range(int(rng.integers(1, 4))):
        if data:
            data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))


def _cut(data: bytearray, rng: Stream) -> None:
    del data[int(rng.integers(len(data) + 1)) :]


def _insert(data: bytearray, rng: Stream) -> None:
    deep = int(rng.integers(1, 1 << int(rng.integers(1, 12))))
    junk: list[bytes] = [
        *(b"\x00", b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\r", b"\n", b'"', b"'''", b'"""'),
        *(b"=", b"[[", b"]]", b"#", b",", b"\\", b"\x1b[31m", b"\x7f", b"{", b"}", b"1e9999", b";"),
        bytes(rng.integers(256, size=12, dtype="uint8")),
        b"[" * int(rng.integers(1, 3000)),
        b"\nx = " + b"[" * deep + b"]" * deep + b"\n",
        b"\nx = " + b"{x=" * deep + b"1" + b"}" * deep + b"\n",
        b"9" * int(rng.integers(1, 6000)),
        b"a" * int(rng.integers(1, 200_000)),
        b"\xe2\x80\xa8",
        b"\xef\xbb\xbf",
    ]
    at = int(rng.integers(len(data) + 1))
    data[at:at] = _one(junk, rng)


def _lines(data: bytearray, rng: Stream) -> None:
    """Repeat, remove or move a line."""
    lines = bytes(data).split(b"\n")
    line = lines.pop(int(rng.integers(len(lines))))
    for _ in range(int(rng.integers(3))):
        lines.insert(int(rng.integers(len(lines) + 1)), line)
    data[:] = b"\n".join(lines)


def _encoded(data: bytearray, rng: Stream) -> None:
    """Change the encoding or the line ends, or add a byte-order mark."""
    text = bytes(data).decode("utf-8", "replace")
    made: list[bytes] = [
        *(text.encode("utf-16"), text.encode("utf-32"), text.encode("latin-1", "replace")),
        b"\xef\xbb\xbf" + bytes(data),
        bytes(data).replace(b"\n", b"\r\n"),
        bytes(data).replace(b"\n", b"\r"),
        bytes(data).replace(b" ", b"\xc2\xa0"),
        bytes(data).replace(b'"', "“".encode()),
        b"",
        b"\n\n\n",
    ]
    data[:] = _one(made, rng)


BYTES: dict[str, Callable[[bytearray, Stream], None]] = {
    "flip": _flip,
    "cut": _cut,
    "insert": _insert,
    "lines": _lines,
    "encoding": _encoded,
}


def damage_bytes(content: bytes, rng: Stream, share: float) -> tuple[bytes, list[str]]:
    """Damage the bytes in this share of the cases."""
    data, done = bytearray(content), []
    while rng.random() < share:
        name = _one(list(BYTES), rng)
        BYTES[name](data, rng)
        done.append(name)
    return bytes(data), done
