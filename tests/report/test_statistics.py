from __future__ import annotations

import dataclasses
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import mmfl
from mmfl.errors import InputError
from mmfl.report import Variant, compare_variants, summary, variants
from mmfl.report.statistics import (
    JAIN,
    MEAN,
    VARIANCE,
    WORST,
    of_task,
    refuse_other_tasks,
    rounds_to,
    spread,
)
from support.helpers import one_line
from support.made_runs import curves

shares = st.floats(0, 1, allow_subnormal=False).map(lambda x: round(x, 6))
samples = st.lists(shares, min_size=2, max_size=12)


def plain(name, values):
    """A variant with one task, whose last metrics these are; the worst task is that one."""
    return Variant(name, {seed: curves([[value]]) for seed, value in enumerate(values)})


def test_a_summary_by_hand():
    runs = {7: curves([[0.1, 0.9], [0.6, 0.8]]), 3: curves([[0.2, 0.3], [0.2, 1.0]])}
    found = summary(Variant("v", runs), target=0.5)
    assert (found.variant, found.seeds, found.target) == ("v", (3, 7), 0.5)
    assert found.tasks["a"].mean == pytest.approx(0.4)
    assert found.tasks["a"].sd == pytest.approx(math.sqrt(0.08))
    assert found.tasks["b"].mean == pytest.approx(0.9)
    assert found.worst.mean == pytest.approx(0.4)
    assert found.mean.mean == pytest.approx(0.65)
    assert found.variance.mean == pytest.approx((0.16 + 0.01) / 2)
    assert found.jain.mean == pytest.approx((1.44 / 2.08 + 1.96 / 2) / 2)
    assert (found.rounds_to_target.mean, found.rounds_to_target.n) == (2, 1)
    assert math.isnan(found.rounds_to_target.sd)
    assert summary(Variant("v", runs)).rounds_to_target is None


def test_a_target_that_nobody_reached_has_no_rounds():
    found = summary(plain("v", [0.3, 0.4]), target=0.5).rounds_to_target
    assert found.n == 0
    assert math.isnan(found.mean)


def test_the_target_counts_from_the_first_round_and_when_it_is_just_reached():
    run = curves([[math.nan, 0.9], [0.4, 0.9], [0.5, 0.9], [0.2, 0.9]])
    assert rounds_to(0.5).of(run) == 3
    assert rounds_to(0.0).of(run) == 2
    assert math.isnan(rounds_to(0.51).of(run))


def test_where_lower_is_better_merit_counts():
    run = curves([[0.9, 0.3]], better=["higher", "lower"])
    assert WORST.of(run) == pytest.approx(0.7)
    assert MEAN.of(run) == pytest.approx(0.8)
    assert VARIANCE.of(run) == pytest.approx(0.01)
    task = of_task(run, "b")
    assert (task.of(run), task.better) == (0.3, "lower")
    better = Variant("better", {0: curves([[0.9, 0.1]], better=["higher", "lower"])})
    found = compare_variants(Variant("v", {0: run}), better, task)
    assert (found.first_better, found.other_better) == (0, 1)


@given(samples, st.randoms())
def test_the_order_of_seeds_changes_no_bit(values, random):
    mixed = list(values)
    random.shuffle(mixed)
    assert spread(mixed) == spread(values)


