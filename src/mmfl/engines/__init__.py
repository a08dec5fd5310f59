"""Where training happens: in this process (`inline`), or in worker processes (`local`).

Engines are opened by their settings: see `mmfl.experiment.engines`.
"""

from mmfl.engines.inline import InlineEngine
from mmfl.engines.local import LocalEngine
from mmfl.engines.mock import MockEngine

__all__ = ["InlineEngine", "LocalEngine", "MockEngine"]
