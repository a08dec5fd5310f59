"""Damaged run directories: is all damage detected or harmless?

    python -m chaos.run_directories --count 3000 --seed 0 --out chaos/results/run_directories.json

Three real run directories (finished; interrupted; killed, with a write-ahead log) are copied, and
in each copy one thing is changed (`directory_damage`). Then `mmfl status`, `mmfl verify`,
`Run.load` and the part of `mmfl compare` that decides whether to keep a run read it, each in a
process with limits on time and memory. One case in ten also tries `mmfl run --resume`. A case is

    found       a sentence names it, with exit code 1 or 2
    harmless    what is read is what was written
    earlier     the write-ahead log lost its end: what is read is an earlier state of the run
    a lie       the digests were recomputed; what is read is well-formed

and everything else (a traceback, a hang, other results, an escape sequence) is a failure.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import typer

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import mmfl
from benchmarks.harness import arguments, machine, save
from chaos import sandbox
from chaos.directory_damage import LIES, damage
from chaos.sandbox import How, run_forked, warm_up
from mmfl import cli
from mmfl.comparison.planned import Hashes, load_finished
from mmfl.errors import MmflError
from mmfl.rng import stream
from mmfl.runs import stored_rounds
from mmfl.runs.directory.lock import LEASE
from mmfl.runs.records import RECORDS

__all__ = ["GOOD", "Bases", "case", "make_bases"]

GOOD = ("found", "harmless", "earlier", "a lie")
RESUMED = 10
SECONDS = 30.0
FRAME, HEAD = 4096 + 24, 32
EXPERIMENT = """
seed = 3
rounds = 5
[clients]
count = 12
active = 0.6
[local]
steps = 2
batch_size = 8
[engine]
kind = "inline"
[checkpoints]
rounds = 1
keep = 2
[recruitment]
bids = { kind = "uniform", low = 0.1, high = 1.0 }
mechanism = { kind = "max_min_fair", budget = 6.0 }
dropouts = "unpaid"
[faults]
dropout = 0.2
[[faults.clients]]
does = "nan"
share = 0.3
[quarantine]
strikes = 2
[[tasks]]
name = "wide"
dataset = { kind = "synthetic", classes = 3, train = 200, test = 60, noise = 0.5 }
model = { kind = "mlp", hidden = [16] }
[[tasks]]
name = "small"
dataset = { kind = "synthetic", classes = 2, train = 200, test = 60, seed = 5 }
model = { kind = "mlp", hidden = [] }
"""


@dataclass(frozen=True)
class Bases:
    """Undamaged run directories, and what is read from them.

    Attributes:
        folders: By name.
        results: By name: what may be read, the current state first.
        fingerprint: Of the uninterrupted run.
        experiment: The file.
    """

    folders: dict[str, Path]
    results: dict[str, list[str]]
    fingerprint: str
    experiment: Path


def make_bases(where: Path) -> Bases:
    """Make the three runs."""
    _commands()
    file = where / "experiment.toml"
    file.write_text(EXPERIMENT)
    experiment = mmfl.Experiment.load(file)
    folders = {name: where / name for name in ("finished", "stopped", "killed")}
    straight = mmfl.run(experiment, folders["finished"])
    with stored_rounds(experiment, folders["stopped"]) as rounds:
        next(rounds)
        next(rounds)
        next(rounds)
    child = os.fork()
    if child == 0:
        _run_and_die(experiment, folders["killed"])
    os.waitpid(child, 0)
    results = {name: [_results(folder)] for name, folder in folders.items()}
    results["killed"] += _earlier(folders["killed"], where / "cut")
    return Bases(folders, results, straight.fingerprint, file)


def _run_and_die(experiment: mmfl.Experiment, folder: Path) -> None:
    try:
        rounds = stored_rounds(experiment, folder)
        next(rounds)
        next(rounds)
        next(rounds)
    finally:
        os.kill(os.getpid(), signal.SIGKILL)


def _results(folder: Path) -> str:
    """Everything that a run directory says, except where it is."""
    run = mmfl.Run.load(folder)
    tables = {name: run.table(name) for name in RECORDS}
    return repr(dataclasses.asdict(run) | {"folder": None, "tables": tables})


def _earlier(folder: Path, copy: Path) -> list[str]:
    """What a run directory says if its write-ahead log ends earlier, as after a power cut."""
    found = []
    size = (folder / "run.sqlite-wal").stat().st_size
    for end in range(HEAD, size, FRAME):
        shutil.copytree(folder, copy)
        os.truncate(copy / "run.sqlite-wal", end)
        try:
            found.append(_results(copy))
        except MmflError:
            found.append("")
        shutil.rmtree(copy)
    return [said for said in dict.fromkeys(found) if said]


@dataclass(frozen=True)
class Told:
    """The output of a process, and how it ended."""

    code: int
    out: str
    err: str
    slow: bool

    def failure(self) -> str | None:
        """What is wrong with it, regardless of the command."""
        lines = self.err.splitlines()
        if self.slow:
            return "hang"
        if "Traceback (most recent call last)" in self.err or self.code == 70:
            return "traceback"
        if not (self.out + self.err).replace("\n", "").isprintable():
            return "escape sequence"
        if self.code < 0:
            return f"signal {-self.code}"
        if self.code not in (0, 1, 2):
            return f"exit code {self.code}"
        if any(not line.startswith("mmfl: ") or len(line) > 1000 for line in lines):
            return "no sentence"
        said = [line for line in lines if not line.startswith("mmfl: warning: ")]
        if len(said) > 1 or (self.code == 2 and not said):
            return "several sentences" if said else "no sentence"
        return None


def _command(*arguments: str) -> Callable[[], None]:
    def work() -> None:
        sys.argv = ["mmfl", *arguments]
        with mock.patch.object(cli, "app", _commands()):
            cli.main()

    return work


@functools.cache
def _commands() -> Callable[[], None]:
    """The command line; it is assembled once, not in every child."""
    return typer.main.get_command(cli.app)


def _python(act: Callable[[], object]) -> Callable[[], None]:
    """The result of a library call, or its error as a command would print it."""

    def work() -> None:
        try:
            print(act())
        except MmflError as error:
            print(f"mmfl: {error}", file=sys.stderr)
            sys.exit(2)

    return work


def _covered(folder: Path) -> dict[str, str]:
    """What hashes cover besides the database: the content of files, the type of everything else."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.startswith("run.sqlite") or name.endswith(".part"):
            continue
        try:
            about = path.stat()
        except OSError:
            found[name] = "nothing"
            continue
        if stat.S_ISREG(about.st_mode) and about.st_size < 1 << 26:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = f"{stat.S_IFMT(about.st_mode):o}"
    return found


