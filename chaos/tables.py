"""Tables of bids: valid ones, damage to cells, and the formats in which programs write them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, Literal

from mmfl.rng import Stream

__all__ = ["bid_table", "change_cells", "write_table"]


def _one(choices: Sequence[Any], rng: Stream) -> Any:
    return choices[int(rng.integers(len(choices)))]


def bid_table(rng: Stream) -> list[list[str]]:
    """The cells of a table of bids: a header, and a line for each client."""
    tasks, clients = int(rng.integers(1, 6)), int(rng.integers(0, 30))
    named = bool(rng.random() < 0.7)
    ids = _one(["client", "user", "id", "name", "", "Client"], rng)
    header = [*([ids] if named else []), *(f"task {s}" for s in range(tasks))]
    whole = bool(rng.random() < 0.5)
    rows = []
    for k in range(clients):
        cells = [f"{rng.random():.{int(rng.integers(0, 6))}f}" for _ in range(tasks)]
        cells = ["" if rng.random() < 0.1 else cell for cell in cells]
        rows.append([*([str(k) if whole else f"client {k}"] if named else []), *cells])
    return [header, *rows]


CELLS = (
    *(
        "",
        " ",
        "-1",
        "-0",
        "0",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "Infinity",
        "1e400",
        "1e308",
        "1.7e308",
    ),
    *(
        "5e-324",
        "1e-400",
        "0x10",
        "1_000",
        "1,5",
        "1.2.3",
        "--1",
        "+3",
        ".",
        ".5",
        "5.",
        "1e",
        "e5",
    ),
    *("1d5", "abc", "é", "١٢٣", "½", "null", "None", "true", '"', '""', '"a', 'a"b', "'1'", "1;2"),
    *(
        "9" * 400,
        "0." + "1" * 400,
        "1" * 5000,
        "=1+1",
        "1 2",
        "\x00",
        "\x1a",
        "#",
        "1%",
        "$5",
        "a\nb",
    ),
)


SOUND = (
    *("", " ", "0", "-0", "inf", "Infinity", "1e308", "1.7e308", "5e-324", "1e-400", "+3", ".5"),
    *("5.", "0." + "1" * 400, "0.1", "0.30000000000000004", "1e-300", "1e15", "9" * 300, "1E5"),
)


def _cell(rng: Stream) -> str:
    return str(_one(SOUND if rng.random() < 0.5 else CELLS, rng))


def change_cells(cells: list[list[str]], rng: Stream) -> list[str]:
    """Damage a table of cells, in place."""
    done = []
    for _ in range(int(rng.integers(0, 4))):
        row = int(rng.integers(len(cells)))
        line = cells[row]
        column = int(rng.integers(max(1, len(line))))
        match int(rng.integers(9)):
            case 0 | 1 | 2 | 3 if line:
                line[column] = _cell(rng)
                done.append(f"cell {row}, {column}")
            case 4 if line:
                del line[column]
                done.append(f"cell {row}, {column} gone")
            case 5:
                line.insert(column, _cell(rng))
                done.append(f"cell {row}, {column} more")
            case 6:
                cells.insert(int(rng.integers(len(cells) + 1)), list(line))
                done.append(f"row {row} twice")
            case 7:
                cells.insert(row, [])
                done.append(f"empty line {row}")
            case _:
                for each in cells[1:]:
                    if column < len(each):
                        each[column] = _cell(rng)
                done.append(f"column {column}")
    return done


def write_table(cells: list[list[str]], rng: Stream) -> bytes:
    """The table as text, in one of the formats in which programs write such tables."""
    separator = str(rng.choice([",", ";", "\t", "|", " "], p=[0.9, 0.03, 0.03, 0.02, 0.02]))
    ends = str(rng.choice(["\n", "\r\n", "\r"], p=[0.8, 0.17, 0.03]))
    every = rng.random() < 0.1
    if rng.random() < 0.5:
        return ends.join(separator.join(line) for line in cells).encode() + ends.encode()
    text = io.StringIO()
    quoting: Literal[0, 1] = csv.QUOTE_ALL if every else csv.QUOTE_MINIMAL
    csv.writer(text, delimiter=separator, lineterminator=ends, quoting=quoting).writerows(cells)
    return text.getvalue().encode()
