"""Small experiments as TOML: what several test files run, check or change."""

from __future__ import annotations

INLINE = 'kind = "inline"'

LEAST_INLINE = f"""
rounds = 1
[clients]
count = 4
[engine]
{INLINE}
[[tasks]]
name = "a"
dataset = {{ kind = "synthetic", train = 40, test = 10 }}
"""
"""The least that runs at once."""


def write_small(
    *tasks: str,
    top: str = "rounds = 2",
    clients: str = "count = 4",
    local: str = "epochs = 1",
    engine: str = INLINE,
    train: int = 60,
    test: int = 20,
) -> str:
    """An experiment that takes a moment, with tasks that differ in their data's seed.

    Args:
        tasks: Their names; by default one, called a.
        top: Keys above all tables.
        clients: Keys of ``[clients]``.
        local: Keys of ``[local]``.
        engine: Keys of ``[engine]``.
        train: How many examples a task has to train with.
        test: How many it has for its tests.
    """
    tables = {"clients": clients, "local": local, "engine": engine}
    text = top + "".join(f"\n[{name}]\n{keys}" for name, keys in tables.items())
    for seed, name in enumerate(tasks or ("a",)):
        own = f", seed = {seed}" if seed else ""
        text += f"""
[[tasks]]
name = "{name}"
dataset = {{ kind = "synthetic", train = {train}, test = {test}{own} }}
model = {{ kind = "mlp", hidden = [4] }}"""
    return f"\n{text}\n"
