"""JSON Schema, which editors use: it accepts what the parser accepts, where JSON Schema can say so.

It cannot say that 3.0 is not a whole number, that NaN is not a number, or how two fields depend on
each other. `tests/config/test_schema.py` compares it with the parser, value by value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, WithJsonSchema

if TYPE_CHECKING:
    from mmfl.config.family import Family

__all__ = ["family_schema", "one_or_several"]

_OWN = {"type": "string", "pattern": "^[^:\\s]+:[^:\\s]+$"}  # package.module:Name

Schema = dict[str, Any]


def one_or_several(several: Schema | None = None, /, **rule: Any) -> WithJsonSchema:
    """A number under a rule, or a list of such numbers; `several`: what a list must also obey."""
    number = {"type": "number", **rule}
    listed = {"type": "array", "items": number, "minItems": 1, **(several or {})}
    return WithJsonSchema({"anyOf": [number, listed]})


def family_schema(family: Family) -> Schema:
    """One alternative for each kind, for what may stand without one, and for a user's own."""
    tables = {kind: TypeAdapter(cls).json_schema() for kind, cls in sorted(family.table.items())}
    bare = [kind for kind, table in tables.items() if not table.get("required")]
    choices: list[Schema] = [{"enum": bare}] if bare else []
    choices.append(_OWN)
    if family.scalar is not None:
        kind, name = family.scalar
        value = dict(tables[kind]["properties"][name])
        if value.get("type") == "string":  # a kind or an import path is not such a value
            value["not"] = {"anyOf": [{"enum": [*tables]}, {"pattern": ":"}]}
        choices.append(value)
    if family.listed is not None:
        kind, name = family.listed
        choices.append(tables[kind]["properties"][name])
    for kind, table in tables.items():
        table["properties"] = {"kind": {"const": kind}, **table.get("properties", {})}
        if kind != family.default:
            table["required"] = ["kind", *table.get("required", [])]
        choices.append(table)
    choices.append({"type": "object", "properties": {"kind": _OWN}, "required": ["kind"]})
    if family.optional:
        choices.append({"type": "null"})
    return {"anyOf": choices}
