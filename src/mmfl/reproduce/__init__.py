"""The paper's experiments as data, with what it claims, and whether that holds here."""

from mmfl.reproduce.archive import Archive, ArchivedRun
from mmfl.reproduce.auctions import AuctionStudy
from mmfl.reproduce.claims import CLAIMS, Claim, Outcome, Value
from mmfl.reproduce.drawing import draw_study
from mmfl.reproduce.page import make_results_page, read_summary
from mmfl.reproduce.panels import PANELS, Panel
from mmfl.reproduce.quantities import find_quantity
from mmfl.reproduce.reproduction import (
    Finding,
    Reproduction,
    find_finished,
    find_paper,
    group_by_seeds,
)
from mmfl.reproduce.study import (
    Scale,
    Study,
    StudySetting,
    find_studies,
    load_scales,
    load_study,
    merge,
)
from mmfl.reproduce.tables import (
    TextTable,
    list_claims,
    make_overview,
    make_times,
)
from mmfl.reproduce.times import Time, find_time

__all__ = [
    "CLAIMS",
    "PANELS",
    "Archive",
    "ArchivedRun",
    "AuctionStudy",
    "Claim",
    "Finding",
    "Outcome",
    "Panel",
    "Reproduction",
    "Scale",
    "Study",
    "StudySetting",
    "TextTable",
    "Time",
    "Value",
    "draw_study",
    "find_finished",
    "find_paper",
    "find_quantity",
    "find_studies",
    "find_time",
    "group_by_seeds",
    "list_claims",
    "load_scales",
    "load_study",
    "make_overview",
    "make_results_page",
    "make_times",
    "merge",
    "read_summary",
]
