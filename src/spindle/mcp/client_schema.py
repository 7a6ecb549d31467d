"""Foreign input schemas in the form the rest of the house reads: `definitions` become `$defs`."""

from collections.abc import Mapping
from typing import Any, cast

_OLD, _NEW = "#/definitions/", "#/$defs/"
_NAMED = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"))
_DATA = frozenset(("enum", "const", "default", "examples", "example"))
_MAX_DEPTH = 200


def with_defs(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give the schema with `definitions` at its root as `$defs`, and with what refers to them.

    One that has `$defs` too, or marks a new root inside by `$id`, is left as it is: its references say what they mean.
    """
    if not isinstance(schema.get("definitions"), Mapping) or "$defs" in schema:
        return dict(schema)
    moved = {"$defs" if key == "definitions" else key: value for key, value in schema.items()}
    return cast("dict[str, Any]", _rewritten(moved, 0))


def _rewritten(node: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return node  # the schema's own checks refuse it
    if isinstance(node, list):
        return [_rewritten(each, depth + 1) for each in cast("list[Any]", node)]
    if not isinstance(node, Mapping):
        return node
    found = cast("Mapping[str, Any]", node)
    if depth and ("$id" in found or ("id" in found and isinstance(found["id"], str))):
        return dict(found)
    return {key: _keyword(key, value, depth) for key, value in found.items()}


def _keyword(key: str, value: Any, depth: int) -> Any:
    if key == "$ref" and isinstance(value, str) and value.startswith(_OLD):
        return _NEW + value.removeprefix(_OLD)
    if key in _DATA:
        return value
    if key in _NAMED and isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        return {name: _rewritten(each, depth + 1) for name, each in named.items()}
    return _rewritten(value, depth + 1)
