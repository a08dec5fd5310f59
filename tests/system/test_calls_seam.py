"""Coordinator, store and engines call the operating system through `mmfl.system.calls` alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
SOURCES = [
    path
    for part in ("comparison", "engines", "loop", "runs")
    for path in sorted((HOUSE / "src/mmfl" / part).glob("**/*.py"))
]

MODULES = {
    "os": {
        *("open", "read", "write", "pread", "pwrite", "fsync", "fdatasync", "rename", "replace"),
        *("unlink", "remove", "mkdir", "makedirs", "rmdir", "listdir", "scandir", "stat", "link"),
        *("ftruncate", "truncate", "posix_fallocate", "kill", "killpg", "symlink", "utime"),
    },
    "mmap": {"mmap"},
    "multiprocessing.connection": {"wait"},
    "subprocess": {"Popen", "run", "call", "check_call", "check_output"},
    "socket": {"socket", "socketpair", "create_connection"},
    "sqlite3": {"connect"},
    "fcntl": {"flock", "lockf"},
    "shutil": {"rmtree", "copy", "copyfile", "copytree", "move"},
    "tempfile": {"TemporaryFile", "NamedTemporaryFile", "mkstemp"},
    "threading": {"Thread"},
    "time": {"time", "monotonic", "perf_counter", "sleep"},
}
METHODS = {
    *("read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "rmdir"),
    *("iterdir", "touch", "symlink_to", "hardlink_to"),
    *("send_bytes", "recv_bytes", "executescript"),
}
EXCEPTIONS = {
    "profiling.py",  # measures, for people: no run depends on it
    "process.py",  # the thread that listens for the end must be able to end a process that is stuck
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_calls_go_through_one_module(path):
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names} & MODULES.get(node.module or "", set())
            found += [(node.lineno, f"{node.module}.{name}") for name in names]
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id == "open":
            found.append((node.lineno, "open"))
        if not isinstance(called, ast.Attribute) or ast.unparse(called.value) == "calls":
            continue
        if isinstance(called.value, ast.Name) and called.value.id in MODULES:
            if called.attr in MODULES[called.value.id]:
                found.append((node.lineno, f"{called.value.id}.{called.attr}"))
        elif called.attr in METHODS:
            found.append((node.lineno, called.attr))
    assert path.name in EXCEPTIONS or found == []
