"""Booleans in place of numbers: pydantic accepts them, a tool does not.

Only the places of a schema that take numbers are looked at, so most arguments are not validated a second time.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from spindle.json_types import JsonValue, is_array, is_list_or_tuple, is_object
from spindle.tools.schema.base import Problem, format_location

_NUMBERS: Final = frozenset({"int", "float", "decimal", "complex"})
_ATOMS: Final = frozenset({str, int, float, type(None)})

_CoreSchema: TypeAlias = Mapping[str, Any]
FindBoolean: TypeAlias = Callable[[JsonValue], bool]
"""Returns whether a valid value has a boolean in a place that may take a number."""


def collect_node_kinds(core_schema: object) -> set[str]:
    """Return every node type in a core schema, and "open" if an object accepts unknown keys."""
    found: set[str] = set()
    todo = [core_schema]
    while todo:
        node = todo.pop()
        if is_object(node):
            found.add(str(node.get("type")))
            if "allow" in (node.get("extra_behavior"), node.get("extra_fields_behavior")):
                found.add("open")
            todo.extend(node.values())
        elif is_list_or_tuple(node):
            todo.extend(node)
    return found


def build_boolean_finder(core_schema: _CoreSchema) -> FindBoolean | None:
    """Return the function that looks at the places of numbers in a schema; `None` if there are none."""
    return _build_finder(core_schema) if collect_node_kinds(core_schema) & _NUMBERS else None


def _build_finder(node: _CoreSchema) -> FindBoolean | None:
    kind = node["type"]
    if kind in _NUMBERS:
        return _is_boolean
    if kind in {"default", "nullable", "dataclass"} or (kind == "model" and not node.get("custom_init")):
        return _build_finder(node["schema"])
    if kind == "call":
        return _build_finder(node["arguments_schema"])
    if kind == "list":
        return _build_list_finder(_build_finder(node.get("items_schema") or {"type": "any"}))
    fields = _get_fields(node)
    if fields is not None:
        return _build_object_finder(fields)
    # Unions, references, validators of a type: any boolean inside may be in place of a number.
    return _holds_boolean if collect_node_kinds(node) & (_NUMBERS | {"definition-ref"}) else None


def _get_fields(node: _CoreSchema) -> Collection[tuple[str, _CoreSchema]] | None:
    """Return the fields of an object with the names they may have; `None` if they cannot be looked up by name."""
    if node.get("extras_schema") or node.get("var_kwargs_schema"):
        return None
    if node["type"] in {"model-fields", "typed-dict"}:
        fields: list[tuple[str, _CoreSchema]] = list(node["fields"].items())
    elif node["type"] in {"dataclass-args", "arguments"}:
        listed: list[_CoreSchema] = node.get("fields") or node.get("arguments_schema") or []
        fields = [(field["name"], field) for field in listed]
    else:
        return None
    names: list[tuple[str, _CoreSchema]] = []
    for name, field in fields:
        alias = field.get("validation_alias", field.get("alias"))
        if alias is not None and not isinstance(alias, str):
            return None
        names += [(each, field["schema"]) for each in {name, alias or name}]
    return names


def _build_list_finder(find: FindBoolean | None) -> FindBoolean | None:
    if find is None:
        return None

    def find_in_list(value: JsonValue) -> bool:
        if value.__class__ is not list:
            return _holds_boolean(value)
        return bool in map(type, value) if find is _is_boolean else any(map(find, value))

    return find_in_list


def _build_object_finder(fields: Iterable[tuple[str, _CoreSchema]]) -> FindBoolean | None:
    found = [(name, find) for name, schema in fields if (find := _build_finder(schema)) is not None]
    if not found:
        return None
    numbers = [name for name, find in found if find is _is_boolean]
    others = [(name, find) for name, find in found if find is not _is_boolean]

    def find_in_object(value: JsonValue) -> bool:
        if value.__class__ is not dict:
            return _holds_boolean(value)
        for name in numbers:
            if value.get(name).__class__ is bool:
                return True
        return bool(others) and any(name in value and find(value[name]) for name, find in others)

    return find_in_object


def _is_boolean(value: JsonValue) -> bool:
    return value.__class__ is bool


def _holds_boolean(value: JsonValue) -> bool:
    kind = value.__class__
    if kind in _ATOMS:
        return False
    if kind is bool:
        return True
    parts: Iterable[JsonValue] = value.values() if is_object(value) else value if is_array(value) else ()
    return any(map(_holds_boolean, parts))


_NOT_A_NUMBER = {
    "int_parsing": "a whole number",
    "float_parsing": "a number",
    "decimal_parsing": "a number",
    "complex_str_parsing": "a number",
}


def find_booleans_for_numbers(arguments: JsonValue, validate: Callable[[Any], object]) -> list[Problem]:
    """Return a problem for each boolean in place of a number, in arguments that are otherwise valid.

    They are validated again with each boolean as text, which is valid for a boolean but not for a number.
    """
    try:
        validate(_booleans_as_text(arguments))
    except ValidationError as error:
        return [
            Problem(path=format_location(each["loc"]), expected=_NOT_A_NUMBER[each["type"]], received="a boolean")
            for each in error.errors(include_url=False)
            if each["type"] in _NOT_A_NUMBER and isinstance(_at(arguments, each["loc"]), bool)
        ]
    return []


def _booleans_as_text(value: JsonValue) -> JsonValue:
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_object(value):
        return {key: _booleans_as_text(part) for key, part in value.items()}
    if is_array(value):
        return [_booleans_as_text(part) for part in value]
    return value


def _at(arguments: JsonValue, loc: tuple[str | int, ...]) -> JsonValue:
    for step in loc:
        try:
            arguments = arguments[step]
        except (KeyError, IndexError, TypeError):
            continue  # the label of a union branch is in the location, but not in the arguments
    return arguments
