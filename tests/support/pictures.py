"""Inspect figures: the text in them, and whether it is legible."""

from __future__ import annotations

import itertools

from matplotlib.text import Text

__all__ = ["assert_tidy", "said", "words"]


def words(figure):
    """All texts that are drawn: also titles, keys, and the numbers beside axes."""
    figure.draw_without_rendering()
    sides = [side for axes in figure.axes for side in (axes.xaxis, axes.yaxis)]
    of_axis = {id(text) for side in sides for text in side.findobj(Text)}
    texts = [text for text in figure.findobj(Text) if id(text) not in of_axis]
    for side in sides:
        if side.axes.axison:
            low, high = sorted(side.get_view_interval())
            ticks = [tick for tick in side.get_major_ticks() if low <= tick.get_loc() <= high]
            texts += [side.label, *(tick.label1 for tick in ticks)]
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def said(figure):
    return " ".join(" ".join(text.get_text().split()) for text in words(figure))


def assert_tidy(figure):
    """No text overlaps another, or leaves the page."""
    renderer = figure.canvas.get_renderer()
    # An annotation's own extent has its arrow in it: only what is written counts.
    boxes = [(text.get_text(), Text.get_window_extent(text, renderer)) for text in words(figure)]
    for (one, a), (two, b) in itertools.combinations(boxes, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        along = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across < 2 or along < 4, (one, two)
    width, height = figure.canvas.get_width_height()
    for text, box in boxes:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text
