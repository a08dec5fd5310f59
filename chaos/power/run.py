"""Power cuts: record the writes of runs, cut the power anywhere, resume what may be left.

    python -m chaos.power.run --states 2500 --seed 0 --out chaos/results/power.json
    python -m chaos.power.run --seed 0 --replay 1234

See the README next to this file.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

from benchmarks.harness import arguments, machine, save
from chaos.power.choices import MODELS, SECTORS, STYLES, Choice, State, build, promise, weights
from chaos.power.disk import History, digest, read_tree, write_tree
from chaos.power.recording import Event, Kind, RecorderError, compile_shim, record
from chaos.power.replay import Pool, Reference, reference, resume, warm_up
from chaos.power.scenarios import SCENARIOS, Scenario

__all__ = ["Recording", "Tried", "attempts", "prepare", "replay"]

AGAIN = 12
"""How many states are resumed under the recorder, to cut the power a second time."""

PATIENCE = 30
"""The search for new states ends after this many attempts for each."""

SYNCS = (Kind.SYNC, Kind.SYNC_DATA, Kind.SYNC_ALL)


@dataclass(frozen=True)
class Recording:
    """A scenario, what it did to its folder, and how it ends without interruption."""

    scenario: Scenario
    history: History
    known: Reference


@dataclass
class Tried:
    """A state that is replayed, whether it lost anything, and what it must not lose."""

    number: int
    recording: Recording
    choice: Choice
    lost: bool
    round: int
    finished: bool


def prepare(
    where: Path,
    *,
    again: int,
    seed: int,
    scenarios: Sequence[Scenario] = SCENARIOS,
    without: str | None = None,
) -> list[Recording]:
    """Record all scenarios, then the resumes of `again` of their states."""
    library = compile_shim(where)
    known: dict[str, Reference] = {}
    for scenario in scenarios:
        if scenario.final not in known:
            known[scenario.final] = reference(scenario.final, where / f"straight-{len(known)}")
    warm_up()
    found = _record(scenarios, library, where / "first", known, without)
    more = []
    for number in range(again):
        draws = random.Random(f"{seed} again {number}")
        recording = draws.choice(found)
        cut = draws.choices(range(len(recording.history.events) + 1), weights(recording.history))[0]
        choice = Choice(cut, draws.choice(list(STYLES)), "weak", SECTORS[0], f"{seed} {number}")
        more.append(
            dataclasses.replace(
                recording.scenario,
                name="cut and resumed",
                parts=recording.scenario.parts[-1:],
                start=build(recording.history, choice).tree,
                promised=promise(recording.history, cut, recording.scenario.promised).round,
            )
        )
    return [*found, *_record(more, library, where / "again", known, without)] if more else found


def _record(
    scenarios: Sequence[Scenario],
    library: Path,
    where: Path,
    known: dict[str, Reference],
    without: str | None,
) -> list[Recording]:
    found = []
    for scenario, (events, root) in zip(scenarios, record(scenarios, library, where), strict=True):
        history = History(events, scenario.start, without)
        _check_whole(history, root)
        found.append(Recording(scenario, history, known[scenario.final]))
    return found


def _check_whole(history: History, root: Path) -> None:
    """If nothing is lost, the model must equal the disk; otherwise the recorder missed a change."""
    told, seen = history.whole(len(history.events)), read_tree(root)
    without = history.mapped(len(history.events))
    if digest(told, without) != digest(seen, without):
        wrong = sorted(p for p in told.keys() | seen.keys() if told.get(p, 0) != seen.get(p, 0))
        raise RecorderError(f"the recorder missed changes of {', '.join(wrong)}")


def attempts(recordings: Sequence[Recording], seed: str) -> Iterator[tuple[int, Choice]]:
    """Endless choices, each with the number of its recording.

    First all cuts just before a sync, when most can be lost, and those at the end, in random order,
    each with the two largest losses. Then all cuts in random order, risky ones more often, with
    everything else random; then all of them again.
    """
    for which, recording in enumerate(recordings):
        events = recording.history.events
        cuts = [cut for cut, event in enumerate(events) if event.kind in SYNCS] + [len(events)]
        random.Random(f"{seed} syncs").shuffle(cuts)
        for cut in cuts:
            for style in ("nothing", "data"):
                yield which, Choice(cut, style, "weak", SECTORS[0], seed)
    pairs = [
        (which, cut)
        for which, recording in enumerate(recordings)
        for cut, weight in enumerate(weights(recording.history))
        for _ in range(round(weight))
    ]
    draws = random.Random(f"{seed} cuts")
    for again in count():
        draws.shuffle(pairs)
        for number, (which, cut) in enumerate(pairs):
            name = f"{seed} {again} {number}"
            own = random.Random(name)
            style, model = own.choice(list(STYLES)), own.choice((*MODELS, "weak"))
            yield which, Choice(cut, style, model, own.choice(SECTORS), name)


def states(
    recordings: Sequence[Recording], seed: int, limit: int
) -> Iterator[tuple[int, Recording, State]]:
    """At most `limit` attempts, numbered, so that `--replay` finds a state by its number."""
    for number, (which, choice) in enumerate(islice(attempts(recordings, f"{seed}"), limit)):
        yield number, recordings[which], build(recordings[which].history, choice)


def replay(
    recordings: Sequence[Recording],
    where: Path,
    *,
    wanted: int,
    seed: int,
    processes: int = 2,
    keep: Path | None = None,
) -> dict[str, Any]:
    """Resume `wanted` different states, and return the outcomes."""
    tried: dict[tuple[str, str, bool], Tried] = {}
    answers: dict[int, dict[str, Any]] = {}
    (where / "replays").mkdir()
    pool = Pool(where / "replays", processes)
    cuts: set[tuple[int, int]] = set()
    distinct: set[tuple[str, str]] = set()
    total = 0
    for number, recording, state in states(recordings, seed, wanted * PATIENCE):
        if len(distinct) >= wanted:
            break
        total += 1
        history, cut = recording.history, state.choice.cut
        made = promise(history, cut, recording.scenario.promised)
        mapped = history.mapped(len(history.events))
        key = (recording.scenario.final, digest(state.tree, mapped), made.finished)
        if key in tried:
            tried[key].round = max(tried[key].round, made.round)
            continue
        cuts.add((id(recording), cut))
        distinct.add(key[:2])
        lost = key[1] != digest(history.whole(cut), mapped)
        tried[key] = Tried(number, recording, state.choice, lost, made.round, made.finished)
        work = pool.submit(
            number, state.tree, recording.known, finished=made.finished, peek=bool(number % 2)
        )
        for at, found in work:
            _progress(answers, at, found)
    for at, found in pool.finish():
        _progress(answers, at, found)
    return _summary(recordings, tried, answers, total, len(cuts), keep)


def _progress(answers: dict[int, dict[str, Any]], number: int, found: dict[str, Any]) -> None:
    answers[number] = found
    if len(answers) % 500 == 0:
        print(f"{len(answers)} states", file=sys.stderr, flush=True)


def _summary(
    recordings: Sequence[Recording],
    tried: dict[tuple[str, str, bool], Tried],
    answers: dict[int, dict[str, Any]],
    total: int,
    cuts: int,
    keep: Path | None,
) -> dict[str, Any]:
    failures = []
    by: dict[str, Counter[str]] = {
        name: Counter() for name in ("scenario", "style", "model", "cut before", "resumed after")
    }
    for one in tried.values():
        found, choice = answers[one.number], one.choice
        by["scenario"][one.recording.scenario.name] += 1
        by["style"][choice.style] += 1
        by["model"][choice.model] += 1
        by["cut before"][_event(one.recording.history.events, choice.cut)[0]] += 1
        by["resumed after"][f"round {found['after']}"] += 1
        wrong = list(found["wrong"])
        if 0 <= found["after"] < one.round:
            wrong.append(
                f"the checkpoint of round {one.round} was announced, and the run resumed after "
                f"round {found['after']}"
            )
        if wrong:
            failures.append(_failure(one, found, wrong))
            if keep is not None:
                place = keep / f"{one.number}"
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir(parents=True)
                write_tree(build(one.recording.history, choice).tree, place)
    return {
        "recordings": len(recordings),
        "events": sum(len(r.history.events) for r in recordings),
        "syncs": sum(e.kind in SYNCS for r in recordings for e in r.history.events),
        "cut points": sum(len(r.history.events) + 1 for r in recordings),
        "cut points tried": cuts,
        "attempts": total,
        "states": len({key[:2] for key in tried}),
        "resumes": len(tried),  # a state possible before and after the end counts twice
        "of these with something lost": sum(one.lost for one in tried.values()),
        "of these after a checkpoint was announced": sum(1 for one in tried.values() if one.round),
        "of these after the run had finished": sum(one.finished for one in tried.values()),
        **{f"by {name}": dict(sorted(counted.items())) for name, counted in by.items()},
        "warned of a damaged checkpoint": sum(bool(a["warnings"]) for a in answers.values()),
        "failed": len(failures),
        "failures": failures[:50],
    }


def _failure(one: Tried, found: dict[str, Any], wrong: list[str]) -> dict[str, Any]:
    events, choice = one.recording.history.events, one.choice
    return {
        "replay": one.number,
        "scenario": one.recording.scenario.name,
        "cut": choice.cut,
        "before": " ".join(_event(events, choice.cut)),
        "style": choice.style,
        "model": choice.model,
        "sector": choice.sector,
        "announced": one.round,
        "resumed after": found["after"],
        "wrong": wrong,
        "warnings": found["warnings"],
        "traceback": found.get("traceback", ""),
    }


def _event(events: Sequence[Event], cut: int) -> tuple[str, str]:
    """The kind of the event that a cut comes before, and where it happens."""
    if cut >= len(events):
        return "end", ""
    event = events[cut]
    return event.kind.name.lower().replace("_", " "), event.to or event.path or f"fd {event.fd}"


def _show(recordings: Sequence[Recording], seed: int, wanted: int, where: Path) -> int:
    """Replay one state in this process, and print all details."""
    which, choice = next(islice(attempts(recordings, f"{seed}"), wanted, None))
    recording, state = recordings[which], build(recordings[which].history, choice)
    history, cut = recording.history, state.choice.cut
    made = promise(history, cut, recording.scenario.promised)
    print(f"state {wanted} of {recording.scenario.name!r}: {state.choice}, {made}")
    for time in range(max(0, cut - 12), min(len(history.events), cut + 3)):
        before = "-- power cut --\n" if time == cut else ""
        print(f"{before}{time:5d}", *_event(history.events, time))
    whole = history.whole(cut)
    for path in sorted(whole.keys() | state.tree.keys()):
        was, now = whole.get(path, b"missing"), state.tree.get(path, b"missing")
        sizes = [f"{len(x):,} bytes" if isinstance(x, bytes) else "folder" for x in (was, now)]
        if path not in state.tree or path not in whole:
            print(f"  {path}: {'lost' if path in whole else 'still there, though removed'}")
        elif was != now:
            print(f"  {path}: other content ({sizes[1]}, it was {sizes[0]})")
    place = where / "replay"
    place.mkdir()
    found = resume(
        state.tree, recording.known, place, finished=made.finished, peek=bool(wanted % 2)
    )
    text = found.pop("traceback", "")
    print(json.dumps(found, indent=2), text, sep="\n")
    return int(bool(found["wrong"]) or found["after"] < made.round)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--states", type=int, default=2000, help="how many different states")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=int, default=AGAIN, help="states whose power is cut again")
    parser.add_argument("--scenario", help="only the scenario of this name")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="a folder for the states that failed")
    parser.add_argument(
        "--without", help="leave out syncs of paths that match this expression: is that detected?"
    )
    parser.add_argument("--replay", type=int, help="only the state of this number, in detail")
    given = parser.parse_args()
    scenarios = [s for s in SCENARIOS if given.scenario in (None, s.name)]
    if not scenarios:
        names = ", ".join(repr(s.name) for s in SCENARIOS)
        parser.error(f"--scenario is one of {names}, got {given.scenario!r}")
    command = f"python -m chaos.power.run --states {given.states} --seed {given.seed}"
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # no need for a real disk
    with tempfile.TemporaryDirectory(prefix="mmfl-power-", dir=memory) as folder:
        where = Path(folder)
        try:
            recordings = prepare(
                where,
                again=given.again,
                seed=given.seed,
                scenarios=scenarios,
                without=given.without,
            )
        except RecorderError as error:
            sys.exit(f"chaos/power: {error}")
        if given.replay is not None:
            sys.exit(_show(recordings, given.seed, given.replay, where))
        found = replay(
            recordings,
            where,
            wanted=given.states,
            seed=given.seed,
            processes=given.processes,
            keep=given.keep,
        )
    result = {**machine(command, "mmfl", "numpy", "torch"), "seed": given.seed, **found}
    print(json.dumps(result, indent=1))
    save(result, given.out)
    sys.exit(0 if not found["failed"] and found["states"] >= given.states else 1)


if __name__ == "__main__":
    main()
