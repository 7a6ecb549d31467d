"""Holds what a gate is settled with to the gate's schema: a type pydantic knows, or a JSON Schema."""

from collections.abc import Callable, Mapping
from inspect import isroutine
from typing import Any, TypeAlias, cast

from pydantic import TypeAdapter, ValidationError

from spindle.errors import InvalidGateError, InvalidToolError
from spindle.tools.booleans import booleans_for_numbers, may_hold_boolean
from spindle.tools.describing import node_kinds
from spindle.tools.problems import kind_of, printable, refusal
from spindle.tools.pydantic_problems import from_pydantic
from spindle.tools.raw_schema import RawSchema

Check: TypeAlias = Callable[[Any], Any]
"""Gives the value as the waiter gets it, or raises `InvalidToolArgsError`, whose `problems` say what is wrong."""

_NAME = "gate"


def check_for(schema: Any) -> Check:
    """Make the function that checks a value.

    Raises:
        InvalidGateError: That is no schema.
    """
    if isinstance(schema, Mapping):
        return _raw(cast("Mapping[str, Any]", schema))
    # Pydantic would take a function for its parameters and call it, and text for the name of a type.
    if isroutine(schema) or isinstance(schema, (str, bytes, int, float)):
        raise _no_schema(f"is {kind_of(schema)}; give a type that pydantic knows, or a JSON Schema as a dict")
    return _typed(schema)


def _raw(schema: Mapping[str, Any]) -> Check:
    try:
        return RawSchema(_of_any_value(schema), tool=_NAME).validate
    except InvalidToolError as error:
        raise _no_schema(str(error.__cause__ or error)) from error


def _of_any_value(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Say the same without a `type` at the root: arguments must be an object there, a gate takes any value."""
    conditions = schema.get("allOf", [])
    if "type" not in schema or not isinstance(conditions, list):
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword != "type"}
    return {**rest, "allOf": [*cast("list[Any]", conditions), {"type": schema["type"]}]}


def _typed(schema: Any) -> Check:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(schema)
        is_open = "open" in node_kinds(adapter.core_schema)
    except Exception as error:  # a type may raise what it likes while pydantic looks at it
        raise _no_schema(f"is no type that pydantic knows: {printable(str(error).partition(chr(10))[0])}") from error

    def parse(value: Any) -> Any:
        return adapter.validate_python(value, extra=None if is_open else "forbid")

    def check(value: Any) -> Any:
        try:
            parsed = parse(value)
        except ValidationError as error:
            raise refusal(_NAME, from_pydantic(error.errors(include_url=False), given=value)) from error
        # The guard speaks of arguments, but looks at a value of any kind.
        wrong = booleans_for_numbers(value, parse) if may_hold_boolean({"value": value}, None) else []
        if wrong:
            raise refusal(_NAME, wrong)
        return parsed

    return check


def _no_schema(reason: str) -> InvalidGateError:
    return InvalidGateError(f"a gate's schema {reason}", field="schema")
