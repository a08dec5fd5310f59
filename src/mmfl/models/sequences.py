"""How models read sequences: series of real numbers, or tokens. Imported when one is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor, nn

from mmfl.errors import InputError

if TYPE_CHECKING:
    from mmfl.exchange import Shape

__all__ = ["Channels", "Reader", "Sequence", "describe_sequence", "mark_tokens"]


class Sequence(NamedTuple):
    """What the examples of a data set are, as sequences.

    Attributes:
        steps: How long they are.
        features: Real numbers at each step; 0 for tokens.
        vocabulary: How many tokens there are; 0 for series.
        each: Whether there is a class for each place.
        padding: The token that fills up short sequences; None if there is none.
    """

    steps: int
    features: int
    vocabulary: int
    each: bool
    padding: int | None = None


def describe_sequence(
    kind: str, shape: Shape, vocabulary: int | None, padding: int | None
) -> Sequence:
    """Examples of this shape as sequences, or a sentence that says why they are none.

    Args:
        kind: The model's kind.
        shape: (steps,), (steps, features), or (1, steps, features).
        vocabulary: How many tokens there are, if the model says so.
        padding: The token that fills up short sequences, if there is one.
    """
    places = shape.places
    sizes = shape[1:] if len(shape) == 3 and shape[0] == 1 else tuple(shape)
    if len(sizes) not in (1, 2) or (shape.vocabulary is not None and len(shape) > 1):
        raise InputError(
            f"{kind!r} needs series (steps x features) or tokens, got examples {tuple(shape)}"
        )
    if places not in ((), sizes[:1]):
        raise InputError(
            f"{kind!r} needs one class per sequence, or one for each of its {sizes[0]} places, "
            f"got targets of shape {places}"
        )
    if shape.vocabulary is None:
        for name, value in (("vocabulary", vocabulary), ("padding", padding)):
            if value is not None:
                raise InputError(
                    f"its {name} is set, but its examples are not tokens (whole numbers from 0)"
                )
        return Sequence(sizes[0], 1 if len(sizes) == 1 else sizes[1], 0, bool(places))
    if vocabulary is not None and vocabulary < shape.vocabulary:
        raise InputError(
            f"vocabulary must be at least {shape.vocabulary}, because the data has a token "
            f"{shape.vocabulary - 1}, got {vocabulary}"
        )
    known = vocabulary or shape.vocabulary
    if padding is not None and padding >= known:
        raise InputError(f"padding must be a token, from 0 to {known - 1}, got {padding}")
    return Sequence(sizes[0], 0, known, bool(places), padding)


class Reader(nn.Module):
    """Series as N x steps x features, tokens as N x steps x width.

    Attributes:
        width: Numbers at each step.
    """

    def __init__(self, sequence: Sequence, width: int) -> None:
        super().__init__()
        self.width = sequence.features or width
        self.embed = None
        if sequence.vocabulary:
            self.embed = nn.Embedding(sequence.vocabulary, width, sequence.padding)

    def forward(self, x: Tensor) -> Tensor:
        """Examples as data sets have them: N x steps, N x 1 x steps x features, ..."""
        if self.embed is not None:
            return self.embed(x)  # type: ignore[no-any-return]
        return x.reshape(len(x), -1, self.width)


def mark_tokens(x: Tensor, padding: int) -> Tensor:
    """N x steps: True up to the last token that is no padding, and for the first in any case."""
    found = x.ne(padding)
    found[:, 0] = True
    return found.flip(1).cumsum(1).flip(1).gt(0)


class Channels(Reader):
    """The same for convolutions: N x width x steps."""

    def forward(self, x: Tensor) -> Tensor:
        """The steps last."""
        return super().forward(x).transpose(1, 2)
