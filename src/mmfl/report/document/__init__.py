"""A report on runs as one page: what was run, the verdict, curves, clients, auction, failures."""

from mmfl.report.document.charts import draw_bars, draw_lines, draw_shares, make_ticks
from mmfl.report.document.content import Content, gather
from mmfl.report.document.html import (
    make_environment,
    make_json,
    read_file,
    render_body,
    render_html,
)
from mmfl.report.document.markdown import render_markdown
from mmfl.report.document.numbers import show
from mmfl.report.document.pdf import BROWSERS, find_browser, render_pdf
from mmfl.report.document.series import bin_rounds, jain_by_round, pick_rounds, round_off
from mmfl.report.document.settings import describe_clients, describe_value

__all__ = [
    "BROWSERS",
    "Content",
    "bin_rounds",
    "describe_clients",
    "describe_value",
    "draw_bars",
    "draw_lines",
    "draw_shares",
    "find_browser",
    "gather",
    "jain_by_round",
    "make_environment",
    "make_json",
    "make_ticks",
    "pick_rounds",
    "read_file",
    "render_body",
    "render_html",
    "render_markdown",
    "render_pdf",
    "round_off",
    "show",
]
