from __future__ import annotations

import itertools
import math
import subprocess
import sys

import matplotlib as mpl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmfl.errors import InputError, StoreError
from mmfl.report import Variant
from mmfl.report.figures import draw_comparison, save_comparison
from mmfl.report.figures.page import fold, set_apart
from mmfl.report.figures.style import own_style
from support.helpers import one_line
from support.made_runs import curves, made, three
from support.marks import slow
from support.pictures import assert_tidy, said, words


@pytest.mark.parametrize(
    ("name", "magic"), [("a.png", b"\x89PNG"), slow("a.SVG", b"<?xml"), slow("a.pdf", b"%PDF")]
)
def test_a_file_of_each_kind_has_the_same_bytes_each_time(tmp_path, name, magic):
    first = save_comparison(three(), tmp_path / "new" / name, subtitle="seeds 0 to 2")
    again = save_comparison(three(), tmp_path / name, subtitle="seeds 0 to 2")
    assert first.read_bytes().startswith(magic)
    assert first.read_bytes() == again.read_bytes()
    assert [p.name for p in first.parent.iterdir()] == [name]


def test_a_png_is_1600_pixels_wide_and_has_no_date(tmp_path):
    content = save_comparison(three(), tmp_path / "a.png").read_bytes()
    assert int.from_bytes(content[16:20]) == 1600
    assert b"tEXt" not in content


def test_it_says_what_it_shows():
    text = said(draw_comparison(three(), subtitle="Seeds 0 to 2, 12 rounds."))
    assert "The worst of 3 models, round by round" in text
    assert "Where the clients went" in text
    assert "Line: mean of 3 seeds. Band: from the lowest to the highest." in text
    assert "Seeds 0 to 2, 12 rounds." in text
    for name in ("fed_fair", "uniform", "round_robin"):
        assert text.count(name) == 2
    assert "Accuracy of" in text
    assert "F1 of" in said(draw_comparison(three(), metric="F1"))


def test_shares_and_final_values_are_the_runs():
    run = curves([[0.1, 0.3], [0.5, 0.8]], [[1, 2], [0, 1]])
    text = said(draw_comparison([Variant("x", {0: run})]))
    assert "a 25%" in text
    assert "b 75%" in text
    assert "0.50" in text
    assert "x 0.50" in text
    assert "One seed." in text
    assert "Band" not in text


def test_where_lower_is_better_it_shows_merit_on_the_left_and_the_metric_on_the_right():
    run = curves([[0.9, 0.3]], better=["higher", "lower"])
    figure = draw_comparison([Variant("x", {0: run})])
    assert "Merit (1 - metric where lower is better)" in said(figure)
    assert "x 0.70" in said(figure)
    (bold,) = [t for t in words(figure) if t.get_text() == "0.30"]
    assert bold.get_weight() == "bold"


def renamed(variant, tasks):
    runs = {s: curves(run.metric, run.clients, tasks=tasks) for s, run in variant.runs.items()}
    return Variant(variant.name, runs)


@pytest.mark.parametrize(
    ("tasks", "variants"), [(1, 1), (2, 8), slow(3, 3), slow(5, 4), slow(10, 6)]
)
@pytest.mark.parametrize("long", [False, True])
def test_no_text_lies_on_another_or_leaves_the_page(tasks, variants, long):
    some = [made(f"fed_fair,alpha={n}" if long else f"rule {n}", tasks) for n in range(variants)]
    spelled = [f"a_rather.long-name_of_task{n}" if long else f"t{n}" for n in range(tasks)]
    figure = draw_comparison([renamed(v, spelled) for v in some], subtitle="seeds 0 and 1")
    assert_tidy(figure)
    assert all(name in said(figure) for name in spelled)


@pytest.mark.parametrize(
    "name", ["W" * 90, "a\nb", *map(slow, ("$x_{$ ^ \\frac", "задача 任务 🎲"))]
)
def test_any_name_can_be_read_or_is_cut(name):
    some = [renamed(made(f"{name}{n}", 3), (f"{name}1", f"{name}2", "c")) for n in range(2)]
    assert_tidy(draw_comparison(some, subtitle=f"{name} " * 9))


def test_of_sixty_tasks_the_worst_are_shown_and_the_others_counted():
    metric = [[1 - 0.01 * s for s in range(60)]]
    run = curves(metric, [[3] * 60], tasks=[f"task {s}" for s in range(60)])
    figure = draw_comparison([Variant("x", {0: run}), Variant("y", {0: run})])
    assert "The 9 worst models; grey: 51 others." in said(figure)
    assert "task 59" in said(figure)
    assert "task 50" not in said(figure)
    shares = figure.axes[1]
    assert [bar.get_width() for bar in shares.containers[-1]] == pytest.approx([51 / 60] * 2)
    assert_tidy(figure)


