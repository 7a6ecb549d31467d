"""Arguments described by Python types; pydantic both validates them and tells the model."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal, cast

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUndefinedAnnotation

from spindle.errors import InvalidToolArgsError, InvalidToolError
from spindle.tools.booleans import booleans_for_numbers, holds_boolean
from spindle.tools.describing import json_schema, node_kinds
from spindle.tools.identity import canonical_json
from spindle.tools.problems import Problem, did_you_mean, path_text, refusal
from spindle.tools.pydantic_problems import from_pydantic

_NUMBERS = {"int", "float", "decimal", "complex"}
_BUILD_ERRORS = (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError, NameError, TypeError)


class TypedSchema:
    """The schema of a model, a dataclass, a TypedDict, or a function's parameters; built on first use."""

    def __init__(
        self,
        source: Callable[[], Any],
        *,
        tool: str,
        strict: bool = False,
        secret_fields: frozenset[str] = frozenset(),
        texts: Callable[[], Mapping[str, str]] = dict[str, str],
    ) -> None:
        self._source = source
        self._tool = tool
        self._strict = strict
        self._secret_fields = secret_fields
        self._texts = texts

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        try:
            return TypeAdapter(self._source())
        except _BUILD_ERRORS as error:
            raise self._cannot("be understood", error) from error

    @cached_property
    def _kinds(self) -> set[str]:
        return node_kinds(self._adapter.core_schema)

    @cached_property
    def _extra(self) -> Literal["forbid"] | None:
        # Pydantic's switch is for all levels; a type that opens one of them keeps its own word on each.
        return None if "open" in self._kinds else "forbid"

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema the model is told."""
        try:
            schema = json_schema(self._adapter, closed=self._extra is not None)
        except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
            raise self._cannot("be told to a model as JSON Schema", error) from error
        schema = _with_root_inlined(schema)
        if schema.get("type") != "object":
            raise self._cannot("be arguments: they are one JSON object", None)
        schema.setdefault("additionalProperties", False)
        properties: dict[str, Any] = schema.setdefault("properties", {})
        for name, text in self._texts().items():
            if name in properties:
                properties[name].setdefault("description", text)
        return schema

    @cached_property
    def takes_nothing(self) -> bool:
        """Whether a call without any arguments text means an empty object."""
        return not self.json_schema["properties"] and not self.json_schema["additionalProperties"]

    @cached_property
    def validate(self) -> Callable[[dict[str, Any], object], Any]:
        """Check a call's arguments and give what the handler gets: `validate(arguments, as_they_came)`."""
        validator = self._adapter.validator
        validate_python, validate_json = validator.validate_python, validator.validate_json
        extra, strict = self._extra, self._strict
        closed_by_hand = extra is None and self.json_schema["additionalProperties"] is False
        # Strict means strict JSON: a date may still be text. And a decimal keeps the digits a float would lose.
        through_json = strict or "decimal" in self._kinds
        guards_numbers = not strict and bool(self._kinds & _NUMBERS)

        def validate(arguments: dict[str, Any], given: object) -> Any:
            try:
                if closed_by_hand:
                    self._refuse_unknown(arguments)
                if through_json:
                    text = given if isinstance(given, (str, bytes)) and given.strip() else canonical_json(arguments)
                    value = validate_json(text, strict=strict, extra=extra)
                else:
                    value = validate_python(arguments, extra=extra)
            except ValidationError as error:
                raise self._refusal(error, arguments) from (None if self._secret_fields else error)
            if guards_numbers and holds_boolean(arguments.values()):
                again = booleans_for_numbers(arguments, lambda probe: validate_python(probe, extra=extra))
                if again:
                    raise refusal(self._tool, again)
            return value

        return validate

    def _refusal(self, error: ValidationError, given: dict[str, Any]) -> InvalidToolArgsError:
        def problems() -> list[Problem]:
            found = error.errors(include_url=False)
            return from_pydantic(found, names_at=self._names_at, secret_fields=self._secret_fields, given=given)

        # A lazy one would keep the received values alive beside the error.
        return refusal(self._tool, problems() if self._secret_fields else problems)

    def _refuse_unknown(self, arguments: dict[str, Any]) -> None:
        known: dict[str, Any] = self.json_schema["properties"]
        unknown = [
            Problem(
                path=path_text((name,)),
                expected="only the arguments of the schema",
                received="unknown argument",
                hint=did_you_mean(name, known),
            )
            for name in arguments
            if name not in known
        ]
        if unknown:
            raise refusal(self._tool, unknown)

    def _names_at(self, loc: tuple[str | int, ...]) -> list[str]:
        return names_at(self.json_schema, loc)

    def _cannot(self, what: str, error: BaseException | None) -> InvalidToolError:
        reason = f": {str(error).splitlines()[0]}" if error is not None and str(error) else ""
        message = f"tool {self._tool!r}: its parameters cannot {what}{reason}"
        return InvalidToolError(message, tool=self._tool, field="input_schema")


def names_at(schema: dict[str, Any], loc: tuple[str | int, ...]) -> list[str]:
    """List the property names a JSON Schema knows at a place; none where it cannot tell."""
    node: Any = schema
    for step in loc:
        node = _resolved(schema, node)
        if isinstance(step, int):
            node = node.get("items", {})
        elif step in node.get("properties", {}):
            node = node["properties"][step]
        else:
            continue  # a branch of a union: its label is in the place, but not in the schema
    node = _resolved(schema, node)
    return list(node.get("properties", {}))


def _resolved(schema: dict[str, Any], node: Any) -> dict[str, Any]:
    if not isinstance(node, dict):
        return {}
    node = cast("dict[str, Any]", node)
    reference = node.get("$ref", "")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        return schema.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
    return node


def _with_root_inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Bring a recursive model's root up: arguments are an object, not a reference to one."""
    if "$ref" not in schema:
        return schema
    return {**_resolved(schema, schema), "$defs": schema["$defs"]}
