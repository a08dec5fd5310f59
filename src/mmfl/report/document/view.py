"""What the page of a chapter shows, prepared for its template: tables, charts, captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mmfl.errors import plural
from mmfl.report.document.charts import draw_bars, draw_lines, draw_shares
from mmfl.report.document.numbers import find
from mmfl.report.document.view_tables import list_columns, list_differences, list_tasks
from mmfl.report.document.view_troubles import list_auctions, list_troubles, say_no_troubles

__all__ = ["View", "describe_period", "prepare"]

View = dict[str, Any]

_SECTIONS = (
    ("verdict", "Verdict"),
    ("what", "What was run"),
    ("results", "Results"),
    ("tasks", "Tasks"),
    ("clients", "Clients"),
    ("auction", "Auction"),
    ("failures", "Failures"),
    ("time", "Time"),
    ("runs", "Runs"),
)

_CROWD = 4
"""From more lines on, bands are paler."""

_MAP_WIDTH, _MAP_HEIGHT = 420, 260
_WIDE_MAP = 200
"""From more columns on, a map takes a row of the page."""

_MEASURES = {
    "worst": ("Worst task", "higher is better", "share"),
    "mean": ("Mean over tasks", "higher is better", "share"),
    "variance": ("Variance over tasks", "lower is better", "variance"),
    "jain": ("Jain's index", "1 if all tasks are equal", "share"),
}


def prepare(content: Mapping[str, Any]) -> list[View]:
    """The view of each chapter."""
    several = len(content["chapters"]) > 1
    return [
        _prepare(content, chapter, f"chapters.{number}", f"part-{number + 1}-" * several)
        for number, chapter in enumerate(content["chapters"])
    ]


def describe_period(content: Mapping[str, Any]) -> str:
    """How many runs there are, and when they were started."""
    runs = plural(sum(len(chapter["runs"]) for chapter in content["chapters"]), "run")
    times = [time.replace("T", " ").replace("+00:00", " UTC") for time in content["started"]]
    if not times:
        return f"{runs}."
    when = times[0] if len(times) == 1 else f"from {times[0]} to {times[-1]}"
    return f"{runs}, started {when}."


def _prepare(content: Mapping[str, Any], chapter: Mapping[str, Any], at: str, anchor: str) -> View:
    names = [variant["name"] for variant in chapter["results"]["variants"]]
    maps = _list_maps(chapter, at, names)
    troubles = list_troubles(chapter, at)
    for trouble in troubles:
        where = find(content, trouble["at"])
        trouble["svg"] = (
            draw_bars(where["edges"], where["by_round"], f"Failed turns: {trouble['title']}")
            if any(where["by_round"])
            else ""
        )
    alone = len(names) == 1
    return {
        "at": at,
        "id": anchor,
        "chapter": chapter,
        "sections": _SECTIONS,
        "notes": _write_notes(chapter),
        "columns": list_columns(chapter),
        "tasks": list_tasks(chapter),
        "differences": list_differences(chapter, at),
        "measures": _draw_measures(content, chapter, at, names),
        "lines_are_tasks": alone,
        "curves": (_draw_together if alone else _draw_tasks)(content, chapter, at, names),
        "shares": _draw_shares(chapter, names),
        "maps": maps,
        "several": any(map_["several"] for map_ in maps),
        "failed": any(map_["failed"] for map_ in maps),
        "wide_maps": any(map_["columns"] > _WIDE_MAP for map_ in maps),
        "auctions": list_auctions(chapter, at),
        "troubles": troubles,
        "no_troubles": say_no_troubles(chapter, at),
        "times": _chart(
            content, at, "Seconds per round", "mean over seeds", names,
            [f"{at}.times.{v}.by_round" for v in range(len(names))], "seconds",
        ),
        "virtual": any(times["virtual"] for times in chapter["times"]),
    }  # fmt: skip


def _write_notes(chapter: Mapping[str, Any]) -> dict[str, str]:
    counts = sorted({len(variant["seeds"]) for variant in chapter["results"]["variants"]})
    seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    many = counts[-1] > 1
    spread = f"mean ± standard deviation over {seeds} seeds" if many else "one seed"
    bold = " Bold: best." if len(chapter["results"]["variants"]) > 1 else ""
    results = f"After the last round: {spread}.{bold} ↓: lower is better."
    if {task["better"] for task in chapter["tasks"]} != {"higher"}:
        results += (
            " Worst, mean, variance and Jain's index are of merits: 1 - metric where lower is"
            " better, 1 / metric if that is perplexity."
        )
    bands = "Lines are means over seeds; bands go from the lowest to the highest seed."
    held = " Runs that ended early keep their last values." * chapter["curves"]["held"]
    return {"results": results, "bands": (bands if many else "One seed.") + held}


def _chart(
    content: Mapping[str, Any],
    at: str,
    title: str,
    note: str,
    names: Sequence[str],
    lines: Sequence[str],
    style: str,
    *,
    wide: bool = False,
) -> View:
    """A chart of lines over the rounds."""
    rounds = f"{at}.curves.rounds"
    found = [find(content, line) for line in lines]
    drawn = [line if isinstance(line, Mapping) else {"mean": line} for line in found]
    return {
        "title": title,
        "note": note,
        "names": list(names),
        "lines": list(lines),
        "rounds": rounds,
        "style": style,
        "crowded": len(lines) > _CROWD,
        "svg": draw_lines(find(content, rounds), drawn, f"{title} over the rounds", wide=wide),
    }


def _draw_measures(
    content: Mapping[str, Any], chapter: Mapping[str, Any], at: str, names: Sequence[str]
) -> list[View]:
    """The curves of all tasks together; of a single task, there is nothing to average."""
    measures = list(_MEASURES) if len(chapter["tasks"]) > 1 else ["worst"]
    found = []
    for key in measures:
        title, note, style = _MEASURES[key]
        title = title if len(chapter["tasks"]) > 1 else chapter["tasks"][0]["name"]
        lines = [f"{at}.curves.measures.{key}.{v}" for v in range(len(names))]
        found.append(_chart(content, at, title, note, names, lines, style))
    return found


def _draw_tasks(
    content: Mapping[str, Any], chapter: Mapping[str, Any], at: str, names: Sequence[str]
) -> list[View]:
    """A chart for each task, with a line for each variant."""
    return [
        _chart(
            content, at, task["name"], _name_metric(task), names,
            [f"{at}.curves.tasks.{s}.variants.{v}" for v in range(len(names))], "share",
        )
        for s, task in enumerate(chapter["tasks"])
    ]  # fmt: skip


def _draw_together(
    content: Mapping[str, Any], chapter: Mapping[str, Any], at: str, names: Sequence[str]
) -> list[View]:
    """All tasks of the only variant: those with the same metric share a chart.

    A chart has a line for every task, so that the buttons fit; those of other charts are empty.
    """
    tasks = chapter["tasks"]
    kinds = list(dict.fromkeys((task["metric"], task["better"]) for task in tasks))
    if len(kinds) > 1:
        return [
            {
                **_chart(
                    content, at, task["name"], _name_metric(task), [task["name"]],
                    [f"{at}.curves.tasks.{s}.variants.0"], "share",
                ),
            }
            for s, task in enumerate(tasks)
        ]  # fmt: skip
    lines = [f"{at}.curves.tasks.{s}.variants.0" for s in range(len(tasks))]
    title = tasks[0]["metric"].replace("_", " ") or "metric"
    every = [task["name"] for task in tasks]
    return [
        _chart(
            content, at, title[0].upper() + title[1:], names[0], every, lines, "share", wide=True
        )
    ]


def _name_metric(task: Mapping[str, Any]) -> str:
    low = " (lower is better)" if task["better"] == "lower" else ""
    return f"{task['metric'].replace('_', ' ') or 'metric'}{low}"


def _draw_shares(chapter: Mapping[str, Any], names: Sequence[str]) -> list[View]:
    tasks = [task["name"] for task in chapter["tasks"]]
    found = []
    for name, turns in zip(names, chapter["turns"], strict=True):
        width = turns["edges"][1] - turns["edges"][0]
        note = f"in steps of {plural(width, 'round')}" if width > 1 else "round by round"
        title = f"Shares of turns with {name}"
        svg = draw_shares(turns["edges"], turns["counts"], tasks, title)
        found.append({"title": name, "note": note, "svg": svg})
    return found


def _list_maps(chapter: Mapping[str, Any], at: str, names: Sequence[str]) -> list[View]:
    found = []
    for v, (name, turns) in enumerate(zip(names, chapter["turns"], strict=True)):
        map_ = turns["map"]
        if map_ is None:
            continue
        note = f"seed {map_['seed']}"
        if map_["step"] > 1:
            note += f", every {map_['step']} rounds"
        if map_["others"]:
            note += f", the first {len(map_['clients'])} clients; {map_['others']:,} others"
        rows = len(map_["clients"])
        found.append(
            {
                "at": f"{at}.turns.{v}.map",
                "title": name,
                "note": note,
                "alt": f"Which task each client trained in each round with {name}",
                "image": map_["image"],
                "several": map_["several"],
                "failed": map_["failed"],
                "columns": -(-map_["rounds"] // map_["step"]),
                "width": _MAP_WIDTH,
                "height": round(rows * min(max(_MAP_HEIGHT / rows, 2), 14)),
            }
        )
    return found
