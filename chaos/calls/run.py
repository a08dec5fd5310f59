"""Make every call to the operating system fail, one at a time: is any promise broken?

    python -m chaos.calls.run --out chaos/results/calls.json           # everything (hours)
    python -m chaos.calls.run --each 1 --out chaos/results/calls.json  # a failure for each call
    python -m chaos.calls.run --each 1 --few 10 --only "in a worker"   # ten calls of each name
    python -m chaos.calls.run --only resume --case 17 EIO+             # one case, shown
    python -m chaos.calls.run --only run --case "mmfl-lease 3" EIO     # in another thread

For each scenario (`scenarios.py`) the calls of an undisturbed run are counted, thread by thread.
Then, for the n-th call of a thread, for every n, the command runs again with that call failing in
the ways that `injector.FAILURES` lists (`--each`: that many of them, drawn at random), or with a
SIGKILL in its place. `--few` draws that many calls of each name, because scenarios that start
processes are slow. Finished cases are kept in `--journal`; the same command on the same commit
resumes there.

How often a lease is renewed or a socket is read depends on time. A call that does not come again is
"not reached": it is counted, and the case must then end like an undisturbed one.

The promises:
1. The command ends by itself, without a traceback. Exit code 0 means the undisturbed result, to the
   bit; exit code 2 (for a comparison also 1) comes with one sentence. Nothing else is printed
   except mmfl's warnings.
2. Nothing is left behind: no process, no temporary file.
3. Nothing is lost: the same command, undisturbed, then succeeds with the undisturbed result.
4. A run that succeeded, at once or afterwards, leaves no unfinished file, and `mmfl verify` finds
   nothing damaged in it and nothing that it cannot verify.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
import tempfile
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

from benchmarks.harness import arguments, commit, machine, save
from chaos.calls.injector import FAILURES, Call, read_log
from chaos.calls.scenarios import (
    DATA,
    SCENARIOS,
    Outcome,
    Scenario,
    fingerprints,
    prepare,
    run_command,
)
from chaos.journal import Journal
from mmfl.runs.verification import verify

__all__ = ["Harness", "examine", "plan_cases"]


class Harness:
    """A prepared scenario, with its result when nothing fails."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario = scenario
        self._folder = folder
        self.prepared = prepare(scenario, folder)
        log = folder / "log"
        copy = self._copy()
        outcome = run_command(scenario, copy, log=str(log))
        assert outcome.code == 0, outcome
        assert not outcome.left, outcome
        self.straight = fingerprints(copy / "out")
        self.calls = read_log(log)
        wrong = [*self.find_damage(copy)]
        assert not wrong, wrong

    def examine(self, call: Call, how: str) -> tuple[list[str], Outcome]:
        """Run a case; returns the broken promises, and how it ended."""
        copy = self._copy()
        outcome = run_command(self.scenario, copy, call, how)
        broken = [*_complaints(self.scenario, outcome, how if outcome.reached else "")]
        if not outcome.reached and outcome.code != 0:
            broken.append("it failed, though no call did")
        if outcome.code == 0:
            return [*broken, *self.find_damage(copy)], outcome
        again = run_command(self.scenario, copy)
        broken += [f"afterwards: {text}" for text in _complaints(self.scenario, again, "")]
        if again.code != 0:
            said = again.err.strip()[-300:]
            broken.append(f"afterwards: exit code {again.code} ({said})")
        else:
            broken += [f"afterwards: {text}" for text in self.find_damage(copy)]
        return broken, outcome

    def find_damage(self, folder: Path) -> Iterator[str]:
        """What is wrong with results that should equal the undisturbed ones."""
        out = folder / "out"
        if fingerprints(out) != self.straight:
            yield "another result"
        for path in out.glob("**/*.part"):
            yield f"an unfinished file: {path.name}"
        with chdir(folder):  # paths in the experiment are relative
            for name in self.straight:
                checked = verify(out / name, data_dir=DATA if self.scenario.files else None)
                for part in checked.parts:
                    if part.verdict != "ok":
                        yield f"{name}/{part.name}: {part.verdict}: {part.detail}"

    def _copy(self) -> Path:
        copy = self._folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.prepared, copy)
        return copy.resolve()


def _complaints(scenario: Scenario, outcome: Outcome, how: str) -> Iterator[str]:
    """What is wrong with how a command ended."""
    if outcome.hung:
        yield "it hangs"
        return
    for what in outcome.left:
        yield f"left behind: {what}"
    if how == "kill" and not scenario.module:
        if outcome.code != -9:
            yield f"it was to be killed, and ended with exit code {outcome.code}"
        return
    if "Traceback" in outcome.err:
        yield f"traceback: {outcome.err.strip().splitlines()[-1]}"
        return
    said = [line for line in outcome.err.splitlines() if not line.startswith("mmfl: warning: ")]
    allowed = (0, 1, 2, 3) if scenario.compares else (0, 2)
    if outcome.code not in allowed:
        yield f"exit code {outcome.code} ({outcome.err.strip()[-300:]})"
    elif outcome.code == 0 and said:
        yield f"exit code 0, and it said: {said[0][:300]}"
    elif outcome.code and not said:
        yield f"exit code {outcome.code} without a sentence"
    elif outcome.code and (len(said) > 1 and outcome.code == 2):
        yield f"several sentences: {said[:3]}"
    elif outcome.code and not said[-1].startswith("mmfl: "):
        yield f"not a sentence of ours: {said[-1][:300]}"


