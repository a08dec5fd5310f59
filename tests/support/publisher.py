"""A web server on this machine that can be as bad as the real ones, and a small set to fetch."""

from __future__ import annotations

import gzip
import hashlib
import re
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import numpy.typing as npt

from mmfl.data import Arrays, content_hash
from mmfl.data.sources import Entry, formats
from mmfl.data.sources.catalogue import NpmPackage, Published, RemoteFile

RNG = np.random.default_rng(3)
PARTS = {
    "x_train": RNG.integers(256, size=(600, 28, 28), dtype=np.uint8),
    "y_train": np.arange(600, dtype=np.uint8) % 3,
    "x_test": RNG.integers(256, size=(40, 28, 28), dtype=np.uint8),
    "y_test": np.arange(40, dtype=np.uint8) % 3,
}


def idx_of(array: npt.NDArray[np.uint8]) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


IDX = {
    "train-images-idx3-ubyte": idx_of(PARTS["x_train"]),
    "train-labels-idx1-ubyte": idx_of(PARTS["y_train"]),
    "t10k-images-idx3-ubyte": idx_of(PARTS["x_test"]),
    "t10k-labels-idx1-ubyte": idx_of(PARTS["y_test"]),
}
FILES = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in IDX.items()}
BIG = "train-images-idx3-ubyte.gz"


@dataclass
class Publisher:
    """What the server has, how it behaves, and what it was asked.

    Attributes:
        address: Where it is, ending in a slash.
        files: By name.
        ranges: Whether it can send the rest of a file.
        cuts: After how many bytes it breaks off, one for each of the next answers.
        codes: What it answers instead, one for each of the next requests.
        silent: Whether it leaves out Content-Length.
        odd_range: What it claims to send as Content-Range.
        hold: After how many bytes it waits for `go`; None = it does not.
        go: Set at the end, or by a test.
        asked: (name, the Range header) of each request.
    """

    address: str = ""
    files: dict[str, bytes] = field(default_factory=lambda: dict(FILES))
    ranges: bool = True
    cuts: list[int] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    silent: bool = False
    odd_range: str = ""
    hold: int | None = None
    go: threading.Event = field(default_factory=threading.Event)
    asked: list[tuple[str, str | None]] = field(default_factory=list)


@contextmanager
def serving() -> Iterator[Publisher]:
    publisher = Publisher()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, wanted = self.path.rsplit("/", 1)[1], self.headers.get("Range")
            publisher.asked.append((name, wanted))
            content = publisher.files.get(name)
            if publisher.codes:
                return self.send_error(publisher.codes.pop(0))
            if content is None:
                return self.send_error(404)
            start, total = 0, len(content)
            if wanted and publisher.ranges:
                start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
                if start >= total:
                    return self.send_error(416)
                self.send_response(206)
                told = publisher.odd_range or f"bytes {start}-{total - 1}/{total}"
                self.send_header("Content-Range", told)
            else:
                self.send_response(200)
            if not publisher.silent:
                self.send_header("Content-Length", str(total - start))
            self.end_headers()
            body = content[start:]
            if publisher.hold is not None:
                self.wfile.write(body[: publisher.hold])
                self.wfile.flush()
                body = body[publisher.hold :]
                publisher.go.wait()
            with suppress(BrokenPipeError, ConnectionResetError):  # they hung up
                self.wfile.write(body[: publisher.cuts.pop(0)] if publisher.cuts else body)
            return None

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    publisher.address = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield publisher
    finally:
        publisher.go.set()
        server.shutdown()
        thread.join()
        server.server_close()


def remote(name: str, address: str) -> RemoteFile:
    content = FILES[name]
    return RemoteFile(name, (address + name,), len(content), hashlib.sha256(content).hexdigest())


def tiny(address: str, *, npm: bool = False) -> Entry:
    """A data set of four idx files at this address."""
    package = NpmPackage("tiny-data", "1.0.0", 1000, formats.idx_in_tar) if npm else None
    return Entry(
        name="tiny",
        train=600,
        test=40,
        shape=(28, 28),
        classes=3,
        licence="none stated",
        citation="nobody",
        content=content_hash(Arrays.check("tiny", PARTS)),
        published=Published(
            tuple(remote(name, address) for name in FILES), formats.idx_in_gz, package
        ),
    )


def with_content(entry: Entry, content: str | None) -> Entry:
    return replace(entry, content=content)
