"""Real clients, through Flower: an engine over a Grid, and what answers it at the nodes.

This package imports flwr (`pip install 'mmfl[flower]'`); nothing else in mmfl needs it.
"""

from mmfl.engines.flower.data import NodeSettings
from mmfl.engines.flower.engine import FlowerEngine
from mmfl.engines.flower.node import Node, describe_mistake

__all__ = ["FlowerEngine", "Node", "NodeSettings", "describe_mistake"]
