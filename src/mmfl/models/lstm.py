"""A recurrent network with long short-term memory, for series and tokens.

Hochreiter, Schmidhuber: "Long Short-Term Memory", Neural Computation 9(8), 1997.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, Strict

from mmfl.config import Count, Flag, Natural, component

if TYPE_CHECKING:
    from torch import nn

    from mmfl.exchange import Shape

__all__ = ["Lstm"]


@component
class Lstm:
    """Recurrent layers, then one dense layer on the last state; inputs as for `gru`.

    Attributes:
        width: Units of each layer, and numbers of which the embedding of a token consists.
        layers: How many recurrent layers there are.
        dropout: Share of units that a training step leaves out between layers and before the dense
            layer.
        bidirectional: Whether each layer also reads a sequence backwards.
        vocabulary: How many tokens there are; by default as many as the data has.
        padding: The token that fills up short sequences at their end; it is not read.
    """

    width: Count = 64
    layers: Annotated[Count, Field(le=1000)] = 1
    dropout: Annotated[float, Strict(), Field(ge=0, lt=1)] = 0.0
    bidirectional: Flag = False
    vocabulary: Count | None = None
    padding: Natural | None = None

    takes_tokens: ClassVar[bool] = True

    def build(self, shape: Shape, outputs: int) -> nn.Module:
        """For series and tokens."""
        from torch import nn

        from mmfl.models.recurrent import Recurrent
        from mmfl.models.sequences import describe_sequence

        sequence = describe_sequence("lstm", shape, self.vocabulary, self.padding)
        return Recurrent(nn.LSTM, self, sequence, outputs)
