"""The figure of errors and bounds: what it shows, and that it is legible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mmfl.errors import InputError
from mmfl.report.figures import BoundPanel, draw_bounds, save_bounds
from support.pictures import assert_tidy, said

T = np.arange(1.0, 101.0)
MEAN = 2.0 / (T + 3)


def panel(**bounds):
    return BoundPanel("A task", "five clients, and so on", T, MEAN, MEAN / 10, bounds)


def areas(figure):
    """How many areas are coloured as broken."""
    from matplotlib.colors import to_rgb

    from mmfl.report.figures.style import BROKEN

    patches = [area for axes in figure.axes for area in axes.collections]
    found = [area for area in patches if len(area.get_paths()) and len(area.get_facecolor())]
    return sum(tuple(area.get_facecolor()[0][:3]) == to_rgb(BROKEN) for area in found)


def test_it_names_what_it_shows():
    figure = draw_bounds([panel(upper=9 * MEAN)] * 2, title="Above all", foot="3 seeds")
    text = said(figure)
    assert all(word in text for word in ("Above all", "3 seeds", "A task", "measured", "upper"))
    assert "a bound below the truth" not in text
    assert areas(figure) == 0
    assert len(figure.axes) == 2
    assert all(axes.get_xscale() == axes.get_yscale() == "log" for axes in figure.axes)


def test_it_colours_where_a_bound_is_wrong():
    figure = draw_bounds([panel(upper=9 * MEAN, lower=MEAN * np.linspace(2, 0.1, 100))])
    assert "a bound below the truth" in said(figure)
    assert areas(figure) == 1


def test_panels_share_a_scale_if_they_say_so():
    high, low = (replace(panel(upper=k * MEAN), scale="one") for k in (1e6, 9.0))
    alone = panel(upper=9 * MEAN)
    first, second, third = draw_bounds([high, low, alone]).axes
    assert first.get_ylim() == second.get_ylim() != third.get_ylim()


def test_no_words_overlap():
    names = ["corollary, corrected", "theorem, once a round", "corollary, printed", "another one"]
    many = {name: MEAN * (k + 2) for k, name in enumerate(names)}
    figure = draw_bounds([panel(**many)] * 5, title="Above all", foot="3 seeds " * 40)
    assert_tidy(figure)


def test_the_same_picture_has_the_same_bytes(tmp_path):
    first, second = (
        save_bounds([panel(upper=9 * MEAN)], tmp_path / name) for name in ("a.png", "b.png")
    )
    assert first.read_bytes() == second.read_bytes()
    with pytest.raises(InputError, match="must end in"):
        save_bounds([panel(upper=9 * MEAN)], tmp_path / "a.txt")
