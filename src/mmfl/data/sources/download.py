"""Download one file over HTTP: in pieces, resumed if interrupted, checked before it gets its name.

What has arrived is in ``<file>.part``, which survives a lost connection, Ctrl-C and a kill. The
next attempt asks for the rest of it (RFC 9110, Range). Only a file with the right SHA-256 is
renamed; bytes that turn out wrong are deleted. A file whose hash is not known is never resumed,
because nothing would tell whether both halves are of the same file.
"""

from __future__ import annotations

import http.client
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mmfl import __version__
from mmfl.data.sources.catalogue import RemoteFile
from mmfl.errors import FetchError
from mmfl.system.files import hash_file

__all__ = ["Patience", "Received", "download"]

_CHUNK = 1 << 18
_PROGRESS = 1 << 20  # after this many more bytes, earlier failures are forgotten


@dataclass(frozen=True)
class Received:
    """How much of a file has arrived.

    Attributes:
        file: Its name.
        done: Bytes.
        total: Bytes in all; None = the server does not say.
    """

    file: str
    done: int
    total: int | None


@dataclass(frozen=True)
class Patience:
    """How long to try.

    Attributes:
        tries: Failures in a row after which a file is given up.
        wait: Seconds to wait after the first failure; after each further one twice as long.
        timeout: Seconds of silence after which a server counts as gone.
    """

    tries: int = 4
    wait: float = 1.0
    timeout: float = 15.0


class _RefusedError(Exception):
    """This address does not have the file."""


class _BrokenError(Exception):
    """The connection was lost; what has arrived is good."""


class _WrongError(Exception):
    """What has arrived is not the file."""


def download(file: RemoteFile, target: Path, *, patience: Patience) -> Iterator[Received]:
    """Fetch a file to `target` from the first of its addresses that has it; `FetchError` if none.

    A target that exists and is correct is kept.
    """
    if target.exists():
        if file.sha256 is not None and hash_file(target) == file.sha256:
            return
        target.unlink()
    part = target.with_name(target.name + ".part")
    addresses = _Addresses(list(file.addresses))
    while addresses.left:
        address, before = addresses.left[0], _size(part)
        try:
            if before == 0 or before != file.size:
                yield from _attempt(file, address, part, patience.timeout)
            _check(file, part)
            part.replace(target)
            return
        except _WrongError as error:
            part.unlink(missing_ok=True)
            if not before:  # else perhaps only the older piece was wrong: once more from the start
                addresses.drop(f"{_host(address)} sent a different file: {error}; it was deleted")
        except _RefusedError as error:
            addresses.drop(str(error))
        except _BrokenError as error:
            if not addresses.retry(str(error), patience, progress=_size(part) - before):
                break
    said = addresses.said
    if len(file.addresses) > 1:
        said += f", the last of {len(file.addresses)} addresses"
    if _size(part):
        said += f"; {_size(part):,} bytes are kept; run the same command again to resume"
    raise FetchError(f"cannot fetch {file.name}: {said}")


@dataclass
class _Addresses:
    """The addresses of a file that are worth another try, and why the last try failed."""

    left: list[str]
    said: str = "no address is known"
    failures: int = 0

    def drop(self, why: str) -> None:
        """Never try the first one again."""
        self.said = why
        self.left.pop(0)

    def retry(self, why: str, patience: Patience, *, progress: int) -> bool:
        """Wait, and try the first one again after all others; False if patience is exhausted.

        Args:
            why: Its connection was lost.
            patience: How often to try again, and how long to wait.
            progress: How many bytes arrived before that.
        """
        self.said = why
        self.failures = 1 if progress >= _PROGRESS else self.failures + 1
        if self.failures >= patience.tries:
            return False
        self.left.append(self.left.pop(0))
        time.sleep(patience.wait * 2 ** (self.failures - 1))
        return True


def _attempt(file: RemoteFile, address: str, part: Path, timeout: float) -> Iterator[Received]:
    """One request, from where `part` ends."""
    have = _size(part) if file.sha256 is not None else 0
    headers = {"User-Agent": f"mmfl/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        reply = urllib.request.urlopen(
            urllib.request.Request(address, headers=headers), timeout=timeout
        )
    except urllib.error.HTTPError as error:
        error.close()
        raise _refusal(address, error.code, error.reason, have) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _unreachable(address, error) from None
    with reply:
        if have and reply.status == http.HTTPStatus.PARTIAL_CONTENT:
            total = _total_of_rest(reply.headers.get("Content-Range", ""), have)
        else:  # the whole file, whatever was asked for
            have, total = 0, _number(reply.headers.get("Content-Length"))
        if file.size is not None and total not in (None, file.size):
            raise _WrongError(f"{total:,} bytes instead of {file.size:,}")
        yield from _receive(file, address, reply, part, have, total)


def _receive(
    file: RemoteFile, address: str, reply: Any, part: Path, have: int, total: int | None
) -> Iterator[Received]:
    expected = file.size if total is None else total
    with part.open("ab" if have else "wb") as out:
        while True:
            yield Received(file.name, have, expected)
            try:
                chunk = reply.read(_CHUNK)
            except (OSError, http.client.HTTPException) as error:
                raise _BrokenError(_broke_off(address, have, expected, error)) from None
            if not chunk:
                break
            have += len(chunk)
            if expected is not None and have > expected:
                raise _WrongError(f"more than {expected:,} bytes")
            out.write(chunk)
            out.flush()
    if expected is not None and have < expected:
        raise _BrokenError(_broke_off(address, have, expected, None))


def _check(file: RemoteFile, part: Path) -> None:
    if file.size is not None and _size(part) != file.size:
        raise _WrongError(f"{_size(part):,} bytes instead of {file.size:,}")
    found = hash_file(part)
    if file.sha256 not in (None, found):
        raise _WrongError(f"sha256 {found} instead of {file.sha256}")


def _refusal(address: str, code: int, reason: str, have: int) -> Exception:
    said = f"{address} answered {code} {reason}".rstrip()
    if code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have:
        return _WrongError(f"the server does not have byte {have:,}")
    if code >= 500 or code in (408, 425, 429):
        return _BrokenError(said)
    return _RefusedError(said)


def _unreachable(address: str, error: Exception) -> Exception:
    reason = getattr(error, "reason", error)
    words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    said = f"{_host(address)} cannot be reached ({words})"
    # A host that is unknown now will still be unknown in a second.
    final = isinstance(reason, socket.gaierror) or isinstance(error, ValueError)
    return _RefusedError(said) if final else _BrokenError(said)


def _broke_off(address: str, have: int, expected: int | None, error: Exception | None) -> str:
    of = "" if expected is None else f" of {expected:,}"
    why = f" ({getattr(error, 'strerror', None) or str(error) or error!r})" if error else ""
    return f"{_host(address)} closed the connection after {have:,}{of} bytes{why}"


def _total_of_rest(content_range: str, have: int) -> int | None:
    """The whole file's size from the head of an answer that must begin at byte `have`."""
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", content_range.strip())
    if found is None or int(found[1]) != have:
        raise _WrongError(f"the answer is {content_range!r}, not the bytes from {have:,}")
    return _number(found[2])


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _host(address: str) -> str:
    return urlsplit(address).netloc or address


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
