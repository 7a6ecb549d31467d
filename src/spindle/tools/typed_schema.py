"""Arguments described by Python types; pydantic both validates them and tells the model."""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, cast

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUndefinedAnnotation

from spindle.errors import InvalidToolArgsError, InvalidToolError
from spindle.tools.booleans import booleans_for_numbers, may_hold_boolean
from spindle.tools.describing import json_schema, node_kinds
from spindle.tools.identity import canonical_json
from spindle.tools.problems import Problem, did_you_mean, path_text, refusal, sentence
from spindle.tools.pydantic_problems import from_pydantic
from spindle.tools.schema import Validate
from spindle.tools.typed_dicts import made_readable

_NUMBERS = {"int", "float", "decimal", "complex"}
_OBJECTS = {"model", "dataclass", "typed-dict"}
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
            return _adapter_of(self._types())
        except _BUILD_ERRORS as error:
            raise self._cannot("be understood", error) from error

    @cached_property
    def _kinds(self) -> set[str]:
        return node_kinds(self._adapter.core_schema)

    @cached_property
    def _is_open(self) -> bool:
        # Pydantic's switch for unknown keys is for all levels; a type that opens one of them keeps its word on each.
        return "open" in self._kinds

    @cached_property
    def _json_schema(self) -> dict[str, Any]:
        try:
            schema = json_schema(self._adapter, closed=not self._is_open)
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
        parse, find_problems, tool = self._parser(), self._problems, self._tool
        closed_by_hand = self._is_open and self._json_schema["additionalProperties"] is False
        guards_numbers = not self._strict and bool(self._kinds & _NUMBERS)

        def validate(arguments: dict[str, Any], given: object) -> Any:
            if closed_by_hand:
                self._refuse_unknown(arguments)
            try:
                value = parse(arguments)
            except ValidationError as error:
                problems = partial(find_problems, error, arguments)
                raise InvalidToolArgsError(sentence, tool=tool, problems=problems) from error
            if guards_numbers and may_hold_boolean(arguments, given):
                wrong = booleans_for_numbers(arguments, parse)
                if wrong:
                    raise refusal(tool, wrong)
            return value

        return _hiding_causes(validate) if self._secret_fields else validate

    def _parser(self) -> Callable[[dict[str, Any]], Any]:
        validator, extra = self._adapter.validator, None if self._is_open else "forbid"
        if self._strict:  # as JSON is strict: a date may still be text
            return lambda arguments: validator.validate_json(canonical_json(arguments), strict=True, extra=extra)
        if not self._kinds & _OBJECTS:  # nothing but parameters, which refuse unknown names by themselves
            return validator.validate_python
        return partial(validator.validate_python, extra=extra)

    def _problems(self, error: ValidationError, given: dict[str, Any]) -> list[Problem]:
        found = error.errors(include_url=False)
        return from_pydantic(found, names_at=self._names_at, secret_fields=self._secret_fields, given=given)

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


def _adapter_of(source: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(source)
    except PydanticUserError as error:
        if error.code != "typed-dict-version":  # before Python 3.12 it reads only the kind of typing_extensions
            raise
    return TypeAdapter(made_readable(source))


def _hiding_causes(validate: Validate) -> Validate:
    """Work a refusal out at once and cut its causes off: they would show the values of secret fields."""

    def hidden(arguments: dict[str, Any], given: object) -> Any:
        try:
            return validate(arguments, given)
        except InvalidToolArgsError as error:
            refused = refusal(str(error.tool), error.problems)
        try:
            raise refused
        finally:
            del refused  # or the error and this frame would keep each other alive

    return hidden


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
