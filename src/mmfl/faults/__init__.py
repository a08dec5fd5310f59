"""Client faults, injected by addressed randomness, and a quarantine for persistent offenders.

`MISBEHAVIOURS` and `SPEEDS` are the families' tables.
"""

from mmfl.faults.base import FalseWitness, Fault, Misbehaviour
from mmfl.faults.injection import Injection
from mmfl.faults.quarantine import Offenders, Quarantine
from mmfl.faults.settings import MISBEHAVIOURS, Faults, Misbehaving
from mmfl.faults.speeds import SPEEDS, Speed

__all__ = [
    "MISBEHAVIOURS",
    "SPEEDS",
    "FalseWitness",
    "Fault",
    "Faults",
    "Injection",
    "Misbehaving",
    "Misbehaviour",
    "Offenders",
    "Quarantine",
    "Speed",
]
