"""The model protocol: a frozen description that builds a torch module when it is asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import nn

    from mmfl.exchange import Shape

__all__ = ["Model"]


class Model(Protocol):
    """Describes a network; torch is imported only when it is built."""

    def build(self, shape: Shape, outputs: int) -> nn.Module:
        """The network for examples of this shape: (features,) or (channels, height, width).

        Initial weights come from torch's generator, which the caller has set.
        """
        ...
