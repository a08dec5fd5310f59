"""An allocator in whose rounds something happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from mmfl.allocate import Uniform

__all__ = ["Calling"]


@dataclass(frozen=True)
class Calling:
    """An allocator that does something while a round is computed."""

    act: ClassVar[list[Callable[[], object]]] = []

    def allocate(self, view: Any, state: Any, *, rng: Any) -> Any:
        self.act[-1]()
        return Uniform().allocate(view, state, rng=rng)
