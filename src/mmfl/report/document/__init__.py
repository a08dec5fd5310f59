"""A report on runs as one page: what was run, the verdict, curves, clients, auction, failures."""

from mmfl.report.document.content import Content, gather
from mmfl.report.document.html import render_html
from mmfl.report.document.markdown import render_markdown
from mmfl.report.document.pdf import BROWSERS, find_browser, render_pdf

__all__ = [
    "BROWSERS",
    "Content",
    "find_browser",
    "gather",
    "render_html",
    "render_markdown",
    "render_pdf",
]
