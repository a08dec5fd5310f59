"""What failing and hostile clients do to fair training: the tables in results/.

    make experiment-faults                                      # both studies
    python -m experiments.faults.run dropouts [--seeds 0-4] [--rounds 30] [--runs FOLDER]
    python -m experiments.faults.run attacks  [the same]

`dropouts`: faults.toml as it is (30% dropouts, and stragglers against a deadline) and
the same without faults, for three allocation rules. `attacks`: one client in five sends its updates
for one model reversed and enlarged, for five aggregators; turns are counted as the allocator gave
them, whatever their outcome.

Each writes NAME.md and NAME.json. Finished runs are kept in the folder of runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness import arguments, describe_recording, run_missing
from mmfl import Experiment, Run
from mmfl.aggregate import AGGREGATORS
from mmfl.allocate import ALLOCATORS
from mmfl.comparison import Comparison, read_seeds
from mmfl.faults import Faults, Misbehaving
from mmfl.faults.values import SignFlipped
from mmfl.report import Curves, Differences, Results, Variant, compare_variants, data, quantities
from mmfl.report.statistics import Quantity, spread
from mmfl.runs import RunStore
from mmfl.runs.assignments import unpack_assignments
from mmfl.runs.faults import count_faults, longest, tallies

__all__ = ["main"]

FILE = Path(__file__).with_name("faults.toml")
RULES = ("fed_fair", "uniform", "round_robin")
AGGREGATIONS = ("mean", "median", "trimmed_mean", "clipped_mean", "multi_krum")
ATTACKED, EVERY, FACTOR = "fashion", 5, 3.0


@dataclass(frozen=True, eq=False)
class Told:
    """What a run directory says besides the curves.

    Attributes:
        curves: With the turns that each task was given, not only the accepted ones.
        lost: By task: turns from which nothing arrived in time.
        longest: The longest round in virtual seconds; None without speeds.
        faults: By kind: how often it was injected, lost, refused and accepted.
        refused: By task: turns of honest clients that the checks refused. Honest training may
            diverge from damaged weights.
    """

    curves: Curves
    lost: Mapping[str, int]
    longest: float | None
    faults: Mapping[str, Any]
    refused: Mapping[str, int]

    @classmethod
    def of(cls, run: Run) -> Told:
        """Read a run."""
        curves = Curves.load(run.folder)
        with closing(RunStore.open(run.folder)) as store:
            blobs = store.rows("SELECT assignment FROM round ORDER BY round")
            given = [np.bincount(unpack_assignments(b).tasks, minlength=3) for (b,) in blobs]
            lost = dict.fromkeys(curves.tasks, 0)
            for count in count_faults(store):
                lost[count.task] += count.number if count.outcome == "lost" else 0
            found = store.rows(
                "SELECT task, count(*) FROM failure WHERE turn AND NOT EXISTS (SELECT 1 FROM fault "
                "WHERE fault.round = failure.round AND fault.client = failure.client) GROUP BY task"
            )
            refused = dict.fromkeys(curves.tasks, 0)
            refused |= {curves.tasks[number]: turns for number, turns in found}
            faults = {kind: vars(tally) for kind, tally in tallies(store).items()}
            curves = replace(curves, clients=np.array(given, np.int64))
            return cls(curves, lost, longest(store), faults, refused)


Found = dict[str, dict[int, Told]]


def dropouts(base: Experiment) -> dict[str, Experiment]:
    """Each allocation rule, without and with the faults in the file."""
    found: dict[str, Experiment] = {}
    for rule in RULES:
        failing = replace(base, allocator=ALLOCATORS.parse(rule))
        found |= {rule: replace(failing, faults=None), f"{rule} failing": failing}
    return found


def attacks(base: Experiment) -> dict[str, Experiment]:
    """Each aggregator, without and with the attack."""
    flipped = Misbehaving(
        does=SignFlipped(FACTOR),
        ids=tuple(range(0, base.clients.count, EVERY)),
        tasks=(ATTACKED,),
    )
    found: dict[str, Experiment] = {}
    for kind in AGGREGATIONS:
        calm = replace(base, aggregator=AGGREGATORS.parse(kind), faults=None)
        attacked = replace(calm, faults=Faults(clients=(flipped,)))
        found |= {kind: calm, f"{kind} attacked": attacked}
    return found


def turns_at(variant: Variant, task: str) -> Quantity:
    """How many turns a task was given."""
    column = variant.tasks.index(task)
    return Quantity(f"turns at {task}", "higher", lambda run: float(run.turns[column]), decimals=0)


def pairs(variants: Sequence[Variant]) -> Iterator[tuple[Variant, Variant]]:
    """Each variant without faults, paired with the same variant with faults."""
    return zip(variants[::2], variants[1::2], strict=True)


def describe_dropouts(found: Found, variants: list[Variant], base: Experiment) -> Iterator[str]:
    """The tables of `dropouts`."""
    assert base.faults is not None
    yield "## Results\n"
    yield Results(variants).markdown()
    yield "## With faults minus without, by rule\n"
    for calm, failing in pairs(variants):
        yield Differences([calm, failing], quantities(calm)).markdown()
    yield "## Turns lost, and the longest round\n"
    yield "Share of a task's turns that were lost; mean ± standard deviation over seeds.\n"
    tasks = variants[0].tasks
    yield f"| | {' | '.join(tasks)} | longest round / deadline |\n|---{'|---:' * (len(tasks) + 1)}|"
    for _, failing in pairs(variants):
        runs = found[failing.name].values()
        cells = []
        for column, task in enumerate(tasks):
            shares = [run.lost[task] / max(1, run.curves.turns[column]) for run in runs]
            cells.append(_spread(shares, "{:.1%}"))
        most = max(run.longest or 0.0 for run in runs)
        yield f"| {failing.name} | {' | '.join(cells)} | {most:g} / {base.faults.deadline:g} |"


def describe_attacks(found: Found, variants: list[Variant], base: Experiment) -> Iterator[str]:
    """The tables of `attacks`."""
    share = 1 / EVERY
    yield (
        f"Under `fed_fair`, {share:.0%} of the clients send their updates for `{ATTACKED}` times "
        f"-{FACTOR:g}, and are honest elsewhere.\n"
    )
    yield "## Results\n"
    yield Results(variants).markdown()
    yield "## Turns that the attack diverts\n"
    yield (
        "Turns given to each model in a run without the attack, and how many more or fewer with "
        "it (same seed; 95% interval, Student's t). Refused by the checks, per run: attackers' "
        "updates, and honest ones for the attacked model (from weights that are spoilt, honest "
        "training may diverge).\n"
    )
    tasks = variants[0].tasks
    head = " | ".join(f"{task} | more at {task}" for task in tasks)
    yield f"| aggregator | {head} | refused attacks | refused honest |"
    yield f"|---{'|---:' * (2 * len(tasks) + 2)}|"
    for calm, attacked in pairs(variants):
        cells = []
        for task in tasks:
            quantity = turns_at(calm, task)
            pair = compare_variants(calm, attacked, quantity)
            cells.append(f"{spread(calm.values(quantity).values()).mean:.0f}")
            interval = (
                "" if pair.interval is None else "({:+.0f} to {:+.0f})".format(*pair.interval)
            )
            cells.append(f"{pair.mean:+.0f} {interval}".rstrip())
        runs = found[attacked.name].values()
        made = [run.faults.get("sign_flipped", {"injected": 0, "refused": 0}) for run in runs]
        stopped, sent = (spread(float(one[k]) for one in made) for k in ("refused", "injected"))
        cells.append(f"{stopped.mean:.0f} of {sent.mean:.0f}")
        cells.append(_spread([run.refused[ATTACKED] for run in runs], "{:.0f}"))
        yield f"| {calm.name} | {' | '.join(cells)} |"
    yield "\n## With the attack minus without, by aggregator\n"
    for calm, attacked in pairs(variants):
        yield Differences([calm, attacked], quantities(calm)).markdown()


def _spread(values: Sequence[float], form: str) -> str:
    found = spread(map(float, values))
    return form.format(found.mean) + (f" ± {form.format(found.sd)}" if found.n > 1 else "")


def _of_run(run: Told) -> dict[str, Any]:
    turns = dict(zip(run.curves.tasks, run.curves.turns.tolist(), strict=True))
    told = {"turns": turns, "lost": run.lost, "refused_honest": run.refused, "faults": run.faults}
    return told | {"longest_round": run.longest}


STUDIES = {
    "dropouts": ("Dropouts and stragglers", dropouts, describe_dropouts),
    "attacks": ("An attack on one of three models", attacks, describe_attacks),
}


def main() -> None:
    """Run what is missing, and write the tables."""
    parser = arguments(__doc__, __file__)
    parser.add_argument("studies", nargs="*", metavar="study", help=", ".join(STUDIES))
    parser.add_argument("--seeds", default="0-4")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--runs", type=Path, default=Path("runs/faults"))
    given = parser.parse_args()
    if unknown := set(given.studies) - set(STUDIES):
        parser.error(f"study must be one of {', '.join(STUDIES)}, got {min(unknown)!r}")
    sets = [] if given.rounds is None else [f"rounds={given.rounds}"]
    base = Experiment.load(FILE, sets=sets)
    for study in given.studies or STUDIES:
        compare(study, base, given.seeds, given.runs / study, given.out)


def compare(study: str, base: Experiment, seeds: str, folder: Path, out: Path) -> None:
    """Run one study, and write its tables."""
    title, variants_of, about = STUDIES[study]
    comparison = Comparison(variants_of(base), read_seeds(seeds), folder)
    results = run_missing(comparison)
    found: Found = {
        name: {seed: Told.of(run) for seed, run in runs.items()} for name, runs in results.items()
    }
    variants = [
        Variant(name, {seed: run.curves for seed, run in runs.items()})
        for name, runs in found.items()
    ]
    out.mkdir(parents=True, exist_ok=True)
    where = next(describe_recording(run) for runs in results.values() for run in runs.values())
    seeds = f"seed{'s' if len(variants[0].seeds) > 1 else ''} {seeds}, {base.rounds} rounds"
    command = f"python -m experiments.faults.run {study}"
    text = [f"# {title}\n", f"`{command}`, {seeds}; {where}.\n"]
    text += about(found, variants, base)
    (out / f"{study}.md").write_text("\n".join(text).rstrip() + "\n")
    told = data(variants)
    told["runs"] = {
        name: {seed: _of_run(run) for seed, run in runs.items()} for name, runs in found.items()
    }
    told["experiments"] = {run.variant: run.experiment.to_toml() for run in comparison.runs}
    (out / f"{study}.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
