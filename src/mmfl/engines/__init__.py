"""Where training happens: in this process (`inline`), in worker processes (`local`), or on Ray.

Engines are opened by their settings: see `mmfl.experiment.engines`.
"""

from mmfl.engines.inline import InlineEngine
from mmfl.engines.local import open_local
from mmfl.engines.mock import MockEngine
from mmfl.engines.ray.engine import open_ray
from mmfl.engines.workers import WorkersEngine

__all__ = ["InlineEngine", "MockEngine", "WorkersEngine", "open_local", "open_ray"]
