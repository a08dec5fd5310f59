"""The report as Markdown: the same numbers, without the curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mmfl.report.document.numbers import find, show
from mmfl.report.document.view import describe_period
from mmfl.report.document.view_tables import list_columns, list_differences, list_tasks
from mmfl.report.document.view_troubles import list_auctions, list_troubles, say_no_troubles
from mmfl.report.grid import markdown_table
from mmfl.report.words import escape_markdown

__all__ = ["MARK", "render_markdown"]

MARK = "<!-- mmfl report -->"
"""The first line: such a file may be replaced by another report."""


def render_markdown(content: Mapping[str, Any]) -> str:
    """The report as a page of GitHub's Markdown."""
    chapters = content["chapters"]
    lines = [
        MARK,
        f"# {_escape(content['title'])}",
        f"{describe_period(content)} All results are on the test split. Written by mmfl "
        f"{content['mmfl']}.",
    ]
    for number, chapter in enumerate(chapters):
        if len(chapters) > 1:
            lines.append(f"# Part {number + 1}: {_escape(chapter['name'])}")
        lines += _write_chapter(content, chapter, f"chapters.{number}")
    if content["left_out"]:
        lines.append("## Left out")
        lines += [
            f"- {_escape(one['folder'])}: {_escape(one['why'])}" for one in content["left_out"]
        ]
    return "\n\n".join(line.rstrip("\n") for line in lines) + "\n"


def _escape(text: Any) -> str:
    return escape_markdown(str(text))


def _write_chapter(
    content: Mapping[str, Any], chapter: Mapping[str, Any], at: str
) -> Iterator[str]:
    variants = chapter["results"]["variants"]
    names = [_escape(variant["name"]) for variant in variants]
    yield "## Verdict"
    yield from (_say(content, sentence) for sentence in chapter["verdict"])
    if chapter["remarks"]:
        yield "\n".join(f"- {_escape(remark['text'])}" for remark in chapter["remarks"])
    yield "## What was run"
    yield from _write_experiment(chapter, names)
    yield "## Results"
    columns = list_columns(chapter)
    cells = [
        [name, *(_spread(content, f"{at}.results.variants.{v}.{one['key']}", one["style"],
                         len(variants[v]["seeds"]), bold=v in one["best"]) for one in columns)]
        for v, name in enumerate(names)
    ]  # fmt: skip
    yield markdown_table(["", *(_escape(one["title"]) for one in columns)], cells)
    if len(chapter["tasks"]) > 1:
        rows = [
            [_escape(one["title"]), *(
                _spread(content, f"{at}.results.variants.{v}.{one['key']}", one["style"],
                        len(variants[v]["seeds"]), bold=v in one["best"])
                for v in range(len(names))
            )]
            for one in list_tasks(chapter)
        ]  # fmt: skip
        yield markdown_table(["", *names], rows)
    yield from _write_differences(content, chapter, at)
    yield "## Where the clients went"
    yield _write_turns(content, chapter, at, names)
    yield "## Auction"
    yield from _write_auctions(content, chapter, at)
    yield "## Failures, dropouts and faults"
    yield from _write_troubles(content, chapter, at)
    yield "## Time"
    keys = ("seconds", "seconds_train", "seconds_evaluate", "seconds_setup")
    times = [
        [name, *(_spread(content, f"{at}.times.{v}.{key}", "seconds", len(variants[v]["seeds"]))
                 for key in keys)]
        for v, name in enumerate(names)
    ]  # fmt: skip
    yield markdown_table(["", "all rounds", "training", "evaluation", "before round 1"], times)
    yield "## Runs and environment"
    yield _write_runs(content, chapter, at)
    made = {
        one["name"]: [v["value"] or "none" for v in one["values"]] for one in chapter["environment"]
    }
    yield "\n".join(f"- {_escape(name)}: {_escape(', '.join(v))}" for name, v in made.items())


def _say(content: Mapping[str, Any], sentence: Sequence[Any]) -> str:
    return "".join(
        _escape_inside(part)
        if isinstance(part, str)
        else show(find(content, part["at"]), part["style"])
        for part in sentence
    )


def _escape_inside(text: str) -> str:
    """A part of a sentence, with the blanks around it."""
    start, end = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return f"{start}{_escape(text.strip())}{end}" if text.strip() else text


def _spread(
    content: Mapping[str, Any], at: str, style: str, seeds: int, *, bold: bool = False
) -> str:
    found = find(content, at)
    if not found["n"]:
        return "never" if style == "rounds" else "-"
    mean = show(found["mean"], style)
    text = f"**{mean}**" if bold else mean
    if found["sd"] is not None:
        text += f" ±{show(found['sd'], style)}"
    return text if found["n"] >= seeds else f"{text} {found['n']}/{seeds}"


