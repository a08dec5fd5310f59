"""Starts, stops and resumes runs: each is a process of its own, as if a person had typed it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mmfl.dashboard.access import TOKEN_VARIABLE
from mmfl.errors import InputError, StoreError, one_line
from mmfl.experiment import Experiment
from mmfl.runs import find_owner, is_owned, is_run, place_of
from mmfl.system import calls
from mmfl.system.child import temporary_file
from mmfl.system.files import exists

__all__ = ["Job", "Processes", "check_name", "is_stoppable"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_CHECKING = 120.0
"""Seconds that a check may take."""

_TAIL = 4000


@dataclass(frozen=True)
class Job:
    """A run that was started or resumed here.

    Attributes:
        folder: Its directory.
        process: The process.
        log: What it prints.
        again: Whether the run was there before.
    """

    folder: Path
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    again: bool

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self.process.poll() is not None

    @property
    def problem(self) -> str:
        """What it said, if it has ended with an error; else ""."""
        if not self.process.poll():
            return ""
        return _read_tail(self.log) or f"it ended with exit code {self.process.returncode}"


def check_name(name: str, root: Path) -> Path:
    """The directory of a new run."""
    if not _NAME.fullmatch(name):
        raise InputError(
            "name must be up to 64 letters, digits and . _ -, and not begin with . or -"
        )
    if exists(root / name, links=False):
        raise InputError(f"name: {name} is there already; choose another one")
    return root / name


def build_run_command(config: Path, folder: Path) -> list[str]:
    """What starts a run."""
    words = ["-m", "mmfl", "run", str(config), "--out", str(folder), "--quiet"]
    return [sys.executable, *words]


def build_resume_command(folder: Path) -> list[str]:
    """What resumes a run."""
    return [*build_run_command(folder / "experiment.toml", folder), "--resume"]


def build_check_command(config: Path) -> list[str]:
    """What checks an experiment."""
    return [sys.executable, "-m", "mmfl", "check", str(config)]


def is_stoppable(folder: Path) -> bool:
    """Whether a run can be stopped by itself: one of a comparison cannot."""
    return place_of(folder) is None and find_owner(folder) is not None


class Processes:
    """The runs that were started here. They go on when the dashboard ends."""

    def __init__(self) -> None:
        self._jobs: dict[Path, Job] = {}
        self._lock = threading.Lock()

    def find(self, folder: Path) -> Job | None:
        """The last job in a folder."""
        return self._jobs.get(folder)

    def check(self, text: str) -> tuple[bool, str]:
        """Whether an experiment is valid, and what the check says; data and models are tried."""
        Experiment.from_toml(text)
        with tempfile.TemporaryDirectory(prefix="mmfl-") as name:
            path = Path(name) / "experiment.toml"
            path.write_text(text, encoding="utf-8")
            try:
                done = subprocess.run(
                    build_check_command(path),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=_CHECKING,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return False, f"The check took longer than {_CHECKING:g} s."
        said = done.stdout.decode(errors="replace").replace(f"{path}: ", "")
        return done.returncode == 0, said.replace(str(path), "It").strip()

    def start(self, text: str, folder: Path) -> Job:
        """Start a run of an experiment in a new folder."""
        Experiment.from_toml(text)
        with self._lock:
            if exists(folder, links=False):
                raise InputError(f"name: {folder.name} is there already; choose another one")
            handle, name = tempfile.mkstemp(prefix="mmfl-", suffix=".toml")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            try:
                job = self._begin(build_run_command(Path(name), folder), folder, again=False)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        calls.start_thread(lambda: _remove_after(job.process, Path(name)), "remove experiment")
        return job

    def resume(self, folder: Path) -> Job:
        """Resume a run from its newest checkpoint."""
        with self._lock:
            known = self._jobs.get(folder)
            if is_owned(folder) or (known is not None and not known.ended):
                raise StoreError("this run is running already")
            if not is_run(folder):
                raise StoreError("this run does not exist any more")
            return self._begin(build_resume_command(folder), folder, again=True)

    def stop(self, folder: Path) -> None:
        """Ask a run to save a checkpoint and end, as Ctrl-C does."""
        if place_of(folder) is not None:
            raise StoreError("this run belongs to a comparison; stop that where it was started")
        if not hasattr(os, "pidfd_open"):
            raise StoreError("runs can be stopped only on Linux; press Ctrl-C where it was started")
        pid = find_owner(folder)
        if pid is None:
            raise StoreError("this run is not running on this machine")
        if pid == os.getpid():
            raise StoreError("this run is part of the dashboard's own process")
        try:
            process = os.pidfd_open(pid)
        except OSError:
            raise StoreError("this run has just ended") from None
        try:
            if find_owner(folder) != pid:  # the ID may be another process's by now
                raise StoreError("this run has just ended")
            signal.pidfd_send_signal(process, signal.SIGINT)
        except OSError as error:
            raise StoreError(f"this run cannot be stopped: {error.strerror}") from None
        finally:
            os.close(process)

    def close(self) -> None:
        """Forget the processes, which go on."""
        for job in self._jobs.values():
            job.log.close()
            if not job.ended:
                job.process.returncode = 0  # else Python would complain that it still runs
        self._jobs.clear()

    def _begin(self, command: Sequence[str], folder: Path, *, again: bool) -> Job:
        log = temporary_file()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C ends the dashboard, not the run
                env={name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE},
            )
        except OSError as error:
            log.close()
            raise StoreError(f"no process can be started: {error.strerror}") from None
        before = self._jobs.pop(folder, None)
        if before is not None:
            before.log.close()
        self._jobs[folder] = job = Job(folder, process, log, again)
        return job


def _remove_after(process: subprocess.Popen[bytes], path: Path) -> None:
    process.wait()
    path.unlink(missing_ok=True)


def _read_tail(log: IO[bytes]) -> str:
    """The last line that a process printed."""
    size = os.fstat(log.fileno()).st_size
    text = os.pread(log.fileno(), _TAIL, max(0, size - _TAIL)).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else ""
