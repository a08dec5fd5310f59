"""A convolutional network over time, for series and tokens: `cnn` in one dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import BeforeValidator, Field, Strict

from mmfl.config import Count, Natural, component
from mmfl.errors import InputError
from mmfl.models.cnn import two_counts

if TYPE_CHECKING:
    from torch import nn

    from mmfl.exchange import Shape

__all__ = ["Cnn1d"]


@component
class Cnn1d:
    """conv, pool, conv, pool, dense, dense.

    Examples are series (steps x features, or one number per step) or tokens, which are embedded.

    Attributes:
        channels: Output channels of the two convolutions.
        kernel: Steps that their kernels span, an odd number; padding keeps the series' length.
        dense: Width of the first dense layer.
        dropout: Share of units that dropout leaves out before the last layer.
        vocabulary: How many tokens there are; by default as many as the data has. The embedding of
            a token has as many numbers as the first convolution has channels.
        padding: The token that fills up short sequences; it is embedded as zeros.
    """

    channels: Annotated[tuple[Count, Count], BeforeValidator(two_counts)] = (32, 64)
    kernel: Annotated[Count, Field(json_schema_extra={"not": {"multipleOf": 2}})] = 5
    dense: Count = 128
    dropout: Annotated[float, Strict(), Field(ge=0, lt=1)] = 0.0
    vocabulary: Count | None = None
    padding: Natural | None = None

    takes_tokens: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, got {self.kernel}")

    def build(self, shape: Shape, outputs: int) -> nn.Module:
        """For sequences of at least 4 steps."""
        from torch import nn

        from mmfl.models.sequences import Channels, describe_sequence

        sequence = describe_sequence("cnn1d", shape, self.vocabulary, self.padding)
        if sequence.each:
            raise InputError("'cnn1d' gives one answer per sequence, not one per place")
        if sequence.steps < 4:
            raise InputError(f"'cnn1d' needs at least 4 steps, got {sequence.steps}")
        first, second = self.channels
        same = self.kernel // 2
        read = Channels(sequence, first)
        return nn.Sequential(
            read,
            nn.Conv1d(read.width, first, self.kernel, padding=same),
            nn.MaxPool1d(2),
            nn.ReLU(),
            nn.Conv1d(first, second, self.kernel, padding=same),
            nn.MaxPool1d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(second * (sequence.steps // 4), self.dense),
            nn.ReLU(),
            *([nn.Dropout(self.dropout)] if self.dropout else []),
            nn.Linear(self.dense, outputs),
        )
