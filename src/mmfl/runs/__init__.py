"""Run directories: writing, reading and comparing them."""

from mmfl.runs.assignments import unpack_assignments
from mmfl.runs.auction import (
    StoredRecruitment,
    TaskRecruitment,
    read_bids,
    read_recruitment,
)
from mmfl.runs.catalog import Catalog, Place, find_runs, order_variants, place_of
from mmfl.runs.database import DATABASE
from mmfl.runs.directory.folders import find_run_folder
from mmfl.runs.directory.lock import find_owner, is_owned
from mmfl.runs.directory.mark import is_marked
from mmfl.runs.directory.names import check_folder, check_names, slugify
from mmfl.runs.environment import (
    describe_mix,
    environment_now,
    find_changed_code,
    find_mixed_setups,
    inexact,
    made_with,
    sessions,
)
from mmfl.runs.events import Event, read_events
from mmfl.runs.failures import TaskTurns, turns_by_task
from mmfl.runs.listing import (
    Line,
    count_runs,
    count_states,
    format_age,
    list_lines,
    list_variants,
)
from mmfl.runs.models import load_model
from mmfl.runs.overview import STATES, Overview, is_run, read_overview
from mmfl.runs.profiling import Profile, profile, timed_rounds
from mmfl.runs.records import read_records
from mmfl.runs.removal import check_removable, remove_run
from mmfl.runs.result import Run, no_nan
from mmfl.runs.resume import clear_unfinished, is_unsigned
from mmfl.runs.runner import StoredRounds, run, stored_rounds
from mmfl.runs.store import RunStore
from mmfl.runs.trial import TaskTrial, try_tasks
from mmfl.runs.turn_table import TurnTable, read_turn_table
from mmfl.runs.verification import find_damage, verify

__all__ = [
    "DATABASE",
    "STATES",
    "Catalog",
    "Event",
    "Line",
    "Overview",
    "Place",
    "Profile",
    "Run",
    "RunStore",
    "StoredRecruitment",
    "StoredRounds",
    "TaskRecruitment",
    "TaskTrial",
    "TaskTurns",
    "TurnTable",
    "check_folder",
    "check_names",
    "check_removable",
    "clear_unfinished",
    "count_runs",
    "count_states",
    "describe_mix",
    "environment_now",
    "find_changed_code",
    "find_damage",
    "find_mixed_setups",
    "find_owner",
    "find_run_folder",
    "find_runs",
    "format_age",
    "inexact",
    "is_marked",
    "is_owned",
    "is_run",
    "is_unsigned",
    "list_lines",
    "list_variants",
    "load_model",
    "made_with",
    "no_nan",
    "order_variants",
    "place_of",
    "profile",
    "read_bids",
    "read_events",
    "read_overview",
    "read_records",
    "read_recruitment",
    "read_turn_table",
    "remove_run",
    "run",
    "sessions",
    "slugify",
    "stored_rounds",
    "timed_rounds",
    "try_tasks",
    "turns_by_task",
    "unpack_assignments",
    "verify",
]
