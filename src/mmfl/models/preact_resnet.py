"""Pre-activation residual networks for small images.

He, Zhang, Ren, Sun: "Identity Mappings in Deep Residual Networks", ECCV 2016; in the form that the
paper's authors use for CIFAR-10: a 3 x 3 stem, stages of basic blocks whose width doubles, average
pooling, one dense layer, and batch norm without running statistics: it uses the batch's own even
at test time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from mmfl.config import Count, component
from mmfl.errors import InputError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["PreactResnet", "PreactResnet18"]

Blocks = Annotated[Count, Field(le=1000)]  # each takes a millisecond to build
Norm = Literal["batch", "group"]


@component
class PreactResnet:
    """Stem, stages of pre-activation blocks, pooling, dense.

    Attributes:
        width: Channels of the stem and the first stage; each further stage has twice as many, at
            half the resolution.
        blocks: Blocks in each stage.
        norm: "batch": batch statistics in training and at test time (the paper's); "group": group
            norm, which does not depend on the batch.
        groups: Groups of the group norm; fewer where this does not divide the channels.
    """

    width: Count = 16
    blocks: Annotated[tuple[Blocks, ...], Field(min_length=1, max_length=6)] = (1, 1, 1)
    norm: Norm = "batch"
    groups: Count = 8

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """For images that have 2 x 2 pixels left in the last stage: one has no statistics."""
        least = 2 ** len(self.blocks)
        if len(shape) != 3 or min(shape[1:]) < least:
            raise InputError(
                f"a preact_resnet of {len(self.blocks)} stages needs images of at least "
                f"{least} x {least} pixels, got examples {shape}"
            )
        from mmfl.models.residual import residual_network

        return residual_network(self, shape[0], outputs)


@component
class PreactResnet18:
    """The paper's network for CIFAR-10: `preact_resnet` of width 64 and blocks 2, 2, 2, 2.

    Attributes:
        norm: Which normalisation: "batch" (statistics of the batch, also in evaluation) or "group".
    """

    norm: Norm = "batch"

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Pre-activation ResNet-18, about 11 million weights."""
        network = PreactResnet(width=64, blocks=(2, 2, 2, 2), norm=self.norm)
        return network.build(shape, outputs)
