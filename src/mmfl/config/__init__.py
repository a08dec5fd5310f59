"""How configuration becomes values and back: components, families, and one sentence per mistake.

A *component* is a frozen value whose fields are its hyper-parameters: it prints, compares, hashes
and pickles. A *family* is one literal table of kinds of components. A user's own class or function
is imported only inside a block of `imports_allowed`: a configuration must not run code by surprise.
"""

from mmfl.config.components import (
    WRITE_IF_SET,
    Chance,
    Count,
    Finite,
    Flag,
    Natural,
    NonNegative,
    Positive,
    Share,
    Text,
    check_shares,
    component,
)
from mmfl.config.family import Family, PartLike, build_component, dump, parse
from mmfl.config.imports import OwnFunction, find_script_part, imports_allowed
from mmfl.config.in_memory import copy_by_value, find_paths, is_in_memory, is_module, pack, unpack
from mmfl.config.messages import problem, short
from mmfl.config.module_hashes import find_module_file, hash_module
from mmfl.config.plain_values import are_equal
from mmfl.config.schema import one_or_several
from mmfl.config.toml import apply_set, read_text_file, read_toml

__all__ = [
    "WRITE_IF_SET",
    "Chance",
    "Count",
    "Family",
    "Finite",
    "Flag",
    "Natural",
    "NonNegative",
    "OwnFunction",
    "PartLike",
    "Positive",
    "Share",
    "Text",
    "apply_set",
    "are_equal",
    "build_component",
    "check_shares",
    "component",
    "copy_by_value",
    "dump",
    "find_module_file",
    "find_paths",
    "find_script_part",
    "hash_module",
    "imports_allowed",
    "is_in_memory",
    "is_module",
    "one_or_several",
    "pack",
    "parse",
    "problem",
    "read_text_file",
    "read_toml",
    "short",
    "unpack",
]
