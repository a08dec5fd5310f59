"""What a model is told about the data that it is built for."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Shape"]


class Shape(tuple[int, ...]):
    """An example's shape as a model sees it, such as (features,) or (channels, height, width).

    Attributes:
        vocabulary: How many tokens there are, if examples are whole numbers from 0; else None.
        places: The shape of an example's class numbers: () if there is one, (length,) if there is
            one for each place of a sequence. () for real targets, too.
    """

    vocabulary: int | None
    places: tuple[int, ...]

    def __new__(
        cls, sizes: Iterable[int], *, vocabulary: int | None = None, places: Iterable[int] = ()
    ) -> Shape:
        """A tuple of these sizes."""
        made = super().__new__(cls, sizes)
        made.vocabulary, made.places = vocabulary, tuple(places)
        return made
