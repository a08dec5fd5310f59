"""Dense networks."""

from __future__ import annotations

from mmfl.errors import ConfigError
from mmfl.models import Mlp
from support.helpers import one_line


def test_a_network_has_at_most_a_thousand_hidden_layers():
    assert len(Mlp(hidden=(1,) * 1000).hidden) == 1000
    said = one_line(ConfigError, lambda: Mlp(hidden=(1,) * 1001))
    assert said.startswith("Mlp: hidden must have at most 1000 items")


def test_layers_follow_each_other():
    module = Mlp(hidden=(5, 4), dropout=0.5).build((2, 3), 7)
    assert [tuple(p.shape) for p in module.parameters()] == [
        *((5, 6), (5,)),
        *((4, 5), (4,)),
        *((7, 4), (7,)),
    ]