def _changed(before: dict[str, str], after: dict[str, str]) -> bool:
    """Whether a hash must detect it; an older checkpoint may be missing.

    Leases are not verified: they hold no results, and a damaged one belongs to nobody.
    """
    before = {name: was for name, was in before.items() if not LEASE.fullmatch(name)}
    spare = sorted(name for name in before if name.startswith("checkpoints/round-"))[:-1]
    gone = [name for name in spare if name not in after]
    return any(after.get(name) != was for name, was in before.items() if name not in gone)


def case(
    number: int, seed: int, bases: Bases, where: Path, how: How = run_forked, *, resume: bool = True
) -> dict[str, Any]:
    """One mutation, its outcome and, if it failed, all details.

    Args:
        number: Determines, with the seed, what is changed.
        seed: The seed of all cases.
        bases: What is damaged.
        where: A folder for the copy.
        how: How to do a piece of work: in this process or in another.
        resume: Whether to resume one case in ten.
    """

    def ask(work: Callable[[], None]) -> Told:
        code, out, err, _, slow = how(work, where)
        return Told(code, out, err, slow)

    rng = stream(seed, "chaos", "run directory", number)
    base = list(bases.folders)[int(rng.integers(len(bases.folders)))]
    folder = where / "run"
    shutil.copytree(bases.folders[base], folder, symlinks=True)
    way, said = damage(folder, rng)
    changed = _changed(_covered(bases.folders[base]), _covered(folder))
    experiment = mmfl.Experiment.load(bases.experiment)
    told = {
        "status": ask(_command("status", str(folder))),
        "verify": ask(_command("verify", str(folder))),
        "load": ask(_python(lambda: _results(folder))),
        "keep": ask(_python(lambda: load_finished(folder, experiment, Hashes(None)))),
    }
    if resume and number % RESUMED == 0:
        words = ("run", str(bases.experiment), "--out", str(folder), "--resume", "-q", "--json")
        told["resume"] = ask(_command(*words))
    word = _verdict(told, base, bases, lied=way in LIES, changed=changed)
    _remove(folder)
    found: dict[str, Any] = {"number": number, "base": base, "way": way, "verdict": word}
    if word not in GOOD:
        found |= {"what": said, "told": {name: dataclasses.asdict(t) for name, t in told.items()}}
    return found


