"""``mmfl dashboard``: what it refuses, and that it starts, says where it is, and ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'mmfl[dashboard]'")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'mmfl[dashboard]'")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "'nowhere' does not exist; name a folder with runs"),
        (["file"], "'file' is a file, not a folder"),
        (["--host", "0.0.0.0"], "--host 0.0.0.0 lets other machines in, so --token is needed"),
        (["--token", "short"], "--token must have at least 12"),
        (["--host", "not.a.host.invalid", "--token", "x" * 20], "--host: cannot listen at not.a.h"),
        (["--port", "70000"], "70000 is not in the range"),
    ],
)
def test_a_mistake_is_one_sentence(call, tmp_path, monkeypatch, words, said):
    Path("file").write_text("x")
    code, out, err = call("dashboard", *words)
    assert code == 2
    assert said in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err
    assert out == ""


def test_a_port_that_is_taken_is_one_sentence(call):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, err = call("dashboard", "--port", port)
    assert code == 2
    assert f"cannot listen at 127.0.0.1, port {port}: Address already in use" in err


def test_a_missing_extra_is_named(call, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("mmfl.dashboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.setitem(sys.modules, "starlette.datastructures", None)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, err = call("dashboard")
    assert code == 2
    assert "pip install 'mmfl[dashboard]'" in err


@pytest.mark.cold
@pytest.mark.parametrize("token", [None, "a token from outside"])
def test_it_says_where_it_is_and_ends_with_ctrl_c(tmp_path, token):
    (tmp_path / "runs").mkdir()
    environment = os.environ | ({} if token is None else {"MMFL_DASHBOARD_TOKEN": token})
    process = subprocess.Popen(
        [sys.executable, "-m", "mmfl", "dashboard", "--port", "0"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        line = process.stdout.readline()
        address = re.search(r"dashboard of runs: (http://127\.0\.0\.1:\d+/)(\?token=\S+)?$", line)
        assert (address[2] is None) == (token is not None)
        with urllib.request.urlopen(address[1]) as page:
            assert b"No runs yet" in page.read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "the dashboard has ended" in out
    assert err == ""
    assert token is None or token not in line + out
