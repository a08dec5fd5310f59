"""What a reader of a comparison must know about the runs behind it: what failed, what differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mmfl.report.curves import Curves
from mmfl.report.statistics import Variant
from mmfl.runs import TaskTurns, describe_mix, find_mixed_setups

__all__ = [
    "WARNING_SIGN",
    "Remark",
    "as_data",
    "count_turns",
    "failed_runs",
    "mark_name",
    "remarks",
]

WARNING_SIGN = "!"
"""Stands after the name of a variant that has a serious remark, and before that remark."""

_NAMED = 8
"""How many seeds a remark names."""


@dataclass(frozen=True)
class Remark:
    """A line under a table.

    Attributes:
        variant: The variant that it is about; "" = all of them.
        text: One sentence.
        serious: Whether the variant's numbers are not what they seem.
    """

    variant: str
    text: str
    serious: bool = False

    @property
    def line(self) -> str:
        """As it stands under a table."""
        about = f"{self.variant}: " if self.variant else ""
        return f"{f'{WARNING_SIGN} ' * self.serious}{about}{self.text}"


def remarks(variants: Sequence[Variant]) -> list[Remark]:
    """All remarks on the runs of these variants; serious ones come first."""
    found = [
        remark
        for variant in variants
        for remark in (*_find_untrained(variant), *_find_failed(variant), *_find_inexact(variant))
    ]
    made = find_mixed_setups(run.made_with for variant in variants for run in variant.runs.values())
    found += [Remark("", describe_mix(name, counts)) for name, counts in made.items()]
    return sorted(found, key=lambda remark: not remark.serious)


def failed_runs(failed: Mapping[tuple[str, int], Exception]) -> list[Remark]:
    """A remark on each run that failed, from variant and seed to an error that names the run."""
    found = []
    for (variant, seed), error in failed.items():
        why = str(error).removeprefix(f"{variant}, seed {seed}: ")
        found.append(Remark(variant, f"the run with seed {seed} failed: {why}", serious=True))
    return found


def mark_name(name: str, about: Iterable[Remark]) -> str:
    """A variant's name, with the mark if one of the remarks on it is serious."""
    serious = any(remark.serious and remark.variant == name for remark in about)
    return f"{name} {WARNING_SIGN}" if serious else name


def count_turns(variant: Variant) -> tuple[int, int]:
    """How many turns failed, and how many there were; over all seeds."""
    turns = [task for run in variant.runs.values() for task in run.outcomes.values()]
    failed = sum(task.failed for task in turns)
    return failed, failed + sum(task.accepted for task in turns)


def as_data(variant: Variant) -> dict[str, Any]:
    """What the remarks on a variant say, for JSON."""
    outcomes = [run.outcomes for run in variant.runs.values()]
    return {
        "failed_turns": {
            task: sum(run[task].failed for run in outcomes if task in run) for task in variant.tasks
        },
        "never_trained": {
            task: list(found) for task in variant.tasks if (found := _seeds(variant, task))
        },
        "inexact": {str(seed): run.inexact for seed, run in variant.runs.items() if run.inexact},
        "made_with": _list_setups(variant.runs.values()),
    }


def _list_setups(runs: Iterable[Curves]) -> dict[str, list[str]]:
    """What runs were made with: by name, one value if they are alike."""
    found: dict[str, list[str]] = {}
    for name, value in ((n, v) for run in runs for n, v in run.made_with.items()):
        if value not in found.setdefault(name, []):
            found[name].append(value)
    return found


def _seeds(variant: Variant, task: str) -> dict[int, TaskTurns]:
    """The seeds with which a task never trained."""
    by_seed = {seed: run.outcomes.get(task) for seed, run in variant.runs.items()}
    return {seed: turns for seed, turns in by_seed.items() if turns and not turns.trained}


def _find_untrained(variant: Variant) -> Iterable[Remark]:
    for task in variant.tasks:
        found = _seeds(variant, task)
        for kind in dict.fromkeys(map(_get_kind, found.values())):
            some = {seed: turns for seed, turns in found.items() if _get_kind(turns) == kind}
            most = max(some.values(), key=lambda turns: turns.failed)
            total = replace(most, failed=sum(turns.failed for turns in some.values()))
            said = f"task {task!r} never trained with {_list_seeds(some)}: {total.why}"
            yield Remark(variant.name, said, most.broken)


def _get_kind(turns: TaskTurns) -> tuple[bool, bool, bool]:
    """What seeds have in common that one remark is about."""
    return turns.failed > 0, turns.left_out, turns.nobody


def _find_failed(variant: Variant) -> Iterable[Remark]:
    """How many turns failed of the tasks that trained all the same."""
    runs = [[t for t in run.outcomes.values() if t.trained] for run in variant.runs.values()]
    turns = [task for run in runs for task in run]
    failed = sum(task.failed for task in turns)
    if failed:
        total = failed + sum(task.accepted for task in turns)
        reason = max(turns, key=lambda task: task.failed).reason
        said = f"{failed:,} of {total:,} turns failed; most common reason: {reason}"
        yield Remark(variant.name, said)


def _find_inexact(variant: Variant) -> Iterable[Remark]:
    for seed, run in variant.runs.items():
        if run.inexact:
            said = f"the run with seed {seed} is not bit-exact: it was {run.inexact}"
            yield Remark(variant.name, said)


def _list_seeds(seeds: Iterable[int]) -> str:
    numbers = [str(seed) for seed in seeds]
    more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
    return f"seed{'s' * (len(numbers) > 1)} {', '.join(numbers[:_NAMED])}{more}"
