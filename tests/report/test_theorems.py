"""The figure of the analysis."""

from __future__ import annotations

import pytest

from mmfl.report.figures import draw_theorems, save_theorems
from support.pictures import assert_tidy

pytest.importorskip("matplotlib")


def test_it_draws_the_claim_beside_the_truth(tmp_path):
    figure = draw_theorems(draws=20)
    assert_tidy(figure)
    first, second = figure.axes
    given, printed = (line.get_ydata() for line in first.lines)
    assert (given[:-1] >= given[1:]).all()
    assert printed[0] == pytest.approx(0.625)
    assert printed.max() == pytest.approx(2 / 3, abs=1e-3)
    budget_fair, max_min, *dots = (line.get_ydata() for line in second.lines)
    assert (max_min <= budget_fair + 1e-9).all()
    assert len(dots) == 8


def test_the_same_seed_draws_the_same_bytes(tmp_path):
    one, two = (
        save_theorems(tmp_path / name, draws=20).read_bytes() for name in ("a.png", "b.png")
    )
    assert one == two
