"""A full disk, an ASCII locale, long names: one sentence, never a traceback."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from mmfl.cli import main
from mmfl.cli.shared.streams import _Watched
from support.experiments import LEAST_INLINE

EXPERIMENT = LEAST_INLINE
FULL = Path("/dev/full")
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
LONG = "x" * 300


@pytest.fixture(autouse=True)
def _files() -> None:
    Path("e.toml").write_text(EXPERIMENT)
    Path("ü.toml").write_text(EXPERIMENT.replace('name = "a"', 'name = "ä"'))
    Path("bids.csv").write_text("client,ä,b\nanna,0.25,0.4\nbert,,0.3\n")


def mmfl(*arguments: str, **surroundings: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "mmfl", *arguments]
    return subprocess.run(command, capture_output=True, env=os.environ | surroundings)


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a full device")
@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "--version",
        "run --help",
        "schema",
        "check e.toml",
        "run e.toml",
        "run e.toml --json -q",
        "compare e.toml --seeds 0 --jobs 1",
        "compare e.toml --seeds 0 --jobs 1 --json -q",
        "plan e.toml --draws 1",
        "plan e.toml --draws 1 --json",
        "data list",
        "data list --json",
        "data verify letters",
        "auction run bids.csv -b 1",
        "auction run bids.csv -b 1 --json",
        "auction compare bids.csv -b 1",
        "auction check bids.csv -b 1 --tries 32",
    ],
)
def test_a_full_disk_behind_the_output_is_one_sentence(command, monkeypatch, capsys):
    with FULL.open("wb") as file:
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(file, encoding="utf-8"))
        monkeypatch.setattr("sys.argv", ["mmfl", *command.split()])
        with pytest.raises(SystemExit) as ended:
            main()
        sys.stdout.detach()
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert err == "mmfl: cannot write the output: No space left on device\n"


@pytest.mark.cold
@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a full device")
def test_nothing_more_is_said_when_python_ends():
    command = [sys.executable, "-m", "mmfl", "--help"]
    with FULL.open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE)
        silent = subprocess.run([*command, "--nothing"], stdout=full, stderr=full)
    assert done.returncode == silent.returncode == 2
    assert done.stderr == b"mmfl: cannot write the output: No space left on device\n"


def test_letters_that_the_locale_does_not_have_are_escaped():
    done = mmfl("auction", "run", "bids.csv", "-b", "1", **ASCII)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\n\\xe4 " in done.stdout


@pytest.mark.parametrize("command", [("check",), ("run", "--json")])
def test_a_task_that_cannot_name_a_file_is_refused_before_training(command):
    done = mmfl(command[0], "ü.toml", *command[1:], **ASCII)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().endswith(
        "task 'ä' cannot be used as a file name here, because the locale's encoding is ascii; set "
        "PYTHONUTF8=1, or rename the task\n"
    )
    assert done.stderr.count(b"\n") == 1
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("run", "e.toml", "--out", LONG),
        ("run", "e.toml", "--out", LONG, "--resume"),
        ("compare", "e.toml", "--seeds", "0", "--out", LONG),
        ("compare", "e.toml", "--seeds", "0", "--out", "/".join(["x" * 200] * 30)),
        ("plan", "e.toml", "--run", LONG),
        ("status", LONG),
        ("check", LONG),
        ("check", "e.toml", "--set", f'tasks.a.dataset={{kind="npz", path="{LONG}"}}'),
        ("data", "list", "--data-dir", LONG),
        ("data", "fetch", "mnist", "--data-dir", LONG),
        ("auction", "run", LONG, "-b", "1"),
        ("auction", "run", "bids.csv", "-b", "1", "--out", LONG),
        ("auction", "compare", "bids.csv", "-b", "1", "--out", LONG),
    ],
    ids=lambda command: "_".join(word for word in command if len(word) < 20),
)
def test_a_long_name_is_one_sentence(call, command):
    before = sorted(Path().iterdir())
    code, out, err = call(*command)
    assert (code, out) == (2, "")
    assert err.startswith("mmfl: ")
    assert err.count("\n") == 1
    assert sorted(Path().iterdir()) == before


def test_text_that_is_not_utf8_is_refused(call):
    code, _, err = call("check", "e.toml", "--set", "tasks.a.warm_start=\udcff")
    assert (code, err) == (
        2,
        "mmfl: --set: 'tasks.a.warm_start=\\udcff' is not UTF-8 text\n",
    )


def test_what_is_typed_is_utf8_whatever_the_locale():
    done = mmfl("check", "e.toml", "--set", "tasks.a.metric=ä", **ASCII)
    assert "unknown metric 'ä'; known: accuracy" in done.stderr.decode()


def test_a_folder_with_any_name_holds_a_run(call):
    code, out, err = call("run", "e.toml", "--out", "here\udcff")
    assert (code, err) == (0, "")
    assert "stored in here\\udcff" in out
    assert call("status", "here\udcff")[0] == 0


@pytest.mark.slow
def test_a_notebooks_backend_is_no_obstacle():
    pytest.importorskip("matplotlib")
    command = ("auction", "run", "bids.csv", "-b", "1", "--figure", "it.png")
    done = mmfl(*command, MPLBACKEND="module://matplotlib_inline.backend_inline")
    assert (done.returncode, done.stderr) == (0, b"")
    assert Path("it.png").read_bytes().startswith(b"\x89PNG")


OWN = """
from dataclasses import dataclass
@dataclass(frozen=True)
class Tiny:
    def build(self, shape, outputs):
        from torch import nn
        return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], outputs))
"""


def test_modules_are_found_in_a_folder_with_any_name(tmp_path):
    odd = tmp_path / 'C:\\a;b:"c'
    odd.mkdir()
    (odd / "mine.py").write_text(OWN)
    text = EXPERIMENT.replace('"inline"', '"local"\nworkers = 1')
    (odd / "e.toml").write_text(f'{text}model = {{ kind = "mine:Tiny" }}\n')
    command = [sys.executable, "-m", "mmfl", "run", "e.toml", "--allow-imports", "-q"]
    done = subprocess.run(command, cwd=odd, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_tables_are_stored_before_a_reader_that_is_gone_ends_the_command(small_toml):
    Path("fair.toml").write_text(small_toml)
    command = [
        sys.executable,
        "-m",
        "mmfl",
        "compare",
        "fair.toml",
        "--set",
        "rounds=1",
        "--seeds",
        "0",
        "--out",
        "out",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # that the run is done
        process.stdout.close()
    assert Path("out/comparison.json").read_text().startswith("{")


def test_a_reader_that_is_slow_is_waited_for_where_writes_do_not_block():
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    text = bytes(300_000)
    heard = bytearray()

    def hear() -> None:
        while len(heard) < len(text):
            heard.extend(os.read(ours, 1 << 16))

    reader = Thread(target=hear)
    with _Watched(theirs, "w") as file:
        sent = file.write(text)
        assert sent < len(text)  # the pipe is full now
        reader.start()
        left = memoryview(text)[sent:]
        while left:
            count = file.write(left)
            assert count > 0, "a writer that gets 0 would spin"
            left = left[count:]
        reader.join()
    os.close(ours)
    assert len(heard) == len(text)
