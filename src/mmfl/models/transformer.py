"""A small transformer encoder or, with `causal`, decoder, for series and tokens.

Vaswani et al.: "Attention Is All You Need", NeurIPS 2017; with normalization before attention
(Xiong et al.: "On Layer Normalization in the Transformer Architecture", ICML 2020) and learnt
positions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, Strict

from mmfl.config import Count, Flag, Natural, component
from mmfl.errors import InputError

if TYPE_CHECKING:
    from torch import nn

    from mmfl.exchange import Shape

__all__ = ["Transformer"]


@component
class Transformer:
    """Embedding, blocks of attention and two dense layers, then one dense layer on their mean.

    Examples are series (steps x features, or one number per step) or tokens, which are embedded.
    If there is a class for each place of a sequence, the last layer is applied to every place.

    Attributes:
        width: Numbers at each place of the sequence; a multiple of `heads`.
        layers: How many blocks there are. The two dense layers of each have 4 `width` units between
            them.
        heads: Attention heads in each block.
        dropout: Share of units that a training step leaves out after attention and dense layers.
        causal: Whether a place only sees itself and what is before it. By default it does if there
            is a class for each place, such as the next token. The last place then stands for the
            sequence, instead of the mean.
        vocabulary: How many tokens there are; by default as many as the data has.
        padding: The token that fills up short sequences at their end; no other place sees it.
    """

    width: Count = 64
    layers: Annotated[Count, Field(le=1000)] = 2
    heads: Count = 4
    dropout: Annotated[float, Strict(), Field(ge=0, lt=1)] = 0.0
    causal: Flag | None = None
    vocabulary: Count | None = None
    padding: Natural | None = None

    takes_tokens: ClassVar[bool] = True

    def build(self, shape: Shape, outputs: int) -> nn.Module:
        """For series and tokens."""
        if self.width % self.heads:
            raise InputError(
                f"width must be a multiple of heads, got width {self.width} and heads {self.heads}"
            )
        from mmfl.models.attention import Encoder
        from mmfl.models.sequences import describe_sequence

        sequence = describe_sequence("transformer", shape, self.vocabulary, self.padding)
        return Encoder(self, sequence, outputs)
