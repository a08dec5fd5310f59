"""A recurrent network with gated recurrent units, for series and tokens.

Cho et al.: "Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine
Translation", EMNLP 2014.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, Strict

from mmfl.config import Count, Flag, Natural, component

if TYPE_CHECKING:
    from torch import nn

    from mmfl.exchange import Shape

__all__ = ["Gru"]


@component
class Gru:
    """Recurrent layers, then one dense layer on the last state.

    Examples are series (steps x features, or one number per step) or tokens, which are embedded.
    If there is a class for each place of a sequence, the dense layer is applied to every state.

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

        sequence = describe_sequence("gru", shape, self.vocabulary, self.padding)
        return Recurrent(nn.GRU, self, sequence, outputs)
