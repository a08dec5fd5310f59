"""Odd surroundings: does a command still work, or say in one sentence why it cannot?

    python -m chaos.surroundings --count 400 --seed 0 --out chaos/results/surroundings.json
    python -m chaos.surroundings --seed 0 --case 17     # one case, shown

A case is a short command and one to four things that differ from normal: environment variables,
standard files, limits, umask, current folder (`surrounding_choices`). Seed and number determine it.
The promises:

1. The command ends within a time limit, and leaves no process behind.
2. Exit code 0 means the result of the same command in normal surroundings, to the bit. Any other
   exit code comes with one sentence on standard error, if that can be written to. (A command whose
   output nobody reads exits with 141 and prints nothing; a comparison that exits with 1 has a
   sentence for each run.) Warnings may come before it, from mmfl or from a library that rejects a
   variable.
3. Nothing outside the folder of results is made, changed or removed.
4. The same command, run again in normal surroundings, succeeds with the normal result.
"""

from __future__ import annotations

import fcntl
import gc
import io
import json
import os
import random
import re
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

from benchmarks.harness import HOUSE, arguments, machine, save
from chaos.calls.run import warm_up
from chaos.calls.scenarios import EXPERIMENT, alive_in_session, fingerprints
from chaos.sandbox import list_files, without_matplotlib
from chaos.surrounding_choices import ROOT, Surroundings, draw_surroundings, enter, make_places

__all__ = ["COMMANDS", "Box", "Case", "draw_case"]

SECONDS = 180.0
CLOSED = 141
_TOML, _OUT, _DONE = f"{ROOT}/here/small.toml", f"{ROOT}/here/out", f"{ROOT}/here/done"
_RUN = ("run", _TOML, "--resume", "--json", "--quiet", "--out", _OUT)

COMMANDS: dict[str, tuple[str, ...]] = {
    "check": ("check", _TOML),
    "run": _RUN,
    "run with a worker": (*_RUN, "--set", 'engine={kind="local",workers=1}'),
    "compare": (
        *("compare", _TOML, "--vary", "allocator.kind=fed_fair,uniform", "--seeds", "0-1"),
        *("--set", "rounds=1", "--jobs", "1", "--json", "--quiet", "--out", _OUT),
    ),
    "auction run": (
        *("auction", "run", f"{ROOT}/here/bids.csv", "--mechanism", "max_min_fair"),
        *("--budget", "3", "--force", "--out", f"{ROOT}/here/awards.csv"),
    ),
    "status": ("status", _DONE, "--json"),
    "verify": ("verify", _DONE, "--json"),
    "plan": ("plan", _TOML, "--run", _DONE, "--draws", "20", "--json"),
}
_PRINTED = ("check", "status", "verify", "plan")
"""The commands whose result is their output; the others write files."""

_START = "import sys; sys.argv[0] = 'mmfl'; from mmfl.__main__ import main; sys.exit(main())"
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m|\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|[^\x21-\x7e]|\\")


