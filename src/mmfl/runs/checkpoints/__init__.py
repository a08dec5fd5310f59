"""Checkpoints: the loop's state on disk, whole or not at all, and exact to the bit.

A run's folder `checkpoints` holds two sorts of files, none of which is ever changed:

    round-00000012.<16 hex digits>.json      a checkpoint: state, and which files belong to it
    <part>.<16 hex digits>.safetensors       model-<task>, clients, arrays: what is large

The hex digits are the first of the SHA-256 of the file itself; a checkpoint has the whole SHA-256
and the length of each of its files. A part that did not change since is not written again: both
checkpoints name it. Nothing in them is a pickle, so reading them runs no code.
"""

from mmfl.runs.checkpoints.codec import Parts, check_state, decode_state, encode_state, model_file
from mmfl.runs.checkpoints.schedule import CheckpointSchedule
from mmfl.runs.checkpoints.store import CheckpointStore, SearchResult, round_of
from mmfl.system.files import sync_folder, write_whole

__all__ = [
    "CheckpointSchedule",
    "CheckpointStore",
    "Parts",
    "SearchResult",
    "check_state",
    "decode_state",
    "encode_state",
    "model_file",
    "round_of",
    "sync_folder",
    "write_whole",
]
