"""Downloads from a server on this machine that breaks off, forgets, lies and recovers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mmfl.data.sources.catalogue import RemoteFile
from mmfl.data.sources.download import Patience, Received, download
from mmfl.errors import FetchError
from support.helpers import one_line
from support.publisher import BIG, FILES, Publisher, remote, serving

SOON = Patience(tries=3, wait=0, timeout=10)
WHOLE = FILES[BIG]
SIZE = len(WHOLE)


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    with serving() as publisher:
        yield publisher


def get(file: RemoteFile, folder: Path) -> list[Received]:
    return list(download(file, folder / file.name, patience=SOON))


def refused(file: RemoteFile, folder: Path) -> str:
    message = one_line(FetchError, lambda: get(file, folder))
    assert not (folder / file.name).exists()
    return message


def part(folder: Path) -> Path:
    return folder / f"{BIG}.part"


def arrived(folder: Path) -> None:
    assert (folder / BIG).read_bytes() == WHOLE
    assert [path.name for path in folder.iterdir()] == [BIG]


def test_a_whole_file_in_one_go(publisher: Publisher, tmp_path: Path) -> None:
    news = get(remote(BIG, publisher.address), tmp_path)
    assert news[0] == Received(BIG, 0, SIZE)
    assert news[-1] == Received(BIG, SIZE, SIZE)
    assert [one.done for one in news] == sorted(one.done for one in news)
    assert publisher.asked == [(BIG, None)]
    arrived(tmp_path)


def test_what_is_there_and_right_is_not_fetched_again(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / BIG).write_bytes(WHOLE)
    assert get(remote(BIG, publisher.address), tmp_path) == []
    assert publisher.asked == []
    (tmp_path / BIG).write_bytes(WHOLE[:-1] + b"?")
    get(remote(BIG, publisher.address), tmp_path)
    arrived(tmp_path)


def test_a_broken_line_goes_on_where_it_broke_off(publisher: Publisher, tmp_path: Path) -> None:
    publisher.cuts = [1000, 500]
    get(remote(BIG, publisher.address), tmp_path)
    assert publisher.asked == [(BIG, None), (BIG, "bytes=1000-"), (BIG, "bytes=1500-")]
    arrived(tmp_path)


def test_a_later_process_goes_on_too(publisher: Publisher, tmp_path: Path) -> None:
    publisher.cuts = [1000, 0, 0]
    message = refused(remote(BIG, publisher.address), tmp_path)
    assert message == (
        f"cannot fetch {BIG}: {publisher.address[7:-1]} closed the connection after 1,000 of "
        f"{SIZE:,} bytes; 1,000 bytes are kept; run the same command again to resume"
    )
    assert part(tmp_path).read_bytes() == WHOLE[:1000]
    get(remote(BIG, publisher.address), tmp_path)
    assert publisher.asked[-1] == (BIG, "bytes=1000-")
    arrived(tmp_path)


def test_a_finished_part_needs_no_request(publisher: Publisher, tmp_path: Path) -> None:
    part(tmp_path).write_bytes(WHOLE)
    get(remote(BIG, publisher.address), tmp_path)
    assert publisher.asked == []
    arrived(tmp_path)


def test_stopping_in_the_middle_keeps_what_has_arrived(
    publisher: Publisher, tmp_path: Path
) -> None:
    news = download(remote(BIG, publisher.address), tmp_path / BIG, patience=SOON)
    while next(news).done == 0:
        pass
    news.close()
    kept = part(tmp_path).read_bytes()
    assert kept
    assert WHOLE.startswith(kept)


def test_a_server_that_cannot_resume_sends_all_again(publisher: Publisher, tmp_path: Path) -> None:
    publisher.ranges, publisher.cuts = False, [1000]
    get(remote(BIG, publisher.address), tmp_path)
    assert publisher.asked == [(BIG, None), (BIG, "bytes=1000-")]
    arrived(tmp_path)


@pytest.mark.parametrize("ranges", [True, False])
def test_an_older_part_of_another_file_is_thrown_away(
    publisher: Publisher, tmp_path: Path, ranges: bool
) -> None:
    publisher.ranges = ranges
    for old in (b"x" * 1000, b"x" * SIZE, b"x" * (SIZE + 5)):
        part(tmp_path).write_bytes(old)
        get(remote(BIG, publisher.address), tmp_path)
        arrived(tmp_path)
        (tmp_path / BIG).unlink()


@pytest.mark.parametrize("claim", ["bytes 0-99/100", "bytes 7-8/*", "nonsense"])
def test_a_server_that_resumes_elsewhere_is_asked_anew(
    publisher: Publisher, tmp_path: Path, claim: str
) -> None:
    part(tmp_path).write_bytes(WHOLE[:1000])
    publisher.odd_range = claim
    get(remote(BIG, publisher.address), tmp_path)
    assert publisher.asked == [(BIG, "bytes=1000-"), (BIG, None)]
    arrived(tmp_path)


def test_a_file_without_a_known_hash_is_never_resumed(publisher: Publisher, tmp_path: Path) -> None:
    part(tmp_path).write_bytes(b"x" * 1000)
    get(replace(remote(BIG, publisher.address), sha256=None), tmp_path)
    assert publisher.asked == [(BIG, None)]
    arrived(tmp_path)


def test_a_wrong_hash_deletes_the_part(publisher: Publisher, tmp_path: Path) -> None:
    publisher.files[BIG] = WHOLE[:-1] + bytes([WHOLE[-1] ^ 1])
    message = refused(remote(BIG, publisher.address), tmp_path)
    assert "sent a different file: sha256 " in message
    assert message.endswith("; it was deleted")
    assert list(tmp_path.iterdir()) == []
    assert len(publisher.asked) == 1


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("content", [WHOLE + b"more", WHOLE[:500]])
def test_a_file_of_another_size_is_refused(
    publisher: Publisher, tmp_path: Path, content: bytes, silent: bool
) -> None:
    publisher.files[BIG], publisher.silent = content, silent
    message = refused(remote(BIG, publisher.address), tmp_path)
    if silent and len(content) < SIZE:  # looks like a broken line
        assert f"closed the connection after 500 of {SIZE:,} bytes" in message
    else:
        said = f"more than {SIZE:,} bytes" if silent else f"bytes instead of {SIZE:,}"
        assert said in message
        assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_tell_the_size_is_fine(publisher: Publisher, tmp_path: Path) -> None:
    publisher.silent = True
    file = replace(remote(BIG, publisher.address), size=None)
    assert get(file, tmp_path)[-1] == Received(BIG, SIZE, None)
    arrived(tmp_path)


@pytest.mark.parametrize("code", [403, 404, 410])
def test_a_refusal_is_not_asked_again(publisher: Publisher, tmp_path: Path, code: int) -> None:
    publisher.codes = [code]
    message = refused(remote(BIG, publisher.address), tmp_path)
    assert message.startswith(f"cannot fetch {BIG}: {publisher.address}{BIG} answered {code} ")
    assert len(publisher.asked) == 1


@pytest.mark.parametrize("code", [408, 429, 500, 503])
def test_a_server_in_trouble_is_asked_again(
    publisher: Publisher, tmp_path: Path, code: int
) -> None:
    publisher.codes = [code, code]
    get(remote(BIG, publisher.address), tmp_path)
    arrived(tmp_path)
    (tmp_path / BIG).unlink()
    publisher.codes = [code] * 3
    assert f" answered {code} " in refused(remote(BIG, publisher.address), tmp_path)


def test_the_next_address_is_tried(publisher: Publisher, tmp_path: Path) -> None:
    other = f"{publisher.address}nothing-here.gz"
    file = remote(BIG, publisher.address)
    get(replace(file, addresses=(other, *file.addresses)), tmp_path)
    arrived(tmp_path)
    (tmp_path / BIG).unlink()
    message = refused(replace(file, addresses=(other, other)), tmp_path)
    assert message.endswith("answered 404 Not Found, the last of 2 addresses")


def test_nobody_there_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{unused.getsockname()[1]}"
        message = refused(remote(BIG, f"http://{host}/"), tmp_path)
    assert message == f"cannot fetch {BIG}: {host} cannot be reached (Connection refused)"
    for odd in ("http://127.0.0.1:port/", "nothing:"):
        assert "cannot be reached" in refused(remote(BIG, odd), tmp_path)


def test_a_silent_server_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        short = Patience(tries=1, wait=0, timeout=0.05)
        file = remote(BIG, f"http://{host}/")
        message = one_line(FetchError, lambda: list(download(file, tmp_path / BIG, patience=short)))
    assert message == f"cannot fetch {BIG}: {host} cannot be reached (timed out)"
