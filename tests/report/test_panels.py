"""Small plots on one page: every kind is drawn, the same bytes each time."""

from __future__ import annotations

import numpy as np
import pytest

from mmfl.report.figures import (
    AgainstPanel,
    BarPanel,
    LinePanel,
    MapPanel,
    draw_panels,
    render,
)

ROWS = {"ours": np.linspace(0, 1, 30).reshape(3, 10), "theirs": np.linspace(0.2, 0.8, 10)[None]}
PANELS = [
    LinePanel("Lines", ROWS),
    BarPanel("Bars", ["1", "2"], {name: rows[:, :2] for name, rows in ROWS.items()}),
    MapPanel("A map", ["ab.a", "..bb"], ["first", "second"]),
    AgainstPanel("Against", ["1", "2"], {name: rows[:, :2] for name, rows in ROWS.items()}),
]


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_all_panels_are_drawn_in_order(columns):
    figure = draw_panels(PANELS, list(ROWS), columns=columns, title="Title", foot="Foot")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [title for title in titles if title] == ["Lines", "Bars", "A map", "Against"]
    rows = {round(axes.get_position().y0, 3) for axes in figure.axes}
    assert len(rows) == -(-4 // columns)


def test_the_key_names_lines_and_tasks():
    figure = draw_panels(PANELS, list(ROWS))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "ours",
        "theirs",
        "first",
        "second",
    ]


def test_a_line_is_the_mean_and_its_band_the_extremes():
    figure = draw_panels([PANELS[0]], list(ROWS))
    first, second = figure.axes[0].lines
    np.testing.assert_allclose(first.get_ydata(), ROWS["ours"].mean(axis=0))
    np.testing.assert_allclose(second.get_ydata(), ROWS["theirs"][0])
    (band,) = figure.axes[0].collections  # one seed has no band
    assert band.get_paths()[0].vertices[:, 1].max() == pytest.approx(ROWS["ours"].max())


def test_a_map_leaves_blank_who_had_no_turn():
    figure = draw_panels([PANELS[2]], [])
    (image,) = figure.axes[0].images
    cells = image.get_array()
    assert cells.mask.tolist() == [[False, False, True, False], [True, True, False, False]]


def test_the_same_panels_are_the_same_bytes(tmp_path):
    one, same = (render(draw_panels(PANELS, list(ROWS)), "x.png") for _ in range(2))
    assert one == same
