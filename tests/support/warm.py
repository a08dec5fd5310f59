"""Processes of ours that start in milliseconds, since they need not import torch again.

A Python process that imports torch takes seconds of a processor until it does anything, and the
tests start hundreds. So a *nursery* imports once all that mmfl imports, and forks at our request.
What it forks becomes a child of the process that asked, as if that had started it: the nursery
forks twice, and Linux gives an orphan to its nearest ancestor that asks for orphans.

`WarmPopen` takes `subprocess.Popen`'s place. It is warm for ``python -m mmfl``, for ``python
SCRIPT.py`` and for the processes that mmfl itself starts, unless something is asked for that acts
when an interpreter starts: then, and for every other command, it is `subprocess.Popen`. A test that
is marked with ``cold`` has none of this.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from mmfl.system import calls
from mmfl.system.child import _START, ONE_THREAD

__all__ = ["Nursery", "WarmPopen", "children"]

_REAL = subprocess.Popen
_PYTHON = sys.executable
_TAKE_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
_ACT_AT_START = ("PYTHON", "LC_", "LANG", "MPL", "ATEN_", "TORCH_", "KMP_", "LD_", "TZ")
_OF_SCIKIT_LEARN = ("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK")
"""What it sets when a test imports it; our processes work as well without."""
_TEND = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from support.warm import tend
tend(int(sys.argv[2]))
"""