def examine(
    harness: Harness, cases: list[tuple[Call, str]], journal: Journal
) -> list[dict[str, Any]]:
    """Run the cases that are not in the journal; returns all cases that broke a promise."""
    for call, how in cases:
        key = f"{call.place} {how}"
        if key in journal.done:
            continue
        start = time.monotonic()
        broken, outcome = harness.examine(call, how)
        case = {"call": call.place, "name": call.name, "how": how, "broken": broken}
        found = {"scenario": harness.scenario.name, **case, "said": outcome.err[-500:]}
        if broken:
            print(f"BROKEN {json.dumps(found)}", flush=True)
        spent = time.monotonic() - start
        result = {"seconds": spent, "reached": outcome.reached, "broken": found if broken else None}
        journal.add(key, result)
        if len(journal.done) % 50 == 0:
            print(f"{harness.scenario.name}: {len(journal.done)} of {len(cases)}", flush=True)
    return [result["broken"] for result in journal.done.values() if result["broken"]]


def plan_cases(
    calls: list[Call], each: int | None, generator: random.Random, few: int | None = None
) -> list[tuple[Call, str]]:
    """Which call fails, and how: every call at least once, and a kill in place of each.

    Args:
        calls: All calls, in order.
        each: How many failures to try for each call; None = all.
        generator: Draws which ones.
        few: How many calls of each name to take in each thread; None = all.
    """
    alike: dict[tuple[str, str], list[Call]] = {}
    for call in calls:
        alike.setdefault((call.thread, call.name), []).append(call)
    if few is not None:
        alike = {key: generator.sample(its, min(few, len(its))) for key, its in alike.items()}
    taken = {call for its in alike.values() for call in its}
    cases = []
    for call in calls:
        if call not in taken:
            continue
        ways = list(FAILURES[call.name])
        if each is not None and len(ways) > each:
            ways = generator.sample(ways, each)
        cases += [(call, how) for how in ways]
        cases.append((call, "kill"))
    return cases


def warm_up() -> None:
    """Import everything that a command imports, so that forks start at once."""
    import matplotlib.backends.backend_agg  # noqa: F401
    import scipy.optimize  # noqa: F401
    import torch

    import mmfl.cli
    import mmfl.comparison.comparison
    import mmfl.engines.inline
    import mmfl.report.figures.comparison
    import mmfl.train.trainer  # noqa: F401

    torch.set_num_threads(1)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--each", type=int, help="failures for each call; by default all")
    parser.add_argument("--few", type=int, help="calls of each name; by default all")
    parser.add_argument("--only", action="append", help="a scenario, by name")
    parser.add_argument("--case", nargs=2, metavar=("N", "HOW"), help="one case, shown")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--journal", type=Path, default=Path("runs/chaos/calls"), metavar="FOLDER")
    given = parser.parse_args()
    warm_up()
    done: dict[str, Any] = {}
    for scenario in SCENARIOS:
        if given.only and scenario.name not in given.only:
            continue
        generator = random.Random(given.seed)
        with tempfile.TemporaryDirectory() as folder:
            harness = Harness(scenario, Path(folder))
            if given.case:
                call = next(call for call in harness.calls if call.place == given.case[0])
                broken, outcome = harness.examine(call, given.case[1])
                print(call, outcome, broken, sep="\n")
                return
            cases = plan_cases(harness.calls, given.each, generator, given.few)
            journal = _journal(given, harness, cases)
            failures = examine(harness, cases, journal)
        done[scenario.name] = {
            "calls": len(harness.calls),
            "calls of other threads": sum(call.thread != "" for call in harness.calls),
            "calls tried": len({call for call, _ in cases}),
            "cases": len(journal.done),
            "not reached": sum(not case["reached"] for case in journal.done.values()),
            "promises broken": len(failures),
            "minutes": round(sum(case["seconds"] for case in journal.done.values()) / 60, 1),
            "calls by name": dict(sorted(Counter(call.name for call in harness.calls).items())),
            "failures": failures,
        }
        print(scenario.name, json.dumps(done[scenario.name], indent=1), flush=True)
        if given.out is not None:
            write(given.out, given.each, given.few, given.seed, done)
    sys.exit(1 if any(found["failures"] for found in done.values()) else 0)


def _journal(given: Namespace, harness: Harness, cases: list[tuple[Call, str]]) -> Journal:
    """The journal of a scenario: it is valid for a commit, its calls and these options.

    Calls of other threads depend on time, and with workers those of the main thread, too: cases
    that are not planned this time stay in the journal.
    """
    steady = (
        []
        if harness.scenario.starts_processes
        else [[call.place, call.name] for call in harness.calls if not call.thread]
    )
    digest = hashlib.sha256(json.dumps([steady, given.each, given.few, given.seed]).encode())
    subject = {"commit": commit(), "scenario": harness.scenario.name, "cases": digest.hexdigest()}
    file = given.journal / f"{harness.scenario.name}.jsonl"
    return Journal(None if subject["commit"].endswith("dirty") else file, subject)


def write(out: Path, each: int | None, few: int | None, seed: int, done: dict[str, Any]) -> None:
    """Write results to a file, replacing earlier ones of the same scenarios."""
    known = json.loads(out.read_text())["scenarios"] if out.exists() else {}
    scenarios = known | done
    options = "".join(f" --{key} {n}" for key, n in (("each", each), ("few", few)) if n)
    for found in done.values():
        found["commit"] = commit()
        found["command"] = f"python -m chaos.calls.run{options} --seed {seed}"
    command = "python -m chaos.calls.run"
    result = {**machine(command, "mmfl", "numpy", "torch"), "seed": seed}
    for what in ("calls", "cases", "not reached", "promises broken", "minutes"):
        result[what] = round(sum(found.get(what, 0) for found in scenarios.values()), 1)
    save(result | {"scenarios": scenarios}, out)


if __name__ == "__main__":
    main()
