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
from spindle.tools.schema import Validate

_NUMBERS = {"int", "float", "decimal", "complex"}
_BUILD_ERRORS = (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError, NameError, TypeError)


class TypedSchema:
    """The schema of a model, a dataclass, a TypedDict, or a function's parameters; built on first use."""

    def __init__(
        self,
        types: Callable[[], Any],
        *,
        texts: Callable[[], Mapping[str, str]],
        tool: str,
        strict: bool,
        secret_fields: frozenset[str],
    ) -> None:
        self._types = types
        self._texts = texts
        self._tool = tool
        self._strict = strict
        self._secret_fields = secret_fields

    def json_schema(self) -> dict[str, Any]:
        """Give the JSON Schema the model is told."""
        return self._json_schema

    def takes_nothing(self) -> bool:
        """Say whether a call without any arguments text means an empty object."""
        return not self._json_schema["properties"] and self._json_schema["additionalProperties"] is False

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        try:
            return TypeAdapter(self._types())
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
    def _json_schema(self) -> dict[str, Any]:
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

    def validator(self) -> Validate:
        """Give the function that checks a call's arguments."""
        return self._validate

    @cached_property
    def _validate(self) -> Validate:
        parse = self._parser()
        closed_by_hand = self._extra is None and self._json_schema["additionalProperties"] is False
        guards_numbers = not self._strict and bool(self._kinds & _NUMBERS)

        def validate(arguments: dict[str, Any], given: object) -> Any:
            if closed_by_hand:
                self._refuse_unknown(arguments)
            try:
                value = parse(arguments, given)
            except ValidationError as error:
                refused = error
            else:
                if guards_numbers and holds_boolean(arguments.values()):
                    self._refuse_booleans_for_numbers(arguments, parse)
                return value
            # Raised out here so that not even `__context__` shows the values of a tool with secret fields.
            raise self._refusal(refused, arguments) from (None if self._secret_fields else refused)

        return validate

    def _parser(self) -> Validate:
        validator, extra = self._adapter.validator, self._extra
        validate_python, validate_json = validator.validate_python, validator.validate_json

        def through_python(arguments: dict[str, Any], _given: object) -> Any:
            return validate_python(arguments, extra=extra)

        def through_json(arguments: dict[str, Any], given: object) -> Any:
            text = given if isinstance(given, (str, bytes)) and given.strip() else canonical_json(arguments)
            return validate_json(text, strict=True, extra=extra)

        # Strict means strict JSON, where a date may still be text.
        return through_json if self._strict else through_python

    def _refusal(self, error: ValidationError, given: dict[str, Any]) -> InvalidToolArgsError:
        def problems() -> list[Problem]:
            found = error.errors(include_url=False)
            return from_pydantic(found, names_at=self._names_at, secret_fields=self._secret_fields, given=given)

        # A lazy one would keep the received values alive beside the error.
        return refusal(self._tool, problems() if self._secret_fields else problems)

    def _refuse_booleans_for_numbers(self, arguments: dict[str, Any], parse: Validate) -> None:
        wrong = booleans_for_numbers(arguments, lambda probe: parse(probe, None))
        if wrong:
            raise refusal(self._tool, wrong)

    def _refuse_unknown(self, arguments: dict[str, Any]) -> None:
        known: dict[str, Any] = self._json_schema["properties"]
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
        return names_at(self._json_schema, loc)

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
