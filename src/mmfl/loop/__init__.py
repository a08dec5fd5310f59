"""The round loop: Algorithm 1, and everything that a round consists of."""

from mmfl.loop.client_history import ClientTable, Segment
from mmfl.loop.iteration import Rounds, Steps
from mmfl.loop.loop import play, rounds
from mmfl.loop.population import Population
from mmfl.loop.recruiting import RecruitedClients, compute_payments, recruit, warn_left_out
from mmfl.loop.scoring import combine, find_evaluation_fault
from mmfl.loop.setup import Setup, set_up
from mmfl.loop.state import RoundRecord, State, extend_chain
from mmfl.loop.traces import find_new_traces

__all__ = [
    "ClientTable",
    "Population",
    "RecruitedClients",
    "RoundRecord",
    "Rounds",
    "Segment",
    "Setup",
    "State",
    "Steps",
    "combine",
    "compute_payments",
    "extend_chain",
    "find_evaluation_fault",
    "find_new_traces",
    "play",
    "recruit",
    "rounds",
    "set_up",
    "warn_left_out",
]