@dataclass(frozen=True)
class Case:
    """A command in surroundings."""

    command: str
    surroundings: Surroundings

    def describe(self) -> dict[str, Any]:
        """The case as JSON."""
        return {"command": self.command, **self.surroundings.describe()}


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (minus a signal's number), and what it left."""

    code: int
    out: str
    err: str
    slow: bool
    left: tuple[str, ...]


def draw_case(seed: int, number: int, commands: tuple[str, ...] = tuple(COMMANDS)) -> Case:
    """The case that a seed and a number determine."""
    draw = random.Random(f"{seed} {number}")
    return Case(draw.choice(commands), draw_surroundings(draw))


class Box:
    """A folder in which cases run one after another, and the results in normal surroundings.

    Args:
        folder: The folder.
        alone: Whether no other mmfl runs on this machine, so that /tmp can be checked, too.
    """

    def __init__(self, folder: Path, *, alone: bool = True) -> None:
        self._alone = alone
        self._root = folder.resolve() / "case"
        self._prepared = folder.resolve() / "prepared"
        here = self._prepared / "here"
        here.mkdir(parents=True)
        (here / "small.toml").write_text(EXPERIMENT.replace("ENGINE", "inline"))
        (here / "bids.csv").write_text("client,a,b\nx,0.5,1\ny,,0.7\nz,0.2,0.9\nw,1.5,0.1\n")
        make_places(self._prepared)
        self._fresh()
        first = self._run("run", Surroundings())
        assert first.code == 0, first
        shutil.copytree(self._root / "here/out", here / "done")
        self._plain = cache(self._find_plain)

    def examine(self, case: Case) -> tuple[list[str], Ended]:
        """Run a case; returns the broken promises, and how it ended."""
        normal = Surroundings()
        if case.surroundings.capability:
            normal = Surroundings({"ATEN_CPU_CAPABILITY": case.surroundings.capability})
        plain = self._plain(case.command, case.surroundings.capability)
        self._fresh()
        before = self._list_outside()
        ended = self._run(case.command, case.surroundings)
        after = self._list_outside()
        changed = without_matplotlib(before, before | after) ^ without_matplotlib(
            after, before | after
        )
        self._make_accessible()
        broken = [*_complaints(case, ended)]
        broken += [f"touched {name}" for name, _ in sorted(changed)]
        lost = case.command in _PRINTED and "1" in case.surroundings.descriptors
        if ended.code == 0 and not lost and self._result(case.command, ended) != plain:
            broken.append("exit code 0 with another result")
        again = self._run(case.command, normal)
        if again.code or self._result(case.command, again) != plain:
            said = again.err.strip()[-300:]
            broken.append(f"afterwards: another result, exit code {again.code} ({said})")
        return broken, ended

    def _find_plain(self, command: str, capability: str) -> Any:
        """The result of a command in normal surroundings."""
        self._fresh()
        normal = Surroundings({"ATEN_CPU_CAPABILITY": capability} if capability else {})
        ended = self._run(command, normal)
        assert ended.code == 0, ended
        assert not ended.left, ended
        for name in ("home", "cache"):  # matplotlib fills it once, which takes seconds
            filled = self._root / "outside" / name
            shutil.copytree(filled, self._prepared / "outside" / name, dirs_exist_ok=True)
        return self._result(command, ended)

    def _result(self, command: str, ended: Ended) -> Any:
        """The result of a command."""
        from mmfl.runs.verification import verify

        here = self._root / "here"
        if command == "auction run":
            path = here / "awards.csv"
            return path.read_text() if path.exists() else None
        if command in _PRINTED:
            return _ESCAPES.sub("", ended.out)
        found = fingerprints(here / "out")
        damage = [
            part.name
            for name in found
            for part in verify(here / "out" / name).parts
            if part.verdict != "ok"
        ]
        files = sorted(path.name for path in (here / "out").glob("*.*") if "lease" not in path.name)
        return found, damage, files if command == "compare" else []

    def _run(self, command: str, surroundings: Surroundings) -> Ended:
        """Run a command in its own process and session."""
        words = [word.replace(ROOT, str(self._root)) for word in COMMANDS[command]]
        pipes = [os.pipe(), os.pipe()]
        for ours, _ in pipes:
            fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, 1 << 20)
            os.set_blocking(ours, False)
        child = os.fork()
        if child == 0:
            self._live(words, surroundings, pipes[0][1], pipes[1][1])
        for _, theirs in pipes:
            os.close(theirs)
        watch = os.pidfd_open(child)
        slow = not select.select([watch], [], [], SECONDS)[0]
        if slow:
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        left = _wait_for_session(child)
        out, err = (_read(ours).decode(surroundings.encoding, "replace") for ours, _ in pipes)
        for number in (watch, *(ours for ours, _ in pipes)):
            os.close(number)
        return Ended(code, out, err, slow, left)

    def _live(self, words: list[str], surroundings: Surroundings, out: int, err: int) -> NoReturn:
        """What a child does."""
        try:
            cold = surroundings.cold
            environment = enter(surroundings, self._root, out, err)
            if cold:
                environment["PYTHONPATH"] = os.pathsep.join((str(HOUSE / "src"), str(HOUSE)))
                command = [sys.executable, "-P", "-c", _START, *words]
                os.execve(sys.executable, command, environment)
            os.environ.clear()
            os.environ.update(environment)
            _main(words)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(70)

    def _fresh(self) -> None:
        """Make a new folder for a case."""
        if self._root.exists():
            self._make_accessible()
            shutil.rmtree(self._root)
        shutil.copytree(self._prepared, self._root)

    def _make_accessible(self) -> None:
        """Undo a umask and read-only folders, in case this process is not root."""
        for here, folders, files in os.walk(self._root / "here"):
            for name in (*folders, *files):
                with suppress(OSError):
                    path = Path(here, name)
                    path.chmod(path.stat().st_mode | 0o700)

    def _list_outside(self) -> set[tuple[str, Any]]:
        """What must stay unchanged: the rest of the folder, the sources, our names in /tmp."""
        found: set[tuple[str, Any]] = {*list_files(self._root / "outside")}
        found |= {(name, None) for name in os.listdir(self._root)}
        found |= {(str(path), None) for path in (HOUSE / "src").glob("**/*.py")}
        found |= {(str(path), None) for path in HOUSE.glob("*")}
        if self._alone:
            found |= {(str(path), None) for path in Path("/tmp").glob("mmfl-*")}
        return found


