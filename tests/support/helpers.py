"""What several test files use."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mmfl.errors import ConfigError
from mmfl.experiment import Experiment


def one_line(kind: type[Exception], act: Callable[[], object]) -> str:
    """The message of the error that `act` must raise: one line."""
    with pytest.raises(kind) as caught:
        act()
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


DESIGN = """
seed = 0
rounds = 60
precision = "float32"                  # or "bf16"
score = "error"
score_split = "validation"
[clients]
count = 40
active = 0.5                           # C; or a column per client, or an availability table
[local]
epochs = 5                             # or steps = 20
batch_size = 32
lr = 0.01                              # or { kind = "inverse", mu = 0.1, gamma = 8.0 }
momentum = 0.9
weight_decay = 1e-4
[allocator]
kind = "fed_fair"
alpha = 3.0
[aggregator]
kind = "mean"
[evaluate]
every = 1
[engine]
kind = "local"
workers = "auto"
[[tasks]]
name = "fashion"
dataset = "fashion_mnist"
model = { kind = "cnn" }
partition = { kind = "half_classes", points = [150, 250], overlap = false }
"""

LEAST = """
rounds = 2
[clients]
count = 4
[[tasks]]
name = "a"
dataset = "mnist"
"""

SECOND_TASK = """
[[tasks]]
name = "b"
dataset = { kind = "synthetic" }
"""


def made(*sets: str, text: str = LEAST) -> Experiment:
    return Experiment.from_toml(text, sets=sets)


def refused(*sets: str, text: str = LEAST) -> str:
    """The one line that says why the experiment is refused."""
    return one_line(ConfigError, lambda: Experiment.from_toml(text, sets=sets))
