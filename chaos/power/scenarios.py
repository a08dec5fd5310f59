"""The recorded runs: small ones that together do everything that runs do to their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["RUN", "SCENARIOS", "Part", "Scenario"]

RUN = "new/run"
"""The run directory, below the recorded folder; its parent folder does not exist before."""

_TOML = """
seed = 1
rounds = {rounds}
[clients]
count = 6
active = 0.8
[local]
steps = 1
batch_size = 4
lr = 0.05
[checkpoints]
rounds = {every}
keep = {keep}
[engine]
kind = "inline"
{more}
[[tasks]]
name = "first"
dataset = {{ kind = "synthetic", classes = 2, train = 40, test = 10, noise = 0.5 }}
model = {{ kind = "mlp", hidden = [4] }}
[[tasks]]
name = "second"
dataset = {{ kind = "synthetic", classes = 3, train = 40, test = 10, seed = 2 }}
model = {{ kind = "mlp", hidden = [4] }}
"""

_AUCTION = """
[recruitment]
bids = { kind = "uniform", low = 0.1, high = 1.0 }
mechanism = { kind = "max_min_fair", budget = 2.5 }
dropouts = "unpaid"
[faults]
dropout = 0.2
[[faults.clients]]
does = "nan"
share = 0.3
rate = 0.5
[quarantine]
strikes = 1
rounds = 2
"""


@dataclass(frozen=True)
class Part:
    """One process's share of a run.

    Attributes:
        rounds: The rounds of its experiment.
        stop: The round after which it is interrupted; None = it finishes.
    """

    rounds: int
    stop: int | None = None


@dataclass(frozen=True)
class Scenario:
    """A run that is recorded.

    Attributes:
        name: Of the run.
        parts: The processes that run it, one after another.
        every: The number of rounds between checkpoints.
        keep: How many checkpoints are kept.
        more: More lines of the experiment.
        reader: Whether another connection reads the database while the run finishes.
        wal: Pages after which SQLite moves its log into the database; None = its default.
        start: A run directory, as a tree (see `power.disk`), that the first part resumes.
        promised: The round of the checkpoint that this directory must not lose.
    """

    name: str
    parts: tuple[Part, ...]
    every: int = 1
    keep: int = 2
    more: str = ""
    reader: bool = False
    wal: int | None = None
    start: Mapping[str, bytes | None] | None = field(default=None, repr=False)
    promised: int = 0

    def toml(self, rounds: int) -> str:
        """The experiment, with this many rounds."""
        return _TOML.format(rounds=rounds, every=self.every, keep=self.keep, more=self.more)

    @property
    def final(self) -> str:
        """The experiment that a power cut is resumed with."""
        return self.toml(self.parts[-1].rounds)

    def job(self, root: Path, log: Path) -> dict[str, object]:
        """What `recorded.py` needs to know about it."""
        return {
            "parts": [{"toml": self.toml(p.rounds), "stop": p.stop} for p in self.parts],
            "every": self.every if self.keep else 0,
            "reader": self.reader,
            "wal": self.wal,
            "root": str(root),
            "run": RUN,
            "log": str(log),
        }


SCENARIOS = (
    Scenario("two rounds", (Part(2),), keep=1),
    Scenario("straight", (Part(5),)),
    Scenario("one checkpoint kept", (Part(6),), every=2, keep=1),
    Scenario("auction", (Part(4),), more=_AUCTION),
    Scenario("no checkpoints", (Part(2),), keep=0, more=_AUCTION),
    Scenario("stopped and resumed", (Part(6, stop=3), Part(6)), every=2),
    Scenario("finished and made longer", (Part(2), Part(4)), keep=1),
    Scenario("read while it finishes", (Part(2),), reader=True),
    Scenario("short log", (Part(5),), keep=3, wal=6),
    Scenario("short log, resumed", (Part(5, stop=2), Part(5)), keep=1, wal=6, more=_AUCTION),
)
