"""Runs one of Flower's commands in this process: what `mmfl.system.guard` starts.

python -P -m mmfl.system.guard mmfl.flower.command PARENT COMMAND ARGUMENTS
"""

from __future__ import annotations

import sys
from importlib import import_module

__all__ = ["COMMANDS"]

COMMANDS = {
    "flower-superexec": ("flwr.supercore.cli", "flower_superexec"),
    "flower-superlink": ("flwr.superlink.cli", "flower_superlink"),
    "flower-supernode": ("flwr.supernode.cli", "flower_supernode"),
    "mmfl-node-worker": ("mmfl.flower.node_worker", "main"),
}


def main() -> None:
    """Run the command that the arguments name."""
    del sys.argv[0]
    module, function = COMMANDS[sys.argv[0]]
    getattr(import_module(module), function)()


if __name__ == "__main__":
    main()
