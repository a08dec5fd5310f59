"""Looking at pictures: what is written in them, and whether it can be read."""

from __future__ import annotations

import itertools

__all__ = ["assert_tidy", "boxes", "said", "words"]


def words(figure):
    """All texts, also the numbers beside axes."""
    return [text for text in figure.findobj(lambda a: hasattr(a, "get_text")) if text.get_text()]


def said(figure):
    return " ".join(" ".join(text.get_text().split()) for text in words(figure))


def boxes(figure):
    texts = [text for axes in figure.axes for text in axes.texts if text.get_text()]
    renderer = figure.canvas.get_renderer()
    return [(text.get_text(), text.get_window_extent(renderer)) for text in texts]


def assert_tidy(figure):
    """No text overlaps another, or leaves the page."""
    found = boxes(figure)
    for (one, a), (two, b) in itertools.combinations(found, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        along = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across < 2 or along < 4, (one, two)
    width, height = figure.canvas.get_width_height()
    for text, box in found:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text
