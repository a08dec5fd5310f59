"""The benchmark: rules by settings, with ranks, and numbers that anybody should get."""

from mmfl.benchmark.benchmark import Benchmark
from mmfl.benchmark.drawing import draw_rules
from mmfl.benchmark.scores import QUANTITIES, Estimate, RuleScore, find_common, score_rules
from mmfl.benchmark.suite import Suite, find_suite, load_suite
from mmfl.benchmark.tables import make_matrix, make_page, make_prices, make_ranking, name_seeds

__all__ = [
    "QUANTITIES",
    "Benchmark",
    "Estimate",
    "RuleScore",
    "Suite",
    "draw_rules",
    "find_common",
    "find_suite",
    "load_suite",
    "make_matrix",
    "make_page",
    "make_prices",
    "make_ranking",
    "name_seeds",
    "score_rules",
]
