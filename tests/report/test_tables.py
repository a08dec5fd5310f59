from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
from rich.console import Console

from mmfl.errors import InputError
from mmfl.report import Differences, Remark, Results, Variant, data, quantities
from mmfl.report.statistics import rounds_to
from support.helpers import one_line
from support.made_runs import curves, made, three

CELL = re.compile(r"\d*\.\d+ ±\d*\.\d+")


def printed(table, width=80, colour=None):
    console = Console(width=width, color_system=colour, force_terminal=True, legacy_windows=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def uniform_and_fair():
    """Two variants whose numbers are easy to check."""
    fair = Variant("fair", {s: curves([[0.1, 0.1], [0.8, 0.6 + s / 50]]) for s in range(3)})
    even = Variant("even", {s: curves([[0.1, 0.1], [0.9, 0.5]]) for s in range(3)})
    return [fair, even]


def test_a_wide_table_has_a_row_per_variant():
    lines = printed(Results(uniform_and_fair(), target=0.55), 120).splitlines()
    assert " ".join(lines[0].split()) == "a b worst mean variance ↓ Jain rounds to 0.55 ↓"
    fair, even = (line.split("  ") for line in lines[1:3])
    assert [cell.strip() for cell in fair if cell] == [
        "fair", ".800 ±.000", "*.620 ±.020", "*.620 ±.020", "*.710 ±.010", "*.0082 ±.0018",
        "*.984 ±.004", "*2.0 ±.0",
    ]  # fmt: skip
    assert [cell.strip() for cell in even if cell] == [
        "even", "*.900 ±.000", ".500 ±.000", ".500 ±.000", ".700 ±.000", ".0400 ±.0000",
        ".925 ±.000", "never",
    ]  # fmt: skip
    note = " ".join(lines[3:])
    assert "over 3 seeds" in note
    assert "*: best" in note


def test_variants_without_a_common_seed_have_no_differences():
    runs = curves([[0.5]])
    found = data(
        [Variant("a", {0: runs, 1: runs}), Variant("b", {1: runs}), Variant("c", {2: runs})]
    )
    assert [one["variant"] for one in found["differences"]] == ["b"]


def test_on_a_terminal_the_best_are_bold():
    text = printed(Results(uniform_and_fair()), 120, "standard")
    assert "*" not in text
    assert re.search(r"\x1b\[1m *\.620 ±\.020\x1b\[0m", text)
    assert "Bold: best." in text


@pytest.mark.parametrize("target", [None, 0.2])
def test_no_number_is_cut_at_80_columns_with_3_tasks_and_4_variants(target):
    four = [*three(), made("sequential", 3, level=0.6)]
    text = printed(Results(four, target))
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert len(CELL.findall(text)) == 4 * (7 if target is None else 8)
    assert [line.split()[0] for line in text.splitlines()[1:8]] == [
        "a", "b", "c", "worst", "mean", "variance", "Jain",
    ]  # fmt: skip
    text = printed(Differences(four))
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert len(re.findall(r"\[[+-]?\.\d+, [+-]?\.\d+\]  \d of 3 seeds", text)) == 3 * 4


@pytest.mark.parametrize("width", [44, 60, 80, 100, 200])
@pytest.mark.parametrize("tasks", [1, 3, 6, 10])
@pytest.mark.parametrize("variants", [1, 2, 6])
def test_at_any_width_every_number_is_whole(width, tasks, variants):
    long = [made(f"allocator.kind=rule_{n},local.epochs=5", tasks) for n in range(variants)]
    text = printed(Results(long), width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    assert len(CELL.findall(text)) == variants * (tasks + 4)


def test_many_tasks_are_rows_even_where_there_is_room():
    text = printed(Results([made("x", 7), made("yy", 7)]), 300)
    assert text.splitlines()[0].split() == ["x", "yy"]


def test_a_target_that_some_seeds_reached_says_how_many():
    some = Variant("some", {s: curves([[0.2], [0.3 + s / 10]]) for s in range(3)})
    all_ = Variant("all", {s: curves([[0.2], [0.2], [0.6]]) for s in range(3)})
    text = printed(Results([some, all_], target=0.4), 120)
    assert "2.0 ±.0 2/3" in text
    assert "*3.0 ±.0" in text
    assert "2/3: in 2 of 3 seeds only." in " ".join(text.split())


def test_one_seed_has_no_deviation_and_no_interval():
    one = [made("x", 2, seeds=1), made("yy", 2, seeds=1)]
    text = printed(Results(one))
    assert "±" not in text
    assert "one seed" in text
    assert "1 seed" in printed(Differences(one))
    assert "[" not in printed(Differences(one))


def test_what_looks_the_same_everywhere_does_not_stand_out():
    run = curves([[0.5, 0.7]])
    same = [Variant("x", {0: run}), Variant("y", {0: run})]
    assert "*" not in printed(Results(same)) + printed(Differences(same))


def test_differences_say_who_is_better_in_how_many_seeds():
    text = printed(Differences(uniform_and_fair()))
    assert "fair better in" in text
    rows = [line.split() for line in text.splitlines()]
    assert rows[1] == ["even", "worst", "*-.120", "[-.170,", "-.070]", "3", "of", "3", "seeds"]
    assert rows[3][:3] == ["variance", "↓", "*+.0318"]


def test_markdown():
    both = uniform_and_fair()
    lines = Results(both, target=0.55).markdown().splitlines()
    assert lines[0] == "|  | a | b | worst | mean | variance ↓ | Jain | rounds to 0.55 ↓ |"
    assert lines[1] == "| --- |" + " ---: |" * 7
    assert lines[2].startswith("| fair | .800 ±.000 | **.620 ±.020** | **.620 ±.020** |")
    assert lines[3].endswith("| never |")
    assert "Bold: best." in lines[5]
    lines = Differences(both).markdown().splitlines()
    assert lines[0] == "|  |  | difference | 95% interval | fair better in |"
    assert lines[2] == "| even | worst | **-.120** | [-.170, -.070] | 3 of 3 seeds |"
    wide = Results([made("x|y", 7)]).markdown().splitlines()
    assert wide[0] == r"|  | x\|y |"
    assert len(wide) == 2 + 7 + 4 + 2


def test_rounds_to_a_target_that_are_known_only_up_to_a_step_say_so():
    metric = [[math.nan], [math.nan], [0.3], [0.3], [0.3], [0.7]]
    rare = Variant("rare", {0: replace(curves(metric), evaluated=(3, 6))})
    often = Variant("often", {0: curves([[0.1], [0.2], [0.3], [0.6], [0.6], [0.7]])})
    both = [often, rare]
    assert [rounds_to(0.6).of(variant.runs[0]) for variant in both] == [4, 6]
    said = (
        "Rounds to a target may be up to 2 too high: the test split is evaluated every 3 rounds "
        "(evaluate.every)."
    )
    for table in (Results(both, 0.6), Differences(both, quantities(often, 0.6))):
        assert said in " ".join(printed(table).split())
        assert said in table.markdown()
    assert [v["measured_every"] for v in data(both, 0.6)["variants"]] == [[1], [3]]
    assert "evaluate.every" not in Results(both).markdown()  # nothing counts rounds
    assert "evaluate.every" not in Results([often], 0.6).markdown()


def test_the_note_says_which_seeds_are_left_out():
    low, high, broken = [[0.1, 0.9]], [[0.9, 0.9]], [[math.nan, 0.9]]

    def note(*finals):
        other = Variant("other", dict(enumerate(map(curves, finals))))
        first = Variant("first", {seed: curves(high) for seed in range(len(finals))})
        return Differences([first, other], quantities(first, 0.5)).markdown().splitlines()[-1]

    reached, finite = (
        "Seeds that never reached the target",
        "Seeds with a metric that is not finite",
    )
    assert reached not in note(high, high)
    assert f"{reached} are left out." in note(high, high, low)
    assert finite not in note(high, high, low)
    assert f"{finite} are left out." in note(high, high, broken)


def test_names_are_no_markup():
    odd = [made("[bold]x[/bold]", 2), made("y", 2)]
    assert "[bold]x[/bold]" in printed(Results(odd)) + printed(Differences(odd))


def test_data_is_json_with_everything_in_it():
    never = Variant("never", {s: curves([[math.nan, 0.5]], [[2, 3]]) for s in (1, 2)})
    even = Variant("even", {s: curves([[0.9, 0.5]], [[1, 4]]) for s in (0, 1)})
    found = json.loads(json.dumps(data([even, never], target=0.4), allow_nan=False))
    assert found["tasks"] == [{"name": x, "better": "higher"} for x in "ab"]
    first, second = found["variants"]
    assert (first["name"], first["seeds"], first["rounds"]) == ("even", [0, 1], [1, 1])
    assert first["turns"] == {"a": 2, "b": 8}
    assert first["worst"] == {"mean": 0.5, "sd": 0.0, "n": 2, "values": [0.5, 0.5]}
    assert first["rounds_to_target"]["values"] == [1, 1]
    assert second["tasks"]["a"] == {"mean": None, "sd": None, "n": 0, "values": [None, None]}
    (difference,) = found["differences"]
    assert (difference["variant"], difference["to"]) == ("never", "even")
    assert difference["tasks"]["b"] == {
        "mean": 0.0, "interval": None, "seeds": [1], "differences": [0.0], "first_better": 0,
        "other_better": 0,
    }  # fmt: skip
    assert difference["worst"]["seeds"] == []
    assert data([even])["differences"] == []
    assert data([even])["variants"][0]["rounds_to_target"] is None


def test_bad_input_is_one_sentence():
    x = made("x", 2)
    assert "at least one variant" in one_line(InputError, lambda: Results([]))
    assert "at least one variant" in one_line(InputError, lambda: data([]))
    assert "second variant, got only 'x'" in one_line(InputError, lambda: Differences([x]))
    assert "same tasks" in one_line(InputError, lambda: Results([x, made("y", 3)]))
    other = Variant("other", {9: x.runs[0]})
    assert "seed in common" in one_line(InputError, lambda: Differences([x, other]))


def test_a_variant_that_failed_does_not_win():
    fair, even = uniform_and_fair()
    best = Variant("best", {s: curves([[0.1, 0.1], [0.95, 0.95]]) for s in range(3)})
    about = [Remark("best", "the run with seed 3 failed: no reason", serious=True)]
    lines = printed(Results([fair, best, even], about=about), 120).splitlines()
    assert lines[2].startswith("best !")
    assert "*" not in lines[2]
    alone = printed(Results([fair, even]), 120).splitlines()
    assert [lines[1].count("*"), lines[3].count("*")] == [alone[1].count("*"), alone[2].count("*")]
    assert "*" not in "".join(printed(Results([fair, best], about=about), 120).splitlines()[1:3])