def _main(words: list[str]) -> NoReturn:
    """Do in a fork what a new interpreter that starts mmfl does."""
    import signal as signals

    from mmfl.cli import main

    tempfile.tempdir = None
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
            raw = io.FileIO(number, mode, closefd=False)
        except OSError:  # it is closed
            setattr(sys, name, None)
            continue
        buffer = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
        errors = "backslashreplace" if name == "stderr" else "strict"
        text = io.TextIOWrapper(buffer, "utf-8", errors, line_buffering=name == "stderr")
        setattr(sys, name, text)
    signals.signal(signals.SIGINT, signals.default_int_handler)
    sys.argv = ["mmfl", *words]
    code: Any = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _read(number: int) -> bytes:
    """What is in a pipe."""
    parts = []
    with suppress(BlockingIOError):
        while part := os.read(number, 1 << 20):
            parts.append(part)
    return b"".join(parts)


def _wait_for_session(session: int) -> tuple[str, ...]:
    """The processes of a session that are still alive after a moment; they are killed."""
    limit = time.monotonic() + 5.0
    while (left := alive_in_session(session)) and time.monotonic() < limit:
        time.sleep(0.01)
    for name in left:
        with suppress(ProcessLookupError):
            os.kill(int(name.partition(":")[0]), signal.SIGKILL)
    return tuple(left)


def _complaints(case: Case, ended: Ended) -> Iterator[str]:
    """What is wrong with how a command ended."""
    if ended.slow:
        yield "too slow"
        return
    for what in ended.left:
        yield f"left behind: {what}"
    if ended.code < 0:
        yield f"signal {-ended.code}"
        return
    lines = ended.err.lstrip("\ufeff").splitlines()
    if "Traceback" in ended.err:
        yield f"traceback: {lines[-1][:300]}"
        return
    if "OMP_NUM_THREADS" in case.surroundings.environment:
        lines = [line for line in lines if line and not line.startswith("libgomp: ")]
    foreign = [line for line in lines if not line.startswith("mmfl: ")]
    said = [line for line in lines if not line.startswith("mmfl: warning: ")]
    quiet = ended.code == CLOSED and case.surroundings.descriptors.get("1") == "pipe"
    several = ended.code in (1, 3) and case.command == "compare"
    if foreign:
        yield f"not a sentence of ours: {foreign[0][:300]}"
    elif ended.code and not quiet:
        if not said and "2" not in case.surroundings.descriptors:
            yield f"exit code {ended.code} without a sentence"
        if len(said) > 1 and not several:
            yield f"several sentences: {said[:3]}"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--case", type=int, help="one case, shown")
    given = parser.parse_args()
    warm_up()
    gc.freeze()
    begin, failures = time.monotonic(), []
    commands, ways, codes = Counter[str](), Counter[str](), Counter[str]()
    numbers = range(given.first, given.first + given.count)
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        box = Box(Path(folder))
        for number in numbers if given.case is None else [given.case]:
            case = draw_case(given.seed, number)
            broken, ended = box.examine(case)
            found = {"case": number, **case.describe(), "code": ended.code, "broken": broken}
            if given.case is not None:
                print(json.dumps(found, indent=1), ended.out[-2000:], ended.err, sep="\n")
            if broken:
                failures.append(found | {"said": ended.err[-500:]})
                print(f"BROKEN {json.dumps(failures[-1])}", flush=True)
            commands[case.command] += 1
            codes[str(ended.code)] += 1
            ways.update(_names(case.surroundings))
            if (number + 1) % 50 == 0:
                print(f"{number + 1}: {time.monotonic() - begin:.0f} s", flush=True)
    result = {
        **machine(
            f"python -m chaos.surroundings --count {given.count} --seed {given.seed}",
            *("mmfl", "numpy", "torch"),
        ),
        "seed": given.seed,
        "cases": commands.total(),
        "promises broken": len(failures),
        "minutes": round((time.monotonic() - begin) / 60, 1),
        "exit codes": dict(codes.most_common()),
        "commands": dict(sorted(commands.items())),
        "what differed": dict(sorted(ways.items())),
        "failures": failures,
    }
    print(json.dumps({key: result[key] for key in ("cases", "promises broken", "minutes")}))
    save(result, given.out)
    sys.exit(1 if failures else 0)


def _names(surroundings: Surroundings) -> Iterator[str]:
    """What differs, by name."""
    yield from surroundings.environment
    yield from (f"file {number}: {kind}" for number, kind in surroundings.descriptors.items())
    yield from (f"RLIMIT_{name}" for name in surroundings.limits)
    if surroundings.umask is not None:
        yield "umask"
    if surroundings.folder:
        yield f"current folder: {surroundings.folder}"


if __name__ == "__main__":
    main()
