"""Arguments described by a JSON Schema: the schema is the contract as written, with nothing coerced.

Drafts 4 to 2020-12, told by `$schema`; 2020-12 without one. `format` is an annotation, as the specification has it by
default. Nothing is ever fetched, and patterns, references and depth are bounded before the first call.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

from spindle.errors import InvalidToolArgsError, InvalidToolError
from spindle.tools.problems import Problem, printable, quoted, refusal
from spindle.tools.raw_copy import as_list, pointer, schema_copy
from spindle.tools.raw_defaults import Defaults
from spindle.tools.raw_graph import SchemaGraph
from spindle.tools.raw_mend import is_type, mending_of
from spindle.tools.raw_problems import RawProblems, expectation, unreadable
from spindle.tools.raw_work import size_of, work_by_depth

if TYPE_CHECKING:
    # For its types alone: it takes 25 ms to import, and only a process with such a tool should pay.
    from jsonschema_rs import ValidationError, Validator

_LEGACY = ("http://json-schema.org/draft-04/", "http://json-schema.org/draft-06/", "http://json-schema.org/draft-07/")
_BACKTRACKS = 100_000
_PATTERN_BYTES = 1_000_000
_MODEST_WORK = 1_000
_MAX_WORK = 20_000_000
_MAX_WORDED_WORK = 10_000
_ASKING = {
    *("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if"),
    *("properties", "patternProperties", "required", "minProperties", "additionalProperties"),
}


class RawSchema:
    """A tool's JSON Schema, checked and compiled when the tool is made.

    Raises:
        InvalidToolError: It is no valid schema of an object, refers outside itself, or could make a call too costly.
    """

    def __init__(self, schema: Mapping[str, Any], *, tool: str, secret_fields: frozenset[str] = frozenset()) -> None:
        self._tool = tool
        self._is_guarded = bool(secret_fields)
        try:
            self._schema = schema_copy(schema)
            _check_root(self._schema)
            graph = SchemaGraph(self._schema, legacy=str(self._schema.get("$schema")).startswith(_LEGACY))
            self._work = work_by_depth(graph)
            self._validator = _compiled(self._schema)
        except InvalidToolError as error:
            message = f"tool {quoted(tool)}: its input_schema {error}"
            raise InvalidToolError(message, tool=tool, field="input_schema") from error
        self._defaults = Defaults(graph)
        self._problems = RawProblems(self._schema, secret_fields=secret_fields)

    def json_schema(self) -> dict[str, Any]:
        """Give the schema as it was written."""
        return deepcopy(self._schema)

    def takes_nothing(self) -> bool:
        """Say whether a call without any arguments text means an empty object."""
        return not any(self._schema.get(keyword) for keyword in _ASKING)

    def validator(self) -> Callable[[dict[str, Any], object], dict[str, Any]]:
        """Give the function that checks a call's arguments."""
        return self.validate

    def validate(self, arguments: dict[str, Any], _given: object = None) -> dict[str, Any]:
        """Hold arguments to the schema as they are, then fill in defaults in a copy.

        Raises:
            InvalidToolArgsError: They do not fit.
        """
        if self._work[-1] > _MODEST_WORK and self._work_for(arguments) > _MAX_WORK:
            received = "one that would take this schema too long to check"
            raise refusal(self._tool, [Problem(path="", expected="a smaller or flatter object", received=received)])
        try:
            fits = self._validator.is_valid(arguments)
        except ValueError:
            raise refusal(self._tool, unreadable(arguments)) from None
        if not fits:
            raise self._refusal(arguments)
        return self._defaults.applied(arguments) if self._defaults.any else arguments

    def _refusal(self, arguments: dict[str, Any]) -> InvalidToolArgsError:
        # Worded at once where a secret is about, so that its value does not live on beside the error.
        if self._is_guarded:
            return refusal(self._tool, self._explained(arguments))
        return refusal(self._tool, lambda: self._explained(arguments))

    def _explained(self, arguments: dict[str, Any]) -> list[Problem]:
        """Say what is wrong: all of it, or the first where finding all would take too long."""
        levels, _ = size_of(arguments)
        found: list[Problem] = []
        try:
            if self._work_for(arguments) <= _MAX_WORDED_WORK:
                found = self._problems.worded(self._validator.iter_errors(arguments), arguments)
            elif self._work_at(levels) <= _MAX_WORDED_WORK:
                self._validator.validate(arguments)
        except ValueError as error:
            if not hasattr(error, "kind"):
                return unreadable(arguments)
            found = self._problems.worded([cast("ValidationError", error)], arguments)
        unclear = Problem(path="", expected="arguments that fit the schema", received="an object that does not")
        return found or [unclear]

    def _work_at(self, levels: int) -> int:
        return self._work[min(levels, len(self._work) - 1)]

    def _work_for(self, arguments: dict[str, Any]) -> int:
        levels, values = size_of(arguments)
        return self._work_at(levels) * values // max(levels, 1)


def _check_root(schema: dict[str, Any]) -> None:
    kind = schema.get("type", "object")
    if kind != "object" and "object" not in as_list(kind):
        remedy = "arguments are one object, so make it a property of one" if is_type(kind) else mending_of(kind)
        shown = quoted(kind) if isinstance(kind, str) else "something else"
        raise InvalidToolError(f"has type {shown} at #/type instead of 'object'; {remedy}")


def _compiled(schema: dict[str, Any]) -> "Validator":
    import jsonschema_rs  # noqa: PLC0415 - slow to import, and only a process with such a tool should pay

    bounds = jsonschema_rs.FancyRegexOptions(
        backtrack_limit=_BACKTRACKS, size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES
    )
    try:
        return jsonschema_rs.validator_for(schema, validate_formats=False, pattern_options=bounds, offline=True)
    except jsonschema_rs.ValidationError as error:
        raise InvalidToolError(_reason(error, schema)) from error
    except (ValueError, RecursionError) as error:
        raise InvalidToolError(f"cannot be compiled ({type(error).__name__}); simplify it") from error


def _reason(error: "ValidationError", schema: dict[str, Any]) -> str:
    """Say what is wrong with the schema itself, and how to mend it."""
    at, wrong = "#", cast("Any", schema)
    for step in error.instance_path:
        at, wrong = pointer(at, step), wrong[step]
    if not error.instance_path:
        return f"cannot be used: {printable(error.message)}; look at $schema and at every $ref and $id"
    keyword = error.instance_path[-1]
    if keyword == "type":
        words = [word for word in as_list(wrong) or [wrong] if not is_type(word)]
        remedy = mending_of(words[0]) if words else "name each type once"
        return f"is not valid at {at}: that is no type of JSON Schema; {remedy}"
    if keyword in ("pattern", "patternProperties"):
        return f"is not valid at {at}: a pattern must be a regular expression of moderate size; simplify it"
    return f"is not valid at {at}: expected {expectation(error)}; spindle.tools.raw_mend.mend knows common slips"
