"""All that rounds need, set up once, for the round loop and for stored runs alike.

Whatever is wrong with data, clients or models shows here, before the first round.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mmfl.loop.population import Population
from mmfl.loop.state import State

if TYPE_CHECKING:
    from mmfl.experiment import Engine, Experiment

__all__ = ["Setup", "set_up"]


@dataclass(frozen=True, eq=False)
class Setup:
    """All that rounds need.

    Attributes:
        experiment: What to do, resolved.
        engine: Ready for it.
        population: Who may train what.
    """

    experiment: Experiment
    engine: Engine
    population: Population

    def first_state(self) -> State:
        """The state before round one: Algorithm 1, line 1."""
        return State.first(self.engine.initial(), self.experiment.lineage)


@contextmanager
def set_up(
    experiment: Experiment,
    *,
    engine: Engine | None = None,
    data_dir: Path | None = None,
    population: Population | None = None,
) -> Iterator[Setup]:
    """Open an engine, and hold the auction if there is one.

    Args:
        experiment: What to do.
        engine: A running engine to use, and to leave running; by default the experiment's own,
            which is closed at the end of the block.
        data_dir: Folder of npz files; by default what MMFL_DATA says.
        population: Who may train what, if that is known: an auction is then not held again.
    """
    experiment = dataclasses.replace(experiment)  # its lineage is of the files as they are now
    if engine is None:
        with closing(experiment.engine.open(experiment, data_dir=data_dir)) as own:
            yield _make_setup(experiment, own, population)
    else:
        engine.prepare(experiment)
        yield _make_setup(experiment, engine, population)


def _make_setup(experiment: Experiment, engine: Engine, population: Population | None) -> Setup:
    experiment = experiment.resolved()
    return Setup(experiment, engine, population or Population.of(engine.federation, experiment))
