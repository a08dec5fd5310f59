"""The turns of one run in brief: how many, whose, and a map of clients and rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mmfl.runs import TurnTable

__all__ = ["FAILED", "SEVERAL", "TurnMap", "TurnSummary", "summarise_turns"]

Ints = npt.NDArray[np.int64]

SEVERAL, FAILED = 254, 255
"""In a map: the client trained several tasks in that round, or its turn failed."""

_ROWS, _COLUMNS = 400, 1000
_TASKS = 200
"""How many tasks a map tells apart."""


@dataclass(frozen=True, eq=False)
class TurnMap:
    """Who trained what in which round.

    Attributes:
        clients: The ids of the rows: those with the lowest ids that had a turn.
        others: How many more clients had a turn.
        rounds: How many rounds there are.
        step: A column for every so many rounds.
        cells: 0 for no turn, s + 1 for task number s, or `SEVERAL` or `FAILED`.
    """

    clients: Ints
    others: int
    rounds: int
    step: int
    cells: npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class TurnSummary:
    """What became of the turns of a run.

    Attributes:
        asked: By task: how many turns there were.
        used: How many clients had a turn.
        busiest: The most turns that a client had.
        map: Who trained what in which round.
    """

    asked: Ints
    used: int
    busiest: int
    map: TurnMap

    @property
    def count(self) -> int:
        """How many turns there were."""
        return int(self.asked.sum())


def summarise_turns(turns: TurnTable, rounds: int, tasks: int) -> TurnSummary:
    """The turns of a run in brief.

    Args:
        turns: All of them.
        rounds: How many rounds the run has done.
        tasks: How many tasks it has.
    """
    ids, counts = np.unique(turns.clients, return_counts=True)
    return TurnSummary(
        asked=np.bincount(turns.tasks, minlength=tasks),
        used=len(ids),
        busiest=int(counts.max(initial=0)),
        map=_draw(turns, ids, rounds),
    )


def _draw(turns: TurnTable, ids: Ints, rounds: int) -> TurnMap:
    shown = ids[:_ROWS]
    step = max(-(-rounds // _COLUMNS), 1)
    cells = np.zeros((len(shown), -(-rounds // step)), np.uint8)
    seen = ((turns.rounds - 1) % step == 0) & np.isin(turns.clients, shown)
    row = np.searchsorted(shown, turns.clients[seen])
    column = (turns.rounds[seen] - 1) // step
    cells[row, column] = np.minimum(turns.tasks[seen], _TASKS - 1) + 1
    times = np.zeros(cells.shape, np.int64)
    np.add.at(times, (row, column), 1)
    cells[times > 1] = SEVERAL
    lost = ~turns.accepted[seen]
    cells[row[lost], column[lost]] = FAILED
    return TurnMap(shown, len(ids) - len(shown), rounds, step, cells)
