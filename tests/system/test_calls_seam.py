"""All packages call the operating system through `mmfl.system.calls`, with few exceptions.

So the harness in `chaos/calls/` can make each call fail. `mmfl.system` itself is the place where
the calls are made; everything in `EXCEPTIONS` is exempt on purpose.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
PACKAGE = HOUSE / "src/mmfl"
SOURCES = [
    path.relative_to(PACKAGE).as_posix()
    for path in sorted(PACKAGE.glob("**/*.py"))
    if path.relative_to(PACKAGE).parts[0] != "system"
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
    "np": {"load", "save", "savez", "savez_compressed", "fromfile", "memmap", "genfromtxt"},
    "gzip": {"open"},
    "lzma": {"open"},
    "tarfile": {"open"},
    "torch": {"load", "save"},
    "safetensors": {"safe_open"},
    "safetensors.torch": {"load_file", "save_file"},
    "safetensors.numpy": {"load_file", "save_file"},
}
METHODS = {
    *("read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "rmdir"),
    *("iterdir", "touch", "symlink_to", "hardlink_to"),
    *("exists", "is_dir", "is_file", "is_symlink", "lstat", "stat", "glob", "rglob", "samefile"),
    *("send_bytes", "recv_bytes", "executescript", "executemany", "commit"),
    *("rollback", "backup"),
}
MODES = re.compile(r"[rwax]b?\+?")

EXCEPTIONS = {
    # They measure, for people: no run depends on it.
    "runs/profiling.py": {"time.perf_counter"},
    "cli/views/compare.py": {"time.monotonic"},
    "cli/views/progress.py": {"time.monotonic"},
    # What cannot be seen is left out of the description of this machine.
    "runs/environment.py": {"os.path.isdir"},
    # The null device takes the place of an output that nobody reads.
    "cli/shared/streams.py": {"os.open"},
    # They are files of the package, which Python finds, perhaps in a zip archive.
    "data/embedded/__init__.py": {"read_bytes", "np.load"},
    "report/document/html.py": {"read_text"},
    "reproduce/study.py": {"glob"},
    # `mmfl data fetch` is not part of a run. It works on files that are its own, over the network,
    # and `tests/data/` makes its steps fail. What it has fetched is read with the opener.
    "data/sources/download.py": {"exists", "stat", "unlink", "open", "time.sleep"},
    "data/sources/fetching.py": {
        *("exists", "mkdir", "rmdir", "unlink", "iterdir", "stat", "open", "np.savez"),
        *("os.open", "os.fsync", "fcntl.flock"),
    },
    "data/sources/npm.py": {"subprocess.run", "glob"},
    # Commands that start and end the processes of a federation, and what they leave in folders of
    # their own; `tests/flower/` makes their steps fail. The run itself uses the opener.
    "cli/flower.py": {"mkdir", "write_text"},
    "flower/app.py": {"mkdir", "write_text"},
    "flower/certificates.py": {"os.open"},
    "flower/events.py": {"exists", "open", "time.sleep"},
    "flower/local.py": {
        "shutil.rmtree",
        "mkdir",
        "exists",
        "unlink",
        "read_text",
        "time.monotonic",
    },
    "flower/node.py": {"shutil.rmtree", "is_file", "time.sleep"},
    "flower/node_worker.py": {"read_bytes", "time.sleep", "threading.Thread"},
    "flower/processes.py": {
        *("mkdir", "open", "exists", "read_text", "time.monotonic", "time.sleep"),
        *("socket.socket", "os.killpg"),
    },
    # The dashboard is not part of a run; it reads runs with the opener.
    "dashboard/rendering.py": {"is_file", "read_text"},
    "dashboard/acting/processes.py": {
        *("unlink", "write_text", "os.fstat", "os.pread", "os.pidfd_open"),
        *("tempfile.mkstemp", "subprocess.Popen", "subprocess.run"),
    },
    "benchmark/suite.py": {"glob"},
    # It looks for run directories, which `RunStore` then opens.
    "planning/histories.py": {"glob"},
}


@pytest.mark.parametrize("path", SOURCES)
def test_calls_go_through_one_module(path):
    found = _find_calls((PACKAGE / path).read_text())
    allowed = EXCEPTIONS.get(path, set())
    assert [(line, name) for line, name in found if name not in allowed] == []


def test_every_exception_is_needed():
    for path, allowed in EXCEPTIONS.items():
        found = {name for _, name in _find_calls((PACKAGE / path).read_text())}
        assert allowed <= found, path


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("open('x')", "open"),
        ("path.open('rb')", "open"),
        ("path.read_bytes()", "read_bytes"),
        ("tarfile.open(path)", "tarfile.open"),
        ("zipfile.ZipFile(path)", "zipfile.ZipFile"),
        ("np.load(path)", "np.load"),
        ("os.stat(path)", "os.stat"),
    ],
)
def test_calls_are_found(line, name):
    assert _find_calls(line) == [(1, name)]


@pytest.mark.parametrize(
    "line",
    [
        "calls.status(path)",
        "RunStore.open(folder)",
        "archive.open(member)",
        "with open_file(path) as file, zipfile.ZipFile(file) as archive: pass",
        "tarfile.open(fileobj=file, mode='r:gz')",
    ],
)
def test_other_calls_pass(line):
    assert _find_calls(line) == []


def _find_calls(text: str) -> list[tuple[int, str]]:
    """Where a module calls the system itself, and what."""
    found = []
    for node in ast.walk(ast.parse(text)):
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
        first = [part for arg in node.args[:1] for part in ast.walk(arg)]
        words = [part.value for part in first if isinstance(part, ast.Constant)]
        if module == "zipfile" and called.attr == "ZipFile":
            if ast.unparse(node.args[0]) != "file":  # what `open_file` gave
                found.append((node.lineno, "zipfile.ZipFile"))
        elif module == "tarfile" and any(keyword.arg == "fileobj" for keyword in node.keywords):
            continue
        elif called.attr == "open" and any(MODES.fullmatch(str(word)) for word in words):
            found.append((node.lineno, "open"))
        elif module in MODULES:
            if called.attr in MODULES[module]:
                found.append((node.lineno, f"{module}.{called.attr}"))
        elif called.attr in METHODS:
            found.append((node.lineno, called.attr))
    return found
