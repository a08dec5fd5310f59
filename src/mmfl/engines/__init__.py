"""Where training happens; `ENGINES` is the family's table."""

from mmfl.config import Family
from mmfl.engines.base import Engine, EngineConfig
from mmfl.engines.inline import Inline
from mmfl.engines.local import Local

__all__ = ["ENGINES", "Engine", "EngineConfig", "Inline", "Local"]

ENGINES = Family(
    name="engine", table={"inline": Inline, "local": Local}, needs=("open",), default="local"
)
