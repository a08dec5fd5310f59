"""The round loop: Algorithm 1, and everything that a round consists of."""

from mmfl.loop.allocation import allocate_clients, make_jobs
from mmfl.loop.client_history import ClientTable, Segment
from mmfl.loop.iteration import Rounds
from mmfl.loop.loop import play, rounds
from mmfl.loop.population import Population
from mmfl.loop.recruiting import Recruited, recruit, settled, warn_of
from mmfl.loop.scoring import combine
from mmfl.loop.setup import Setup, set_up
from mmfl.loop.state import RoundRecord, State, extend_chain

__all__ = [
    "ClientTable",
    "Population",
    "Recruited",
    "RoundRecord",
    "Rounds",
    "Segment",
    "Setup",
    "State",
    "allocate_clients",
    "combine",
    "extend_chain",
    "make_jobs",
    "play",
    "recruit",
    "rounds",
    "set_up",
    "settled",
    "warn_of",
]
