"""The Flower app that `flwr run` sends to a federation: a few lines that import mmfl.

A standard SuperNode runs them. `mmfl flower node` runs the mmfl that is installed instead.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_app"]

_APP = """\
[project]
name = "mmfl"
version = "1.0.0"
description = "Several models over one federation, fairly."
license = "Apache-2.0"
dependencies = ["mmfl"]

[tool.flwr.app]
publisher = "mmfl"

[tool.flwr.app.components]
serverapp = "server_app:app"
clientapp = "client_app:app"

[tool.flwr.app.config]
experiment = ""
out = ""
data-dir = ""
events = ""
allow-imports = false
"""


def write_app(folder: Path) -> None:
    """Write the app into a new folder."""
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(_APP)
    for side in ("server", "client"):
        text = f'from mmfl.flower.{side}_app import app\n\n__all__ = ["app"]\n'
        (folder / f"{side}_app.py").write_text(text)
