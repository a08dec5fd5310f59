"""mmfl: train several models at once over one pool of federated clients, fairly.

import mmfl
experiment = mmfl.Experiment.load("fair.toml")
for state, record in mmfl.rounds(experiment):
    print(record.round, record.metric)
run = mmfl.run(experiment, out="runs/fair")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mmfl.comparison import compare
    from mmfl.data import from_frame, from_hugging_face
    from mmfl.experiment import Clients, Experiment, Task
    from mmfl.loop import Rounds, rounds
    from mmfl.planning import plan
    from mmfl.runs import Run, load_model, run

__all__ = [
    "Clients",
    "Experiment",
    "Rounds",
    "Run",
    "Task",
    "__version__",
    "compare",
    "from_frame",
    "from_hugging_face",
    "load_model",
    "plan",
    "rounds",
    "run",
]

__version__ = "0.1.0"

_HOMES = {
    "Clients": "mmfl.experiment",
    "Experiment": "mmfl.experiment",
    "Rounds": "mmfl.loop.loop",
    "Run": "mmfl.runs.result",
    "Task": "mmfl.experiment",
    "compare": "mmfl.comparison.comparison",
    "from_frame": "mmfl.data",
    "from_hugging_face": "mmfl.data",
    "load_model": "mmfl.runs.models",
    "plan": "mmfl.planning.predict",
    "rounds": "mmfl.loop.loop",
    "run": "mmfl.runs.runner",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import mmfl` itself costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'mmfl' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
