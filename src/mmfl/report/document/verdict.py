"""The verdict of a report: three sentences with numbers.

A sentence is a list of texts and of numbers; a number is where it is in the content, and its style.
So a page shows the number that the data has, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mmfl.errors import plural

__all__ = ["Sentence", "write_verdict"]

Sentence = list[Any]
"""Texts, and numbers as {"at": path, "style": style}."""


def write_verdict(chapter: Mapping[str, Any], path: str) -> list[Sentence]:
    """Three sentences about a chapter.

    Args:
        chapter: Its data.
        path: Where it is in the content.
    """
    variants = chapter["results"]["variants"]
    if not any(variant["worst"]["n"] for variant in variants):
        return [["Not all tasks have been measured yet, so there is no result."]]
    sentences = _compare(chapter, path) if len(variants) > 1 else _describe(chapter, path)
    return [list(_join(sentence)) for sentence in sentences]


def _number(path: str, style: str = "share") -> dict[str, str]:
    return {"at": path, "style": style}


def _join(sentence: Sequence[Any]) -> Iterator[Any]:
    """Neighbouring texts as one."""
    text = ""
    for part in sentence:
        if isinstance(part, str):
            text += part
            continue
        yield from ([text] if text else [])
        text = ""
        yield part
    yield from ([text] if text else [])


def _worst_of(variant: Mapping[str, Any]) -> float:
    mean = variant["worst"]["mean"]
    return float("-inf") if mean is None else float(mean)


def _merit_name(chapter: Mapping[str, Any]) -> str:
    """What the numbers are: the metric, if all tasks have the same and higher is better."""
    kinds = {task["metric"] for task in chapter["tasks"]}
    plain = {task["better"] for task in chapter["tasks"]} == {"higher"}
    return kinds.pop().replace("_", " ") if len(kinds) == 1 and plain else "merit"


def _after(chapter: Mapping[str, Any]) -> str:
    rounds = sorted({n for v in chapter["results"]["variants"] for n in v["rounds"]})
    if len(rounds) == 1:
        return f"after {plural(rounds[0], 'round')}"
    return f"after {rounds[0]} to {rounds[-1]} rounds"


def _seeds(variant: Mapping[str, Any]) -> str:
    count = len(variant["seeds"])
    return "one seed" if count == 1 else f"mean of {count} seeds"


def _compare(chapter: Mapping[str, Any], path: str) -> Iterator[Sentence]:
    variants = chapter["results"]["variants"]
    order = sorted(range(len(variants)), key=lambda n: -_worst_of(variants[n]))
    best, *others = order
    at = f"{path}.results.variants"
    name = variants[best]["name"]
    if len({f"{_worst_of(variant):.3f}" for variant in variants}) == 1:
        yield [
            f"No variant is ahead: {_after(chapter)} the worst task's {_merit_name(chapter)} is ",
            _number(f"{at}.{best}.worst.mean"), f" with each of them ({_seeds(variants[best])}).",
        ]  # fmt: skip
        yield from _cost(chapter, path, best, others)
        return
    single = len(chapter["tasks"]) == 1
    what = f"{chapter['tasks'][0]['name']} is best" if single else "the worst task is best off"
    sentence = [
        f"With {name} {what}: {_after(chapter)} its {_merit_name(chapter)} is ",
        _number(f"{at}.{best}.worst.mean"),
        ", against ",
    ]
    for place, other in enumerate(others[:3]):
        sentence += [" and " * (place > 0), _number(f"{at}.{other}.worst.mean")]
        sentence += [f" with {variants[other]['name']}"]
    more = len(others) - 3
    sentence += [f" and less with {plural(more, 'other')}" * (more > 0)]
    yield [*sentence, f" ({_seeds(variants[best])})."]
    yield from _lead(chapter, path)
    yield from _cost(chapter, path, best, others)


def _lead(chapter: Mapping[str, Any], path: str) -> Iterator[Sentence]:
    """How sure it is that the best variant is ahead of the next."""
    lead = chapter["lead"]
    if lead is None or lead["mean"] is None:
        return
    sentence: Sentence = [f"Its lead over {lead['over']}, seed by seed, is "]
    sentence += [_number(f"{path}.lead.mean"), " on average" * (lead["seeds"] > 1)]
    if lead["interval"] is not None:
        sure = lead["interval"][0] > 0
        sentence += [
            " (95% interval ", _number(f"{path}.lead.interval.0"), " to ",
            _number(f"{path}.lead.interval.1"), "), which ",
            "chance alone would hardly explain" if sure else "may be chance",
        ]  # fmt: skip
    sentence += ["; it is ahead in ", _number(f"{path}.lead.ahead", "count"), " of "]
    yield [*sentence, _number(f"{path}.lead.seeds", "count"), f" seed{'s' * (lead['seeds'] > 1)}."]


def _cost(
    chapter: Mapping[str, Any], path: str, best: int, others: Sequence[int]
) -> Iterator[Sentence]:
    """What happens to the mean, and how soon a target is reached."""
    results = chapter["results"]
    at = f"{path}.results.variants"
    other = others[0]
    sentence: Sentence = []
    if len(chapter["tasks"]) > 1:
        sentence += [
            "The mean over tasks is ", _number(f"{at}.{best}.mean.mean"),
            f" with {results['variants'][best]['name']} and ",
            _number(f"{at}.{other}.mean.mean"),
            f" with {results['variants'][other]['name']}",
        ]  # fmt: skip
    if results["target"] is not None:
        start = "; all tasks reach " if sentence else "It reaches "
        sentence += [start, _number(f"{path}.results.target", "plain")]
        for place, one in enumerate((best, other)):
            reached = results["variants"][one]["rounds_to_target"]
            name = results["variants"][one]["name"]
            sentence += [" and " if place else " "]
            if not reached["n"]:
                sentence += [f"never with {name}"]
                continue
            sentence += ["after ", _number(f"{at}.{one}.rounds_to_target.mean", "rounds")]
            total = len(results["variants"][one]["seeds"])
            only = f" (in {reached['n']} of {total} seeds)" * (reached["n"] < total)
            sentence += [f"{' rounds' * (not place)} with {name}{only}"]
    if sentence:
        yield [*sentence, "."]


def _describe(chapter: Mapping[str, Any], path: str) -> Iterator[Sentence]:
    """A single variant."""
    variant = chapter["results"]["variants"][0]
    at = f"{path}.results.variants.0"
    tasks = chapter["tasks"]
    start = f"{_after(chapter)[0].upper()}{_after(chapter)[1:]}"
    if len(tasks) == 1:
        yield [
            f"{start} the {_merit_name(chapter)} of {tasks[0]['name']} is ",
            _number(f"{at}.worst.mean"), f" ({_seeds(variant)}).",
        ]  # fmt: skip
    else:
        merits = {
            task["name"]: variant["tasks"][_label(variant, task["name"])]["mean"] for task in tasks
        }
        plain = _merit_name(chapter) != "merit"
        known = {name: value for name, value in merits.items() if value is not None}
        lowest = f", {min(known, key=lambda n: known[n])}," if plain and known else ""
        yield [
            f"{start} the worst of {len(tasks)} tasks{lowest} has {_merit_name(chapter)} ",
            _number(f"{at}.worst.mean"), " and the mean over tasks is ",
            _number(f"{at}.mean.mean"), f" ({_seeds(variant)}).",
        ]  # fmt: skip
        yield [
            "Jain's index of the tasks is ", _number(f"{at}.jain.mean"),
            " (1 if all are equal), and their variance is ",
            _number(f"{at}.variance.mean", "variance"), ".",
        ]  # fmt: skip
    yield _describe_turns(chapter, path)


def _label(variant: Mapping[str, Any], name: str) -> str:
    return name if name in variant["tasks"] else next(iter(variant["tasks"]))


def _describe_turns(chapter: Mapping[str, Any], path: str) -> Sentence:
    turns, troubles = chapter["turns"][0], chapter["troubles"][0]
    shares = [share or 0.0 for share in turns["share"]]
    most = shares.index(max(shares))
    sentence: Sentence = []
    if len(shares) > 1 and max(shares):
        sentence += [
            f"{chapter['tasks'][most]['name']} got the most of the clients' turns, ",
            _number(f"{path}.turns.0.share.{most}", "percent"), ", and ",
        ]  # fmt: skip
    if not troubles["failed"]:
        return [*sentence, "no turn failed." if sentence else "No turn failed."]
    sentence += [_number(f"{path}.troubles.0.failed", "count"), " of "]
    return [*sentence, _number(f"{path}.troubles.0.turns", "count"), " turns failed."]
