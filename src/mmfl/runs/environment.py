"""What a run was made with: the file environment.json of its directory."""

from __future__ import annotations

import json
import os
import platform
import site
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeGuard

from mmfl.errors import one_line
from mmfl.experiment import ModelDescription
from mmfl.system.files import read_text

__all__ = [
    "MadeFrom",
    "as_json",
    "describe_mix",
    "environment_now",
    "find_changed_code",
    "find_differing",
    "find_mixed_setups",
    "import_folders",
    "inexact",
    "made_with",
    "sessions",
]


@dataclass(frozen=True)
class MadeFrom:
    """What a run is made from besides the experiment.

    Attributes:
        data: From task name to the SHA-256 of its data.
        numerics: What the engine computes with.
        models: From task name to how its model is built and used.
        clients: What the first clients are called, in order.
    """

    data: Mapping[str, str] = field(default_factory=dict)
    numerics: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, ModelDescription] = field(default_factory=dict)
    clients: Sequence[str] = ()


_NUMERICS = {
    "cpu_capability": "CPU capability",
    "mkldnn": "mkldnn",
    "native_bf16": "native bfloat16",
    "settings": "settings",
    "gpu": "GPU",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
}

_CODE = "code of "
"""What the names of the user's modules begin with in `made_with`."""

_DIGITS = 12
"""How many digits of a hash tell code apart, and are shown."""


def as_json(table: Mapping[str, Any]) -> bytes:
    """A file of JSON, for people too."""
    return f"{json.dumps(table, indent=2)}\n".encode()


def environment_now(
    numerics: Mapping[str, str] = MappingProxyType({}),
    code: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Versions, machine, command and time.

    Args:
        numerics: What the engine computes with.
        code: From the user's modules to the SHA-256 of their files.
    """
    versions = {}
    for name in ("mmfl", "torch", "numpy", "pydantic", "safetensors"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "unknown"
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "python": platform.python_version(),
        "versions": versions,
        "machine": platform.machine(),
        "system": platform.system(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "numerics": dict(numerics),
        "code": dict(code),
        "path": import_folders(),
    }


def sessions(environment: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The starts and resumes that a run's rounds come from, as its environment.json has them."""
    resumed = environment.get("resumed")
    later = [one for one in resumed if isinstance(one, Mapping)] if _is_list(resumed) else []
    known = [environment, *later]
    last = max(n for n, one in enumerate(known) if not n or one.get("after_round") == 0)
    return known[last:]


def made_with(session: Mapping[str, Any]) -> dict[str, str]:
    """What is known to affect the bits of a session's rounds, besides the experiment.

    From "mmfl", "torch", "numpy", "CPU capability", ... to what was used; from "code of MODULE" to
    the first digits of its SHA-256.
    """
    versions, numerics = session.get("versions"), session.get("numerics")
    code = session.get("code")
    own = code if isinstance(code, Mapping) else {}
    tables = [
        (versions, {name: name for name in ("mmfl", "torch", "numpy")}),
        (numerics, _NUMERICS),
        (session, {"processor": "processor"}),
    ]
    return {
        called: one_line(table[name])
        for table, names in tables
        if isinstance(table, Mapping)
        for name, called in names.items()
        if name in table
    } | {f"{_CODE}{one_line(name)}": one_line(digest)[:_DIGITS] for name, digest in own.items()}


def find_differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The names of what two sessions were made with that both know and that differs."""
    return [name for name in one if name in other and one[name] != other[name]]


def find_changed_code(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What differs, as "code of MODULE", in the user's code that two sessions were made with."""
    return [name for name in find_differing(was, now) if name.startswith(_CODE)]


def inexact(environment: Mapping[str, Any]) -> str:
    """Why a run may have other bits than an uninterrupted one; "" if there is no reason."""
    started: dict[str, str] = {}
    last: dict[str, str] = {}
    changes: dict[str, None] = {}
    clauses = []
    for session in sessions(environment):
        made = made_with(session)
        names = find_differing(last, made)
        if names:
            after = one_line(session.get("after_round"))
            clauses.append(f"resumed after round {after} with {_list_versions(names, made)}")
        changes |= dict.fromkeys(names)
        started, last = made | started, last | made
    return (
        f"started with {_list_versions(changes, started)}, {', '.join(clauses)}" if clauses else ""
    )


def find_mixed_setups(runs: Iterable[Mapping[str, str]]) -> dict[str, dict[str, int]]:
    """What runs were made with, where it differs: from its name to how many runs had which."""
    found: dict[str, dict[str, int]] = {}
    for run in runs:
        for name, value in run.items():
            by_value = found.setdefault(name, {})
            by_value[value] = by_value.get(value, 0) + 1
    return {name: by_value for name, by_value in found.items() if len(by_value) > 1}


def describe_mix(name: str, counts: Mapping[str, int]) -> str:
    """A sentence about runs that were made with different versions of something."""
    parts = [
        f"{_name_version(name, v)} ({n} run{'s' * (n > 1)})" for v, n in sorted(counts.items())
    ]
    listed = ", ".join(parts)
    return f"not all runs were made with the same setup, which may change results: {listed}"


def _list_versions(names: Iterable[str], made: Mapping[str, str]) -> str:
    return " and ".join(_name_version(name, made[name]) for name in names)


def _name_version(name: str, value: str) -> str:
    return f"{name} {value or 'none'}"


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def import_folders() -> list[str]:
    """Where modules are looked for besides those that are installed: a user's own are there."""
    installed = {os.path.realpath(path) for path in sysconfig.get_paths().values()}
    installed |= {os.path.realpath(path) for path in (site.getusersitepackages(), sys.prefix)}
    folders = [os.path.realpath(entry) for entry in sys.path if os.path.isdir(entry or ".")]
    library = os.path.realpath(os.path.dirname(os.__file__))
    ours = [folder for folder in folders if not (folder + os.sep).startswith(library + os.sep)]
    return list(dict.fromkeys(folder for folder in ours if folder not in installed))


def _processor() -> str:
    try:
        lines = read_text("/proc/cpuinfo", limit=1 << 24).splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, ValueError, StopIteration):
        return platform.processor()