@given(samples)
def test_spread_is_mean_and_sample_deviation(values):
    found = spread(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.sd == pytest.approx(statistics.stdev(values), abs=1e-12)
    assert spread([*values, math.nan]) == found


@given(shares, st.integers(2, 9))
def test_equal_values_have_no_spread_at_all(value, n):
    assert (spread([value] * n).mean, spread([value] * n).sd) == (value, 0.0)


def test_a_model_that_diverged_breaks_nothing():
    run = curves([[0.9, math.inf]], better=["higher", "lower"])
    found = summary(Variant("v", {0: run, 1: curves([[0.9, 0.3]], better=run.better)}))
    assert found.worst.mean == -math.inf
    assert math.isnan(found.worst.sd)
    assert found.variance.n == 1


@given(st.lists(st.tuples(shares, shares), min_size=2, max_size=12))
def test_paired_agrees_with_scipy(pairs):
    first, other = (list(column) for column in zip(*pairs, strict=True))
    found = compare_variants(plain("first", first), plain("other", other), WORST)
    difference = np.subtract(other, first)
    assert found.differences == tuple(difference)
    assert found.first_better == (difference < 0).sum()
    assert found.other_better == (difference > 0).sum()
    if found.interval[1] - found.interval[0] > 1e-9:
        truth = stats.ttest_rel(other, first).confidence_interval(0.95)
        assert found.interval == pytest.approx((truth.low, truth.high), rel=1e-9, abs=1e-12)
    else:
        assert found.interval == pytest.approx((found.mean, found.mean), abs=1e-9)


@given(samples, samples, st.floats(-1, 1).map(lambda x: round(x, 6)))
def test_a_shift_of_one_variant_moves_mean_and_interval_by_as_much(first, other, shift):
    n = min(len(first), len(other))
    before = compare_variants(plain("f", first[:n]), plain("o", other[:n]), WORST)
    after = compare_variants(
        plain("f", first[:n]), plain("o", [x + shift for x in other[:n]]), WORST
    )
    assert after.mean == pytest.approx(before.mean + shift, abs=1e-9)
    assert after.interval == pytest.approx([x + shift for x in before.interval], abs=1e-7)


@given(samples, samples)
def test_the_other_way_round_it_is_the_mirror_image(first, other):
    one, two = plain("f", first), plain("o", other)
    there, back = compare_variants(one, two, WORST), compare_variants(two, one, WORST)
    assert back.differences == tuple(-x for x in there.differences)
    assert back.interval == (-there.interval[1], -there.interval[0])
    assert (back.first_better, back.other_better) == (there.other_better, there.first_better)


def test_with_one_seed_there_is_no_interval_and_with_equal_differences_it_has_no_width():
    one = compare_variants(plain("f", [0.5]), plain("o", [0.75]), WORST)
    assert (one.mean, one.interval, one.other_better) == (0.25, None, 1)
    same = compare_variants(plain("f", [0.1] * 3), plain("o", [0.2] * 3), WORST)
    assert same.interval == (same.mean, same.mean) == (0.1, 0.1)
    nothing = compare_variants(plain("f", [0.1] * 3), plain("o", [0.1] * 3), WORST)
    assert (nothing.interval, nothing.first_better, nothing.other_better) == ((0, 0), 0, 0)


def test_only_seeds_that_both_have_are_compared():
    first = Variant("f", {s: curves([[0.5]]) for s in (4, 1, 2)})
    other = Variant("o", {s: curves([[s / 10]]) for s in (9, 2, 4)})
    found = compare_variants(first, other, WORST)
    assert found.seeds == (2, 4)
    assert found.differences == (0.2 - 0.5, 0.4 - 0.5)
    reached = compare_variants(first, other, rounds_to(0.4))
    assert (reached.seeds, reached.mean) == ((4,), 0)


def test_lower_variance_and_higher_jain_are_better():
    even, uneven = (Variant(n, {0: curves([m])}) for n, m in (("e", [0.5, 0.5]), ("u", [0.9, 0.1])))
    for quantity in (VARIANCE, JAIN):
        assert compare_variants(even, uneven, quantity).first_better == 1


def test_variants_that_cannot_be_compared_are_one_sentence():
    first = Variant("first", {0: curves([[0.5]])})
    message = one_line(
        InputError, lambda: compare_variants(first, Variant("o", {1: first.runs[0]}), WORST)
    )
    assert message == (
        "variants 'first' and 'o' must have a seed in common to be compared, got 0 and 1"
    )
    assert "no runs" in one_line(InputError, lambda: Variant("v", {}))
    assert "at least one variant" in one_line(InputError, lambda: refuse_other_tasks([]))
    twice = [first, Variant("first", {1: curves([[0.5]])})]
    assert "different names" in one_line(InputError, lambda: refuse_other_tasks(twice))
    two = curves([[0.5, 0.6]], better=["higher", "lower"])
    message = one_line(InputError, lambda: refuse_other_tasks([first, Variant("o", {0: two})]))
    assert message == (
        "variants must have the same tasks and metrics to be compared: 'o' has a, b (lower is "
        "better); 'first' has a"
    )
    message = one_line(InputError, lambda: Variant("v", {0: first.runs[0], 1: two}))
    assert "seed 1 has a, b" in message


def test_metrics_of_other_kinds_are_not_compared_even_if_both_are_errors():
    """The merit of one is 1 - metric, and of the other 1 / metric."""
    words, dose = (
        dataclasses.replace(curves([[2.0]], better=["lower"]), kinds=(kind,))
        for kind in ("perplexity", "mae")
    )
    two = [Variant("one", {0: words}), Variant("other", {0: dose})]
    assert one_line(InputError, lambda: refuse_other_tasks(two)) == (
        "variants must have the same tasks and metrics to be compared: 'other' has a (mae, lower "
        "is better); 'one' has a (perplexity, lower is better)"
    )
    message = one_line(InputError, lambda: Variant("v", {0: words, 1: dose}))
    assert "seed 1 has a (mae, lower is better); seed 0 has a (perplexity, lower" in message
    unknown = dataclasses.replace(words, kinds=())  # as in results that are stored with mmfl
    refuse_other_tasks([two[0], Variant("older", {0: unknown})])


def test_what_compare_returns_becomes_variants(tmp_path):
    tasks = [{"name": "a", "dataset": {"kind": "synthetic", "train": 40, "test": 20}}]
    table = {"rounds": 2, "clients": {"count": 2}, "engine": "inline", "tasks": tasks}
    experiment = mmfl.Experiment.from_dict(table)
    found = mmfl.compare({"one": experiment, "two": experiment}, [3, 1], tmp_path)
    one, two = variants(found)
    assert (one.name, two.name) == ("one", "two")
    assert one.seeds == two.seeds == (1, 3)
    for seed, run in found["one"].items():
        assert one.runs[seed].metric[:, 0].tolist() == run.history["a"]
