"""The rules, one file each; `mmfl.allocate.ALLOCATORS` is their table."""

from __future__ import annotations

__all__: list[str] = []
