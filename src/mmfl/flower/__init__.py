"""Real federations with Flower: the apps, a node, and a whole federation on this machine.

flwr is imported by the modules that need it, not here.
"""

from mmfl.flower.app import write_app
from mmfl.flower.certificates import make_certificates, make_node_key
from mmfl.flower.check import refuse_missing_flower
from mmfl.flower.events import Told, read_round
from mmfl.flower.local import LocalFederation
from mmfl.flower.node import NodeOptions, run_node

__all__ = [
    "LocalFederation",
    "NodeOptions",
    "Told",
    "make_certificates",
    "make_node_key",
    "read_round",
    "refuse_missing_flower",
    "run_node",
    "write_app",
]
