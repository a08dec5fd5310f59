"""Files and folders: what is no file is not read, and what is made outlasts a power cut."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mmfl.system.calls import intercept
from mmfl.system.files import make_folders, open_file, read_file, read_text


def test_a_file_is_read_as_it_is_and_as_text_without_its_mark():
    Path("a.txt").write_bytes("\ufeffäb\r\nc\rd".encode())
    assert read_file("a.txt") == "\ufeffäb\r\nc\rd".encode()
    assert read_text("a.txt") == "äb\nc\nd"
    Path("link").symlink_to("a.txt")
    assert read_file("link") == read_file("a.txt")


@pytest.mark.parametrize("pipes", [True, False])
def test_what_is_no_file_is_an_error_that_says_so(pipes, tmp_path):
    Path("loop").symlink_to("loop")
    for path, said in {
        "none": "No such file or directory",
        str(tmp_path): "Is a directory",
        "/dev/zero": "it is a device, not a file",
        "loop": "Too many levels of symbolic links",
        "a\x00b": "its name contains a zero byte",
    }.items():
        with pytest.raises(OSError) as caught:
            open_file(path, pipes=pipes)
        assert caught.value.strerror == said


def test_a_pipe_without_a_writer_is_refused_at_once():
    os.mkfifo("pipe")
    with pytest.raises(OSError) as caught:
        open_file("pipe")
    assert caught.value.strerror == "it is a pipe, not a file"


def test_a_pipe_is_read_where_that_is_asked_for():
    os.mkfifo("pipe")
    writer = subprocess.Popen([sys.executable, "-c", "open('pipe', 'w').write('a,b\\n1,2\\n')"])
    assert read_file("pipe", pipes=True) == b"a,b\n1,2\n"
    assert writer.wait() == 0


def test_a_pipe_whose_writer_is_quick_is_not_missed():
    os.mkfifo("pipe")
    seen = []

    def often():
        for _ in range(200):
            writer = threading.Thread(target=Path("pipe").write_bytes, args=(b"x",), daemon=True)
            writer.start()
            seen.append(read_file("pipe", pipes=True))
            writer.join()

    reader = threading.Thread(target=often, daemon=True)
    reader.start()
    reader.join(60)
    assert seen == [b"x"] * 200


def test_folders_that_are_made_are_synced_where_their_names_are(tmp_path):
    synced = []

    def look(name, function, args, options):
        if name == "open":
            synced.append(Path(args[0]))
        return function(*args, **options)

    with intercept(look):
        make_folders(tmp_path / "a/b/c")
        assert (tmp_path / "a/b/c").is_dir()
        assert sorted(synced) == [tmp_path, tmp_path / "a", tmp_path / "a/b"]
        synced.clear()
        make_folders(tmp_path / "a/b/c")
        assert synced == [tmp_path / "a/b"]