def _verdict(told: dict[str, Told], base: str, bases: Bases, *, lied: bool, changed: bool) -> str:
    for name, one in told.items():
        failure = one.failure()
        if failure is not None:
            return f"{failure} ({name})"
    status, verify, load = told["status"], told["verify"], told["load"]
    known = bases.results[base]
    if not lied and load.code == 0 and load.out.strip() not in known:
        return "other results"
    if load.code == 2 and status.code == 0:
        return "status says nothing"
    if load.code == 2 and verify.code == 0:
        return "verify says nothing of the database"
    if changed and verify.code == 0 and not lied:
        return "verify says nothing of a file"
    if verify.code == 1 and "damaged" not in verify.out:
        return "verify does not say what"
    if not lied and _resumed(told) not in (None, bases.fingerprint):
        return "resumed to another fingerprint"
    if load.code or status.code or verify.code or told["keep"].code:
        return "found"
    if lied:
        return "a lie"
    return "harmless" if load.out.strip() == known[0] else "earlier"


def _resumed(told: dict[str, Told]) -> str | None:
    """The fingerprint that a resumed run ended with, if it was resumed."""
    if "resume" not in told or told["resume"].code:
        return None
    return str(json.loads(told["resume"].out)["fingerprint"])


def _remove(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink()
    else:
        shutil.rmtree(folder)


def run(count: int, seed: int, start: int = 0) -> dict[str, Any]:
    """All cases."""
    warm_up()
    sandbox.SECONDS = SECONDS
    verdicts, ways = Counter[str](), dict[str, Counter[str]]()
    failures, resumed = [], 0
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        where = Path(name)
        (where / "bases").mkdir()
        bases = make_bases(where / "bases")
        begin = time.monotonic()
        for number in range(start, start + count):
            found = case(number, seed, bases, where)
            verdicts[found["verdict"]] += 1
            ways.setdefault(found["way"], Counter())[found["verdict"]] += 1
            resumed += number % RESUMED == 0
            if found["verdict"] not in GOOD:
                failures.append(found)
                print(json.dumps(found), flush=True)
            elif number % 100 == 99:
                print(f"{number + 1}: {time.monotonic() - begin:.0f} s", flush=True)
    return {
        "damaged": count,
        "verdicts": dict(sorted(verdicts.items())),
        "failures": len(failures),
        "resumed": resumed,
        "ways": {way: dict(sorted(ways[way].items())) for way in sorted(ways)},
        "seconds": round(time.monotonic() - begin),
        "failed": failures,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    given = parser.parse_args()
    command = f"python -m chaos.run_directories --count {given.count} --seed {given.seed}"
    found = run(given.count, given.seed, given.start)
    result = {**machine(command, "mmfl", "numpy", "torch"), "seed": given.seed, **found}
    save(result, given.out)
    print(json.dumps({key: value for key, value in result.items() if key != "failed"}, indent=2))
    sys.exit(1 if found["failures"] else 0)


if __name__ == "__main__":
    main()
