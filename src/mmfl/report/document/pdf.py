"""The report as PDF: a browser that is installed prints the page."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from mmfl.errors import InputError
from mmfl.system import calls
from mmfl.system.files import read_file, write_new

__all__ = ["BROWSERS", "find_browser", "render_pdf"]

BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    *("microsoft-edge", "brave-browser"),
)
"""The programs that can print a page without a window."""

_PATIENCE = 120.0
"""Seconds that a browser may take."""

_LIMIT = 1 << 30


def find_browser() -> str:
    """The path of a browser; `InputError` if none is installed."""
    for name in BROWSERS:
        path = shutil.which(name)
        if path is not None:
            return path
    raise InputError(f"a PDF needs a browser, but none of {', '.join(BROWSERS)} is installed")


def render_pdf(html: str) -> bytes:
    """A page of a report, as a browser prints it."""
    browser = find_browser()
    with calls.temporary_folder("mmfl-report-") as name:
        folder = Path(name)
        page, printed = folder / "report.html", folder / "report.pdf"
        write_new(page, html.encode())
        command = [
            browser, "--headless", "--disable-gpu", "--disable-extensions", "--no-first-run",
            "--no-pdf-header-footer", "--virtual-time-budget=5000",
            f"--user-data-dir={folder / 'profile'}", f"--print-to-pdf={printed}", page.as_uri(),
        ]  # fmt: skip
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # Chromium has no sandbox for root
            command.insert(1, "--no-sandbox")
        process = calls.spawn(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            raise InputError(f"{browser} did not print the page in {_PATIENCE:g} s") from None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        try:
            return read_file(printed, limit=_LIMIT)
        except FileNotFoundError:
            raise InputError(
                f"{browser} did not print the page (exit code {process.returncode})"
            ) from None