def test_late_short_unmeasured_and_idle_runs_are_drawn():
    nan = math.nan
    runs = {0: curves([[nan], [0.3], [0.4]]), 1: curves([[nan], [0.5]])}
    never = Variant("never", {0: curves([[nan], [nan]], [[0], [0]])})
    wild = Variant("wild", {0: curves([[0.5], [-math.inf]])})
    text = said(draw_comparison([Variant("late", runs), never, wild]))
    assert "late 0.45" in text
    assert "never not measured" in text
    assert "no turns" in text
    assert "Runs that ended early keep their last values." in text
    assert "x 0.50" in said(draw_comparison([Variant("x", {0: curves([[0.5]])})]))


def test_a_dollar_is_a_dollar():
    assert "$x_{$" in said(draw_comparison([Variant("$x_{$", {0: curves([[0.5]])})]))


def test_shorter_curves_keep_their_last_value():
    runs = {0: curves([[0.1], [0.2], [0.3]]), 1: curves([[0.5]])}
    lines, _ = draw_comparison([Variant("x", runs)]).axes
    assert lines.lines[0].get_ydata().tolist() == pytest.approx([0.3, 0.35, 0.4])


def test_the_users_settings_neither_matter_nor_change(tmp_path):
    plain = save_comparison(three(), tmp_path / "a.png").read_bytes()
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "axes.facecolor": "red"}):
        before = dict(mpl.rcParams)
        assert save_comparison(three(), tmp_path / "b.png").read_bytes() == plain
        assert dict(mpl.rcParams) == before


def test_neither_pyplot_nor_torch_is_imported(tmp_path):
    script = (
        "import sys; import mmfl.report; assert 'matplotlib' not in sys.modules; "
        "assert 'scipy' not in sys.modules; "
        "from mmfl.report.figures.page import make_page\n"
        "from mmfl.report.figures.style import own_style\n"
        "with own_style(): make_page(1)\n"
        "sys.exit('matplotlib.pyplot' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


@pytest.mark.parametrize(
    ("named", "kept"),
    [
        ("module://matplotlib_inline.backend_inline", "None"),
        slow("bogus", "None"),
        slow("svg", "'svg'"),
    ],
)
def test_a_backend_that_does_not_exist_is_no_obstacle(named, kept, monkeypatch):
    """A notebook's, for one; a backend that exists is still the one for the user's figures."""
    script = (
        "import os, sys\n"
        "sys.modules['matplotlib_inline'] = None\n"
        "from mmfl.report.figures.page import make_page\n"
        "from mmfl.report.figures.style import own_style\n"
        "with own_style(): make_page(1)\n"
        "import matplotlib\n"
        "with own_style(): make_page(1)\n"
        f"assert os.environ['MPLBACKEND'] == {named!r}\n"
        "auto = matplotlib.rcParamsDefault._get('backend')\n"
        "found = matplotlib.rcParams._get('backend')\n"
        f"assert (None if found is auto else found) == {kept}, found"
    )
    monkeypatch.setenv("MPLBACKEND", named)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_matplotlib_the_command_that_helps_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = one_line(InputError, lambda: save_comparison(three(), tmp_path / "a.png"))
    assert "pip install 'mmfl[report]'" in message
    assert not list(tmp_path.iterdir())


def test_bad_input_is_one_sentence(tmp_path):
    one_line(InputError, lambda: save_comparison([], tmp_path / "a.png"))
    one_line(InputError, lambda: draw_comparison([made("x", 2), made("y", 3)]))
    message = one_line(InputError, lambda: save_comparison(three(), tmp_path / "a.gif"))
    assert "must end in .png, .svg or .pdf, got" in message
    (tmp_path / "file").write_text("")
    message = one_line(StoreError, lambda: save_comparison(three(), tmp_path / "file" / "a.png"))
    assert "cannot write the figure" in message


things = st.lists(
    st.tuples(st.floats(-0.1, 1.1, allow_subnormal=False), st.floats(0.01, 0.1)),
    min_size=1, max_size=9,
)  # fmt: skip


@given(things)
def test_things_are_set_apart_in_order_and_inside(given_things):
    wanted, sizes = (list(column) for column in zip(*given_things, strict=True))
    found = set_apart(wanted, sizes)
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    for one, two in itertools.pairwise(order):
        assert found[two] - found[one] >= (sizes[one] + sizes[two]) / 2 - 1e-9
    for centre, size in zip(found, sizes, strict=True):
        assert centre - size / 2 >= -1e-9
        assert centre + size / 2 <= 1 + 1e-9


def test_what_is_apart_already_stays_and_neighbours_share_the_way():
    assert set_apart([0.5, 0.1], [0.1, 0.1]).tolist() == pytest.approx([0.5, 0.1])
    assert set_apart([0.5, 0.5], [0.1, 0.1]).tolist() == pytest.approx([0.45, 0.55])


def test_text_is_folded_between_words_and_cut_only_where_it_must_be():
    with own_style():
        assert fold("one two", 9.0) == "one two"
        assert fold("one\ntwo", 9.0) == "one\ntwo"
        assert fold("one two", 0.4) == "one\ntwo"
        assert fold("", 1.0) == ""
        cut = fold("one two three", 0.8, most=1)
        assert cut.startswith("one")
        assert cut.endswith("…")
        assert fold("W" * 100, 1.0).endswith("W…")
