"""Client faults, injected by addressed randomness, and a quarantine for persistent offenders.

`MISBEHAVIOURS` and `SPEEDS` are the families' tables.
"""

from mmfl.faults.base import Fault, Misbehaviour, ReportingMisbehaviour
from mmfl.faults.injection import Injection
from mmfl.faults.quarantine import Offenders, Quarantine
from mmfl.faults.settings import MISBEHAVIOURS, Faults, Misbehaving
from mmfl.faults.speeds import SPEEDS, Speed

__all__ = [
    "MISBEHAVIOURS",
    "SPEEDS",
    "Fault",
    "Faults",
    "Injection",
    "Misbehaving",
    "Misbehaviour",
    "Offenders",
    "Quarantine",
    "ReportingMisbehaviour",
    "Speed",
]