class Nursery:
    """A process that has imported everything, seen from its parent."""

    def __init__(self, line: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self._line = line
        self.process = process

    @classmethod
    def cold(cls) -> Nursery:
        """One that starts from nothing."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = _REAL(
                [_PYTHON, "-P", "-c", _TEND, json.dumps(sys.path), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD},
            )
        return cls(ours, process)

    def end(self) -> None:
        """Let it end; what it started goes on."""
        self._line.close()
        if self.process:
            self.process.wait()

    def start(self, order: dict[str, Any], files: list[int]) -> int:
        """Have it start a process; its number."""
        prctl = ctypes.CDLL(None).prctl
        prctl(_TAKE_ORPHANS, 1, 0, 0, 0)
        try:
            socket.send_fds(self._line, [json.dumps(order).encode()], files)
            return int(self._line.recv(100))
        finally:
            prctl(_TAKE_ORPHANS, 0, 0, 0, 0)


class WarmPopen(_REAL):  # type: ignore[type-arg, misc]
    """`subprocess.Popen`, which forks a warm process instead of starting a cold one."""

    nursery: Nursery | None = None

    def _execute_child(self, args: Any, *rest: Any) -> None:
        names = _REAL._execute_child.__code__.co_varnames[2 : 2 + len(rest)]
        given = dict(zip(names, rest, strict=True))
        environment = dict(os.environ if given["env"] is None else given["env"])
        words = [] if isinstance(args, str | bytes) else [os.fsdecode(word) for word in args]
        if not _is_warm(words, given, environment):
            super()._execute_child(args, *rest)
            return
        assert WarmPopen.nursery
        standard = [given["p2cread"], given["c2pwrite"], given["errwrite"]]
        standard = [own if own != -1 else number for number, own in enumerate(standard)]
        passed = sorted(given["pass_fds"])
        order = {
            "words": words,
            "environment": environment,
            "folder": os.fsdecode(given["cwd"] or os.getcwd()),
            "numbers": [0, 1, 2, *passed],
            "parent": os.getpid(),
            "session": given["start_new_session"],
            "group": given["process_group"],
        }
        try:
            self.pid = WarmPopen.nursery.start(order, [*standard, *passed])
            self._child_created = True
        finally:
            pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            self._close_pipe_fds(*(given[name] for name in pipes))


def children() -> list[str]:
    """The numbers of this process's children, without the nursery."""
    found = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    nursery = WarmPopen.nursery and WarmPopen.nursery.process
    return [number for number in found if not nursery or number != str(nursery.pid)]


def _is_warm(words: list[str], given: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Whether a command is one of ours, with nothing that a fork could not do."""
    ours = words[:3] == [_PYTHON, "-m", "mmfl"]
    ours |= words[:4] == [_PYTHON, "-P", "-c", _START]
    ours |= words[:1] == [_PYTHON] and words[1].endswith(".py")
    odd = given["preexec_fn"] or given["shell"] or given["executable"] not in {None, *words[:1]}
    odd = odd or not given["close_fds"]
    named = {name for name in {*environment, *_at_start} if name.startswith(_ACT_AT_START)}
    named -= {"PYTHONPATH", *_OF_SCIKIT_LEARN}  # PYTHONPATH: see _run
    changed = any(environment.get(name) != _at_start.get(name) for name in named)
    return ours and not odd and not changed


_at_start = dict(os.environ)
"""The environment that a nursery is started with."""


def tend(line: int) -> None:
    """Be a nursery, until nobody needs it any more; a process that it forks does its work."""
    import torch

    import mmfl.cli
    import mmfl.comparison.comparison
    import mmfl.comparison.worker
    import mmfl.engines.inline
    import mmfl.engines.worker
    import mmfl.report.figures.comparison
    import mmfl.train.trainer  # noqa: F401

    for name in ("mmfl.comparison.worker", "mmfl.engines.worker", "mmfl.system.guard"):
        sys.modules.pop(name, None)  # what runs as a program must not have been imported
    torch.set_num_threads(1)
    gc.freeze()
    calls.die_with_parent()
    order = _fork_at_request(socket.socket(fileno=line))
    if order["words"][1] != "-P":
        order = _have_nursery(order)
    code: Any = 0
    try:
        _run(order["words"])
    except SystemExit as end:
        code = end.code
    _end(code)


def _run(words: list[str]) -> None:
    """What the interpreter does with a command line."""
    added = os.environ.get("PYTHONPATH", "")
    sys.path[:0] = [os.path.abspath(folder) for folder in added.split(os.pathsep) if added]
    if words[1] == "-m":
        sys.argv = words[2:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module("mmfl", run_name="__main__", alter_sys=True)
    elif words[1].endswith(".py"):
        sys.argv = words[1:]
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[1])))
        runpy.run_path(words[1], run_name="__main__")
    else:
        sys.argv = ["-c", *words[4:]]
        exec(words[3], {"__name__": "__main__"})


def _end(code: Any) -> NoReturn:
    """What the interpreter does at its end, but for taking modules apart: that takes a second."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit((code or 0) & 255)


def _have_nursery(order: dict[str, Any]) -> dict[str, Any]:
    """Fork a nursery for the processes that this one will start; the order, or one of theirs."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in order["numbers"]:
            os.dup2(nothing, number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # they are meant for its parent
        calls.die_with_parent()
        return _fork_at_request(theirs)
    theirs.close()
    WarmPopen.nursery = Nursery(ours)
    subprocess.Popen = WarmPopen  # type: ignore[misc]
    return order


def _fork_at_request(line: socket.socket) -> dict[str, Any]:
    """Returns only in a process that was forked, with the order that it is to carry out."""
    while True:
        message, files, *_ = socket.recv_fds(line, 1 << 20, 100)
        if not message:
            os._exit(0)
        ours, theirs = os.pipe()
        middle = os.fork()
        if middle == 0:
            child = os.fork()
            if child:
                os.write(theirs, str(child).encode())
                os._exit(0)
            for file in (ours, theirs):
                os.close(file)
            line.close()
            order = json.loads(message)
            _arrange(order, files)
            return order
        os.waitpid(middle, 0)
        line.send(os.read(ours, 100))
        for file in (ours, theirs, *files):
            os.close(file)


def _arrange(order: dict[str, Any], files: list[int]) -> None:
    """Give this process all that `subprocess.Popen` would have given it."""
    parent = order["parent"]
    while os.getppid() != parent:
        if not Path(f"/proc/{parent}").exists():
            os._exit(1)
        time.sleep(0.0002)
    if order["session"]:
        os.setsid()
    if order["group"] >= 0:
        os.setpgid(0, order["group"])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    free = max(*files, *order["numbers"]) + 1
    high = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, free) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(high, order["numbers"], strict=True):
        os.dup2(file, number, inheritable=True)
        os.close(file)
    streams = [io.FileIO(number, mode, closefd=False) for number, mode in enumerate("rww")]
    sys.stdin = io.TextIOWrapper(io.BufferedReader(streams[0]), encoding="utf-8")
    out, err = (io.BufferedWriter(stream) for stream in streams[1:])
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8", line_buffering=os.isatty(1))
    sys.stderr = io.TextIOWrapper(err, "utf-8", "backslashreplace", line_buffering=True)
