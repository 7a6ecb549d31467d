"""Holds what a tool gave to the output schema its server declared, by our own bounded validator."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from spindle.errors import InvalidToolArgsError, InvalidToolError
from spindle.tools.problems import Problem
from spindle.tools.raw_schema import RawSchema

OutputCheck = Callable[[Any, bool], str | None]


def output_check(schema: Mapping[str, Any], *, tool: str) -> OutputCheck:
    """Make the function that says what is wrong with structured content, or nothing.

    Raises:
        InvalidToolError: The schema is none, or would make a check too costly.
    """
    try:
        validate = cast("Callable[[Any], Any]", RawSchema(_of_any_value(schema), tool=tool).validate)
    except InvalidToolError as error:
        reason = str(error.__cause__ or error)
        raise InvalidToolError(f"its output schema {reason}", tool=tool, field="output_schema") from error

    def check(value: Any, is_given: bool) -> str | None:  # noqa: FBT001  a pair of facts about one thing
        if not is_given:
            return f"The tool {tool!r} declares an output schema, but gave no structured content."
        try:
            validate(value)
        except InvalidToolArgsError as error:
            said = "; ".join(_said(problem) for problem in cast("tuple[Problem, ...]", error.problems)[:5])
            return f"The tool {tool!r} gave structured content that does not fit its own output schema: {said}"
        return None

    return check


def _of_any_value(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Say the same without a `type` at the root: arguments must be an object there, a result may be any value."""
    conditions = schema.get("allOf", [])
    if "type" not in schema or not isinstance(conditions, list):
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword != "type"}
    return {**rest, "allOf": [*cast("list[Any]", conditions), {"type": schema["type"]}]}


def _said(problem: Problem) -> str:
    where = f"{problem.path}: " if problem.path else ""
    return f"{where}expected {problem.expected}, received {problem.received}"
