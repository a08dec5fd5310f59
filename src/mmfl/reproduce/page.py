"""The page of results: every study with its command, figure, tables and verdicts, as Markdown."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from mmfl.config import read_text_file
from mmfl.reproduce.archive import Archive
from mmfl.reproduce.auctions import AuctionStudy
from mmfl.reproduce.claims import Claim, Outcome
from mmfl.reproduce.reproduction import Reproduction
from mmfl.reproduce.tables import (
    TextTable,
    describe_outcome,
    make_overview,
    make_times,
    write_paper,
)
from mmfl.system.files import exists

__all__ = ["make_results_page", "read_summary"]

_INTRO = """# The paper's experiments, reproduced at the scale "{scale}"

This page is written by `{command}`.

{about}

**How to read it.** Final values are means over the last tenth of the rounds. A difference is
computed seed by seed; brackets hold its 95% confidence interval. A claim *holds* if the interval is
on its side of zero, *fails* if it is on the other side, and is *not decided* otherwise. There are
{claims} intervals on this page, so expect about one in twenty to miss its true value. All rules
share aggregation (except q-Fel), data, seeds, initial models and evaluation.
"""


def make_results_page(studies: Sequence[Reproduction], scale: str, summary: str = "") -> str:
    """The page, from stored results.

    Args:
        studies: In the order of the page; those without results are named at the end.
        scale: Their scale.
        summary: What a person concludes from it all, as Markdown.
    """
    stored = [(one, one.load_results()) for one in studies]
    known = [(one, runs, _check(one)) for one, runs in stored if runs.runs]
    missing = [one.name for one, runs in stored if not runs.runs]
    verdicts = Counter(o.verdict for _, _, found in known for _, o in found if o and o.verdict)
    count = sum(verdicts.values())
    about = textwrap.fill(studies[0].scale.about, 100)
    command = _write_page_command(scale)
    parts = [_INTRO.format(scale=scale, command=command, about=about, claims=count)]
    if verdicts:
        text = (
            f"{verdicts['holds']} hold, {verdicts['not decided']} are not decided, "
            f"{verdicts['fails']} fail"
        )
        parts.append(f"Of {count} claims that were checked, {text}.\n")
    parts += [summary] if summary else []
    for one, runs, found in known:
        parts += _describe_study(one, runs, scale)
        parts += _describe_claims(found)
    if missing:
        parts.append(f"Not run yet at this scale: {', '.join(missing)}.\n")
    return "\n".join(parts)


def _describe_study(one: Reproduction, runs: Archive, scale: str) -> Iterator[str]:
    """A study's title, command, figure and tables, without its claims."""
    title = f"## {one.name}: {one.study.title}\n\n{one.study.paper}."
    made = f"{runs.minutes:.0f} minutes of runs; {'; '.join(runs.made)}."
    yield f"{title}\n\n    {_write_study_command(one.name, scale)}\n\n{made}\n"
    if exists(one.figure):
        yield f"![{one.study.title}](results/{scale}/{one.figure.name})\n"
    if not isinstance(one.study, AuctionStudy):
        yield make_overview(runs.variants()).markdown() + "\n"
        yield from _describe_times(runs)


def _describe_claims(found: Sequence[tuple[Claim, Outcome | None]]) -> Iterator[str]:
    """The table of the claims that could be checked, and how many could not."""
    rows = [
        [claim.says, write_paper(claim.paper, o), describe_outcome(o), o.verdict, o.detail]
        for claim, o in found
        if o is not None
    ]
    if rows:
        head = ["claim", "paper", "here", "verdict", "detail"]
        yield TextTable(head, rows).markdown() + "\n"
    unknown = len(found) - len(rows)
    if unknown:
        yield f"{unknown} claims of this study have no complete runs yet.\n"


def _describe_times(runs: Archive) -> Iterator[str]:
    """The times to the tasks' targets, as far as they are known."""
    for unit, words in (("rounds", "Rounds"), ("seconds", "Virtual seconds")):
        table = make_times(runs.variants(), unit)
        if table is not None:
            text = (
                f"{words} until a task reaches its target for the first time. A run that never "
                "does counts with its length: >12.5 (1/4) is a lower limit, because one of four "
                "runs never does."
            )
            yield textwrap.fill(text, 100) + "\n"
            yield table.markdown() + "\n"


def _write_page_command(scale: str) -> str:
    return f"mmfl reproduce all --scale {scale} --figures-only --store"


def _write_study_command(study: str, scale: str) -> str:
    return f"mmfl reproduce {study} --scale {scale}"


def _check(one: Reproduction) -> list[tuple[Claim, Outcome | None]]:
    runs = one.load_results().variants()
    return [(claim, claim.check(runs)) for claim in one.study.claims]


def read_summary(folder: Path, scale: str) -> str:
    """What a person wrote about the results, if there is such a file."""
    path = folder / "results" / scale / "summary.md"
    return read_text_file(path) if exists(path) else ""
