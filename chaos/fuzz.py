"""Run mutated inputs through the real command line: each is valid, or refused in one sentence.

    python -m chaos.fuzz configs --count 10000 --seed 0 --out chaos/results/configs.json
    python -m chaos.fuzz bids --count 1000 --seed 0 --out chaos/results/bids.json
    python -m chaos.fuzz replay chaos/results/failures/configs-0-123.json

The sentence must say where the mistake is. Seed and number determine an input. Failures are stored
next to the results, with their input. The exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

from benchmarks.harness import machine
from chaos.mutated_inputs import Case, bids_case, config_case
from chaos.sandbox import MEMORY, SECONDS, Outcome, Sandbox, warm_up
from chaos.verdict import GOOD, verdict

MAKERS: dict[str, Callable[[int, int], Case]] = {"configs": config_case, "bids": bids_case}
Found = dict[str, Any]


def judge_case(kind: str, seed: int, number: int, sandbox: Sandbox) -> Found:
    """Run one case: its verdict, its message and, if it failed, all details."""
    case = MAKERS[kind](seed, number)
    outcome = sandbox.run(case)
    word = verdict(case, outcome)
    found: Found = {"number": number, "verdict": word, "seconds": outcome.seconds}
    if word == "refused":
        found["sentence"] = outcome.err.strip()
    if word not in GOOD:
        found["failure"] = describe_failure(case, outcome, word)
    return found


def describe_failure(case: Case, outcome: Outcome, word: str) -> Found:
    content = None if case.content is None else base64.b64encode(case.content).decode()
    return {
        "verdict": word,
        "arguments": case.arguments,
        "name": case.name,
        "content": content,
        "changes": case.changes,
        "keys": sorted(case.keys),
        "code": outcome.code,
        "out": outcome.out[-2000:],
        "err": outcome.err[-4000:],
        "left": outcome.left,
        "seconds": round(outcome.seconds, 2),
    }


def several(kind: str, seed: int, count: int, start: int, processes: int) -> Iterator[Found]:
    """All cases, in several processes: each of n processes takes every n-th case."""
    pipes: list[Connection] = []
    for place in range(processes):
        ours, theirs = Pipe(duplex=False)
        if os.fork() == 0:
            _serve(kind, seed, range(start + place, start + count, processes), theirs)
        theirs.close()
        pipes.append(ours)
    alive = list(pipes)
    while alive:
        for pipe in wait(alive):
            assert isinstance(pipe, Connection)
            try:
                yield pipe.recv()
            except EOFError:
                alive.remove(pipe)
    for _ in pipes:
        if os.wait()[1]:
            raise SystemExit("a process that ran cases has died")


def _serve(kind: str, seed: int, numbers: Iterable[int], pipe: Connection) -> NoReturn:
    """What a process that runs cases does: it sends one message for each case."""
    code = 1
    try:
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            sandbox = Sandbox(Path(folder) / "here")
            for number in numbers:
                pipe.send(judge_case(kind, seed, number, sandbox))
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def pattern(sentence: str) -> str:
    """A sentence without the parts that belong to one input only."""
    plain = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", sentence)
    plain = re.sub(r"got .*", "got ...", plain)
    return re.sub(r"\d[\d,.]*", "N", plain)[:110]


def fuzz(kind: str, *, seed: int, count: int, start: int, processes: int, out: Path | None) -> int:
    """Run all cases and write the results; returns the number of failures."""
    warm_up()
    begin = time.monotonic()
    verdicts, sentences = Counter[str](), Counter[str]()
    failures: list[Found] = []
    slowest = 0.0
    for done, found in enumerate(several(kind, seed, count, start, processes), 1):
        verdicts[found["verdict"]] += 1
        slowest = max(slowest, found["seconds"])
        if "sentence" in found:
            sentences[pattern(found["sentence"])] += 1
        if "failure" in found:
            failures.append(found)
            last = (found["failure"]["err"].strip().splitlines() or [""])[-1]
            print(f"{kind} {found['number']}: {found['verdict']}: {last[:200]}", flush=True)
        if done % 500 == 0:
            print(f"{done} of {count} in {time.monotonic() - begin:.0f} s", flush=True)
    minutes = (time.monotonic() - begin) / 60
    command = f"python -m chaos.fuzz {kind} --count {count} --seed {seed}"
    result = {
        **machine(command, "mmfl", "numpy", "pydantic", "torch"),
        "seed": seed,
        "count": count,
        "first": start,
        "processes": processes,
        "limits": {"seconds": SECONDS, "bytes of memory": MEMORY},
        "minutes": round(minutes, 1),
        "slowest, seconds": round(slowest, 2),
        "verdicts": dict(verdicts.most_common()),
        "failures": sum(n for word, n in verdicts.items() if word not in GOOD),
        "kinds of sentences": len(sentences),
        "most common sentences": dict(sentences.most_common(40)),
    }
    print(json.dumps({k: result[k] for k in ("verdicts", "failures", "minutes")}))
    if out is not None:
        keep(result, failures, out, seed)
    return len(failures)


def keep(result: Found, failures: list[Found], out: Path, seed: int) -> None:
    """Write the results as JSON, and one file per failure, for `replay`."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for found in failures:
        path = out.parent / "failures" / f"{out.stem}-{seed}-{found['number']}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(found["failure"], indent=1) + "\n", encoding="utf-8")


def replay(path: Path) -> int:
    """Run a stored failure again, and show everything."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    content = None if stored["content"] is None else base64.b64decode(stored["content"])
    given = (tuple(stored["arguments"]), stored["name"], content, tuple(stored["changes"]))
    case = Case(*given, frozenset(stored["keys"]))
    warm_up()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        outcome = Sandbox(Path(folder) / "here").run(case)
    word = verdict(case, outcome)
    shown = "(no file)" if content is None else content[:3000].decode("utf-8", "backslashreplace")
    print(f"{shown}\n--- mmfl {' '.join(case.arguments)}\n{outcome.out}--- standard error")
    print(f"{outcome.err}--- exit code {outcome.code} after {outcome.seconds:.1f} s: {word}")
    return int(word not in GOOD)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = parser.add_subparsers(dest="kind", required=True)
    for kind, count in (("configs", 10_000), ("bids", 1_000)):
        one = commands.add_parser(kind)
        one.add_argument("--count", type=int, default=count)
        one.add_argument("--start", type=int, default=0, help="the first case's number")
        one.add_argument("--seed", type=int, default=0)
        one.add_argument("--processes", type=int, default=2)
        one.add_argument("--out", type=Path)
    commands.add_parser("replay").add_argument("file", type=Path)
    given = vars(parser.parse_args())
    if given["kind"] == "replay":
        sys.exit(replay(given["file"]))
    sys.exit(1 if fuzz(**given) else 0)


if __name__ == "__main__":
    main()