def _write_experiment(chapter: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    experiment = chapter["experiment"]
    keys = ("name", "dataset", "model", "partition", "loss", "metric")
    rows = [[_escape(task[key]) for key in keys] for task in experiment["tasks"]]
    head = ["task", "data set", "model", "partition", "loss", "metric"]
    yield markdown_table(head, rows, left=len(head))
    facts = {"clients": experiment["clients"], "rounds": ", ".join(map(str, experiment["rounds"]))}
    yield "\n".join(
        f"- {title}: {_escape(text)}" for title, text in (facts | experiment["parts"]).items()
    )
    if experiment["varied"]:
        variants = [variant["name"] for variant in chapter["results"]["variants"]]
        varied = [
            [f"`{key}`", *(_escape(row[name]) for name in variants)]
            for key, row in experiment["varied"].items()
        ]
        yield markdown_table(["what differs", *names], varied, left=1 + len(names))


def _write_differences(
    content: Mapping[str, Any], chapter: Mapping[str, Any], at: str
) -> Iterator[str]:
    rows = list_differences(chapter, at)
    if not rows:
        return
    first = _escape(chapter["results"]["variants"][0]["name"])
    cells = []
    for row in rows:
        mean = show(find(content, f"{row['at']}.mean"), row["style"])
        ends = (
            [show(find(content, f"{row['at']}.interval.{k}"), row["style"]) for k in (0, 1)]
            if row["interval"]
            else []
        )
        ahead = find(content, f"{row['at']}.first_better")
        cells.append(
            [
                _escape(row["variant"]),
                _escape(row["title"]),
                f"**{mean}**" if row["sure"] else mean,
                f"[{', '.join(ends)}]" if ends else "-",
                f"{ahead} of {row['seeds']}",
            ]
        )
    head = ["", "", f"difference to {first}", "95% interval", f"{first} better in"]
    yield markdown_table(head, cells, left=2)


def _write_turns(
    content: Mapping[str, Any], chapter: Mapping[str, Any], at: str, names: Sequence[str]
) -> str:
    rows = []
    for v, name in enumerate(names):
        where = f"{at}.turns.{v}"
        shares = [
            f"{show(find(content, f'{where}.accepted.{s}'), 'count')} "
            f"({show(find(content, f'{where}.share.{s}'), 'percent')})"
            for s in range(len(chapter["tasks"]))
        ]
        rows.append([name, *shares])
    return markdown_table(["turns", *(_escape(task["name"]) for task in chapter["tasks"])], rows)


def _write_auctions(
    content: Mapping[str, Any], chapter: Mapping[str, Any], at: str
) -> Iterator[str]:
    auctions = list_auctions(chapter, at)
    if not auctions:
        yield "There was no auction."
    keys = ("willing", "winners", "take_up", "price", "highest_payment", "spend", "paid")
    for auction in auctions:
        yield f"### {_escape(auction['title'])}"
        yield _say(content, auction["summary"])
        rows = [
            [_escape(row["name"]), *(
                _spread(content, f"{row['at']}.{key}", "count" if key in keys[:3] else "money",
                        auction["seeds"])
                for key in keys
            )]
            for row in auction["rows"]
        ]  # fmt: skip
        head = [
            "",
            "willing",
            "winners",
            "take-up",
            "price",
            "highest payment",
            "committed",
            "paid",
        ]
        yield markdown_table(head, rows)
        yield _escape(auction["note"])


def _write_troubles(
    content: Mapping[str, Any], chapter: Mapping[str, Any], at: str
) -> Iterator[str]:
    troubles = list_troubles(chapter, at)
    if not troubles:
        yield _say(content, say_no_troubles(chapter, at))
    for trouble in troubles:
        yield f"### {_escape(trouble['title'])}"
        yield _say(content, trouble["summary"])
        if trouble["reasons"]:
            rows = [
                [*(_escape(row[key]) for key in ("task", "reason", "example")), f"{row['count']:,}"]
                for row in trouble["reasons"]
            ]
            yield markdown_table(["task", "reason", "for example", "turns"], rows, left=3)
        if trouble["faults"]:
            keys = ("injected", "lost", "refused", "accepted")
            faults = [
                [
                    _escape(fault["kind"]),
                    *(
                        f"{find(content, trouble['at'])['faults'][fault['kind']][key]:,}"
                        for key in keys
                    ),
                ]
                for fault in trouble["faults"]
            ]
            yield markdown_table(["injected fault", *keys], faults)


def _write_runs(content: Mapping[str, Any], chapter: Mapping[str, Any], at: str) -> str:
    rows = [
        [
            *map(_escape, (run["variant"], run["seed"], run["state"])),
            f"{run['rounds']}/{run['planned']}",
            show(find(content, f"{at}.runs.{number}.worst"), "share"),
            _escape(run["folder"]),
            run["fingerprint"][:16] or "-",
        ]
        for number, run in enumerate(chapter["runs"])
    ]
    head = ["variant", "seed", "state", "rounds", "worst", "folder", "fingerprint"]
    return markdown_table(head, rows, left=7)
