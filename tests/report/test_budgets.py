"""The figure of errors over an auction's budget: what it shows, and that it is legible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mmfl.report.figures import BudgetPanel, draw_budgets, save_budgets
from mmfl.report.figures.style import BROKEN
from support.pictures import assert_tidy, said

BUDGETS = np.array([0.2, 0.5, 1.0, 3.0, 8.0])
NOBODY = np.array([0.99, 0.7, 0.2, 0.0, 0.0])
MEAN = 9.0 * NOBODY + 1e-3
PANEL = BudgetPanel(
    "Max-Min Fair, cheap task", "4 users", BUDGETS, MEAN, MEAN / 10, MEAN + 0.01,
    {"corrected": 9.5 * NOBODY + 4.0, "printed": 2.0 - NOBODY}, NOBODY, NOBODY.round(1),
)  # fmt: skip


def find_broken(figure):
    """The areas that are coloured as broken, by panel."""
    from matplotlib.colors import to_rgb

    areas = [[a for a in axes.collections if len(a.get_facecolor())] for axes in figure.axes]
    coloured = [[tuple(a.get_facecolor()[0][:3]) == to_rgb(BROKEN) for a in own] for own in areas]
    return [
        sum(bool(len(a.get_paths())) for a, yes in zip(own, flags, strict=True) if yes)
        for own, flags in zip(areas, coloured, strict=True)
    ]


def test_it_names_what_it_shows():
    figure = draw_budgets([PANEL] * 2, title="Above all", foot="30 seeds")
    text = said(figure)
    for word in ("Above all", "30 seeds", "cheap task", "all users", "corrected", "printed"):
        assert word in text
    assert "nobody joins" in text
    assert [axes.get_yscale() for axes in figure.axes] == ["log", "log", "linear", "linear"]


def test_it_colours_where_a_bound_is_below_the_error():
    assert find_broken(draw_budgets([PANEL])) == [1, 0]
    right = replace(PANEL, bounds={"corrected": PANEL.bounds["corrected"]})
    assert find_broken(draw_budgets([right])) == [0, 0]


def test_all_errors_have_the_same_scale():
    high = replace(PANEL, bounds={"corrected": MEAN * 1e5, "printed": MEAN})
    first, second, *_ = draw_budgets([high, PANEL]).axes
    assert first.get_ylim() == second.get_ylim()


def test_no_words_overlap(tmp_path):
    assert_tidy(draw_budgets([PANEL] * 4, title="Above all", foot="30 seeds " * 40))
    assert save_budgets([PANEL] * 4, tmp_path / "x.png").stat().st_size > 10_000
