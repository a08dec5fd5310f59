"""Tables of a reproduction: the claims with their verdicts, and all variants in all settings.

Each table is a head and rows of text; it is printed, or written as Markdown or LaTeX.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmfl.report import Variant, make_text, markdown_table, number, spread
from mmfl.reproduce.claims import Outcome
from mmfl.reproduce.quantities import find_quantity
from mmfl.reproduce.times import Time, count_censored

if TYPE_CHECKING:
    from rich.table import Table

    from mmfl.reproduce.reproduction import Finding

__all__ = [
    "TextTable",
    "describe_outcome",
    "list_claims",
    "make_overview",
    "make_times",
    "write_paper",
]

OVERVIEW = ("mean", "worst", "variance")
"""The quantities of `make_overview`."""

_WORD = 14
"""Letters of a word that a narrow terminal does not break."""

_LATEX = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "_": r"\_",
        "#": r"\#",
        "$": r"\$",
        "±": r"$\pm$",
        "↓": r"$\downarrow$",
    }
)


@dataclass(frozen=True)
class TextTable:
    """A table of words and numbers.

    Attributes:
        head: Titles.
        rows: Of text, as long as the head.
        left: How many columns, from the left, hold words.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1

    def markdown(self) -> str:
        """As Markdown."""
        return markdown_table(self.head, self.rows, self.left)

    def latex(self) -> str:
        """As a LaTeX tabular; it needs the package booktabs."""
        sides = "l" * self.left + "r" * (len(self.head) - self.left)
        lines = [" & ".join(cell.translate(_LATEX) for cell in row) for row in self.rows]
        head = " & ".join(cell.translate(_LATEX) for cell in self.head)
        body = " \\\\\n".join(lines)
        return (
            f"\\begin{{tabular}}{{@{{}}{sides}@{{}}}}\n\\toprule\n{head} \\\\\n\\midrule\n"
            f"{body} \\\\\n\\bottomrule\n\\end{{tabular}}\n"
        )

    def draw(self) -> Table:
        """For a terminal; words are broken into lines where room is scarce."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for place, title in enumerate(self.head):
            side = "left" if place < self.left else "right"
            words = [word for row in self.rows for word in row[place].split()]
            table.add_column(
                title,
                justify=side,  # type: ignore[arg-type]
                no_wrap=place >= self.left,
                min_width=min(max(map(len, words), default=0), _WORD),
            )
        for row in self.rows:
            table.add_row(*map(make_text, row))
        return table


def list_claims(findings: Iterable[Finding]) -> Table:
    """Each claim, as two lines with the verdict before them: for a terminal of any width."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for finding in findings:
        *numbers, verdict = _describe(finding)
        words = zip(("paper", "stored", "yours", "tolerance"), numbers, strict=True)
        line = "   ".join(f"{word} {number}" for word, number in words if number != "–")
        table.add_row(make_text(verdict), make_text(finding.claim.says))
        table.add_row("", make_text(line or "no runs yet"))
    return table


def _describe(finding: Finding) -> list[str]:
    """The paper's number, the stored one, yours, the tolerance and the verdict."""
    outcome = finding.yours or finding.stored
    verdict = "" if outcome is None else outcome.verdict
    match = {"met": "as stored", "missed": "NOT AS STORED", "": ""}[finding.match]
    return [
        write_paper(finding.claim.paper, outcome),
        describe_outcome(finding.stored),
        describe_outcome(finding.yours),
        _write_tolerance(finding.tolerance, outcome),
        ", ".join(text for text in (verdict, match) if text) or "–",
    ]


def describe_outcome(outcome: Outcome | None) -> str:
    """The mean, and its 95% interval in brackets."""
    if outcome is None:
        return "–"
    mean = number(outcome.spread.mean, outcome.decimals, sign=outcome.signed)
    if outcome.interval is None:
        return mean
    ends = [number(end, outcome.decimals, sign=outcome.signed) for end in outcome.interval]
    return f"{mean} [{', '.join(ends)}]"


def make_overview(variants: Mapping[str, Mapping[str, Variant]]) -> TextTable:
    """All variants in all settings: final average, minimum and variance of the tasks' accuracies.

    Settings may have different tasks. The best of a column is marked with a star.
    """
    head = ["setting", "rule", "average", "minimum", "variance ↓", "seeds"]
    rows = []
    for setting, by_name in variants.items():
        columns = [
            {name: spread(v.values(find_quantity(what)).values()) for name, v in by_name.items()}
            for what in OVERVIEW
        ]
        best = [
            (min if find_quantity(what).better == "lower" else max)(
                column,
                key=lambda name, column=column: column[name].mean,  # type: ignore[misc]
            )
            for what, column in zip(OVERVIEW, columns, strict=True)
        ]
        for name, variant in by_name.items():
            cells = []
            for what, column, top in zip(OVERVIEW, columns, best, strict=True):
                decimals = find_quantity(what).decimals
                one = column[name]
                sd = "" if math.isnan(one.sd) else f" ±{number(one.sd, decimals)}"
                star = "*" if name == top and len(by_name) > 1 else ""
                cells.append(f"{star}{number(one.mean, decimals)}{sd}")
            rows.append([setting, name, *cells, str(len(variant.seeds))])
    return TextTable(head, rows, left=2)


def make_times(variants: Mapping[str, Mapping[str, Variant]], unit: str) -> TextTable | None:
    """How long each task takes to its target, in "rounds" or virtual "seconds"; None if unknown.

    A run that never gets there counts with its length, so that the mean is a lower limit: ">12.5
    (1/4)" if that is one of four runs, "never" if it is all of them.
    """
    rules = list(dict.fromkeys(name for by_name in variants.values() for name in by_name))
    rows = []
    for setting, by_name in variants.items():
        one = next(run for variant in by_name.values() for run in variant.runs.values())
        if not one.targets or (unit == "seconds" and one.virtual is None):
            continue
        for task, target in one.targets.items():
            cells = [_write_time(by_name.get(rule), Time(unit, task)) for rule in rules]
            rows.append([setting, task, number(target, 2), *cells])
    return TextTable(["setting", "task", "target", *rules], rows, left=2) if rows else None


def _write_time(variant: Variant | None, time: Time) -> str:
    """Mean and deviation over seeds, and how many of them never get there."""
    if variant is None:
        return "–"
    found = spread(time.of(run) for run in variant.runs.values())
    never = count_censored(time, variant.runs.values())
    if never == found.n:
        return "never"
    sd = "" if math.isnan(found.sd) else f" ±{number(found.sd, 1)}"
    return (
        f"{'>' if never else ''}{number(found.mean, 1)}{sd}{f' ({never}/{found.n})' * bool(never)}"
    )


def write_paper(paper: float | str | None, outcome: Outcome | None) -> str:
    """The paper's number, or how it puts it."""
    if paper is None:
        return "–"
    if isinstance(paper, str):
        return paper
    signed = outcome.signed if outcome is not None else True
    return number(paper, 3, sign=signed)


def _write_tolerance(tolerance: float, outcome: Outcome | None) -> str:
    if outcome is None or not math.isfinite(tolerance):
        return "–"
    return f"±{number(tolerance, outcome.decimals)}"
