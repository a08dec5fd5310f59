"""A dashboard in the browser: the runs in a folder, live. It reads; only its module `control` acts.

What it shows is read from run directories (`mmfl.runs`) and drawn as reports are
(`mmfl.report.document`). What a browser may ask for is decided in `mmfl.dashboard.access`.
"""

from mmfl.dashboard.access import Access, is_local, make_token
from mmfl.dashboard.app import Dashboard, serve

__all__ = ["Access", "Dashboard", "is_local", "make_token", "serve"]
