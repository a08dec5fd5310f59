"""The round loop: Algorithm 1, and everything that a round consists of."""

from mmfl.loop.allocation import allocate_clients, make_jobs
from mmfl.loop.client_history import ClientTable, Segment
from mmfl.loop.iteration import Rounds
from mmfl.loop.loop import rounds
from mmfl.loop.population import Population
from mmfl.loop.recruiting import Recruited, recruit, settled, warn_of
from mmfl.loop.scoring import combine
from mmfl.loop.state import RoundRecord, State, extend_chain

__all__ = [
    "ClientTable",
    "Population",
    "Recruited",
    "RoundRecord",
    "Rounds",
    "Segment",
    "State",
    "allocate_clients",
    "combine",
    "extend_chain",
    "make_jobs",
    "recruit",
    "rounds",
    "settled",
    "warn_of",
]
