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
        *("fstat", "lstat", "access", "walk", "dup", "fork", "memfd_create", "pidfd_open"),
        *("ftruncate", "truncate", "posix_fallocate", "kill", "killpg", "symlink", "utime"),
    },
    "os.path": {"exists", "lexists", "isdir", "isfile", "islink", "getsize", "getmtime"},
    "mmap": {"mmap"},
    "multiprocessing.connection": {"wait", "Client", "Listener", "Pipe"},
    "multiprocessing": {"Process", "Pool", "Pipe"},
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
    *("exists", "is_dir", "is_file", "is_symlink", "lstat", "stat", "glob", "rglob", "samefile"),
    *("send_bytes", "recv_bytes", "executescript", "executemany", "commit"),
    *("rollback", "backup"),
}
EXCEPTIONS = {
    # It measures, for people: no run depends on it.
    "profiling.py": {"time.perf_counter"},
    # What cannot be seen is left out of the description of this machine.
    "environment.py": {"os.path.isdir"},
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_calls_go_through_one_module(path):
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module in MODULES:
            names = MODULES[node.module] & {alias.name for alias in node.names}
            found += [(node.lineno, f"{node.module}.{name}") for name in names]
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id == "open":
            found.append((node.lineno, "open"))
        if not isinstance(called, ast.Attribute) or ast.unparse(called.value) == "calls":
            continue
        module = ast.unparse(called.value)
        if module in MODULES:
            if called.attr in MODULES[module]:
                found.append((node.lineno, f"{module}.{called.attr}"))
        elif called.attr in METHODS:
            found.append((node.lineno, called.attr))
    allowed = EXCEPTIONS.get(path.name, set())
    assert [(line, name) for line, name in found if name not in allowed] == []
