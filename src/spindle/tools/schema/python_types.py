"""Arguments described by Python types: pydantic validates them and generates their JSON Schema."""

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import cached_property, partial, reduce
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core.core_schema import (
    ArgumentsParameter,
    CoreSchema,
    DataclassSchema,
    ModelSchema,
    TypedDictSchema,
)
from typing_extensions import TypedDict, is_typeddict

from spindle.errors import InvalidToolArgsError, InvalidToolError
from spindle.json_types import JsonObject, JsonValue, copy_object, is_object
from spindle.tools import schema as schemas
from spindle.tools.identity import canonical_json
from spindle.tools.schema.base import Problem, Validate, build_refusal, format_location, format_problems, suggest_name
from spindle.tools.schema.booleans import build_boolean_finder, collect_node_kinds, find_booleans_for_numbers
from spindle.tools.schema.pydantic_errors import translate_errors

if TYPE_CHECKING:
    from spindle.trust.flow.roles import Role

_ROLES: Final = "spindle.trust.flow.roles"
_METHOD_NAMES: dict[str, str] = {}
_PLAIN = frozenset({str, int, bool, type(None)})


class _Generator(GenerateJsonSchema):
    """Pydantic's generator without titles derived from names."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  pydantic's own shape

    def build_schema_type_to_method(self) -> Any:
        # Pydantic looks up its eighty methods for each schema; their names are always the same.
        names = _METHOD_NAMES or _METHOD_NAMES.update(
            {kind: method.__name__ for kind, method in super().build_schema_type_to_method().items()}
        )
        return {kind: getattr(self, name) for kind, name in (names or _METHOD_NAMES).items()}

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:  # noqa: ARG002
        return value  # already in the order of the signature, the same in every process

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def kw_arguments_schema(
        self, arguments: list[ArgumentsParameter], var_kwargs_schema: CoreSchema | None
    ) -> JsonSchemaValue:
        schema = super().kw_arguments_schema(arguments, var_kwargs_schema)
        if var_kwargs_schema is not None:
            schema.setdefault("additionalProperties", True)  # pydantic omits it if `**rest` accepts anything
        return schema

    def encode_default(self, dft: JsonValue) -> JsonValue:
        # Pydantic builds an adapter for each default, which most defaults do not need.
        if type(dft) in _PLAIN:
            return dft
        if type(dft) in {list, dict} and not dft:
            return dft.copy()
        return super().encode_default(dft)


class _ClosedGenerator(_Generator):
    """A generator for types that reject unknown keys at every level; the schema states it at every level."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        return _close(super().model_schema(schema))

    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
        return _close(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: TypedDictSchema) -> JsonSchemaValue:
        return _close(super().typed_dict_schema(schema))


def _close(schema: JsonSchemaValue) -> JsonSchemaValue:
    if "properties" in schema or schema.get("type") == "object":
        schema.setdefault("additionalProperties", False)
    return schema


def generate_json_schema(adapter: TypeAdapter[object], *, closed: bool) -> JsonObject:
    """Return the JSON Schema of the values that `adapter` accepts."""
    generator = _ClosedGenerator() if closed else _Generator()
    return generator.generate(adapter.core_schema, mode="validation")


RebuiltClasses: TypeAlias = dict[object, object]
"""Rebuilt classes by their original; a recursive class is entered before its keys are read."""

_TRAITS = ("__module__", "__qualname__", "__doc__", "__total__", "__required_keys__", "__optional_keys__")


def rebuild_typed_dicts(source: object) -> Any:
    """Return a class, or a function whose parameters are the arguments, with every TypedDict rebuilt for pydantic."""
    made: RebuiltClasses = {}
    if not inspect.isfunction(source):
        return _again(source, made)
    signature = inspect.signature(source)
    parameters = [each.replace(annotation=_again(each.annotation, made)) for each in signature.parameters.values()]
    vars(source)["__signature__"] = signature.replace(parameters=parameters)
    source.__annotations__ = {name: _again(hint, made) for name, hint in source.__annotations__.items()}
    return source


def _again(hint: Any, made: RebuiltClasses) -> Any:
    if is_typeddict(hint):
        return made.get(hint) or _new_class(hint, made)
    parts, origin = get_args(hint), get_origin(hint)
    if origin is Literal or not parts:
        return hint
    new = tuple(_again(part, made) for part in parts)
    if all(one is other for one, other in zip(parts, new, strict=True)):
        return hint
    if origin is Annotated:
        return Annotated[new]  # pyright: ignore[reportInvalidTypeForm]  the type and its metadata, in one tuple
    if origin is UnionType:
        return reduce(lambda one, other: one | other, new)
    return hint.copy_with(new) if hasattr(hint, "copy_with") else origin[new]


def _new_class(old: type, made: RebuiltClasses) -> object:
    new: Any = TypedDict(old.__name__, {})  # pyright: ignore[reportArgumentType]  its name is known only at run time
    made[old] = new
    new.__annotations__ = {name: _again(hint, made) for name, hint in get_type_hints(old, include_extras=True).items()}
    for trait in _TRAITS:
        setattr(new, trait, getattr(old, trait))
    if (config := getattr(old, "__pydantic_config__", None)) is not None:
        new.__pydantic_config__ = config
    return new


_OBJECTS = {"model", "dataclass", "typed-dict"}
_SCALARS = {"str", "int", "float", "bool", "none", "literal", "enum", "date", "time", "datetime", "timedelta"}


def _copies_input(node: Mapping[str, Any]) -> bool:
    """Return whether valid values share nothing with the input that can be changed, and no code of a type sees it."""
    kind = node["type"]
    if kind in _SCALARS:
        return True
    if kind == "call":
        return _copies_input(node["arguments_schema"])
    if kind == "arguments":
        is_open = "var_args_schema" in node or "var_kwargs_schema" in node
        return not is_open and all(_copies_input(each["schema"]) for each in node["arguments_schema"])
    if kind in {"default", "nullable"}:
        return _copies_input(node["schema"])
    return kind == "list" and "items_schema" in node and _copies_input(node["items_schema"])


_BUILD_ERRORS = (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError, NameError, TypeError)


class TypedSchema:
    """The schema of a model, a dataclass, a TypedDict, or a function's parameters; built on first use."""

    def __init__(
        self,
        types: Callable[[], object],
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

    def json_schema(self) -> JsonObject:
        """Return the JSON Schema sent to the model."""
        return self._json_schema

    def roles(self) -> "Mapping[str, Role]":
        """Return the roles that its types declare, by dotted path."""
        return self._described[1]

    def can_be_empty(self) -> bool:
        """Return whether empty argument text is accepted as an empty object."""
        return not self._json_schema.get("required")

    @cached_property
    def _adapter(self) -> TypeAdapter[object]:
        try:
            return _adapter_of(self._types())
        except _BUILD_ERRORS as error:
            raise self._cannot("be read by pydantic", error) from error

    @cached_property
    def _kinds(self) -> set[str]:
        return collect_node_kinds(self._adapter.core_schema)

    @cached_property
    def _is_open(self) -> bool:
        # Pydantic's option for unknown keys applies to all levels; it is not used if a type allows them at any level.
        return "open" in self._kinds

    @property
    def _json_schema(self) -> JsonObject:
        return self._described[0]

    @cached_property
    def _described(self) -> "tuple[JsonObject, Mapping[str, Role]]":
        try:
            schema = generate_json_schema(self._adapter, closed=not self._is_open)
        except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
            raise self._cannot("be described as JSON Schema", error) from error
        schema = _with_root_inlined(schema)
        if schema.get("type") != "object":
            raise self._cannot("be used as arguments, which must be one JSON object", None)
        schema.setdefault("additionalProperties", False)
        properties: JsonObject = schema.setdefault("properties", {})
        for name, text in self._texts().items():
            if name in properties:
                properties[name].setdefault("description", text)
        # No type has a role before the module of roles is loaded, which most programs do not need.
        return schema, schemas.take_roles(schema) if _ROLES in sys.modules else {}

    def validator(self) -> Validate:
        """Return the function that validates a call's arguments."""
        return self._validate

    def copying_validator(self) -> Validate:
        """Return the same for arguments that are kept: the value shares nothing with them that can be changed."""
        return self._validate_copy

    @cached_property
    def _validate_copy(self) -> Validate:
        validate = self._validate
        if self._strict or _copies_input(self._adapter.core_schema):
            return validate
        return lambda arguments: validate(copy_object(arguments))

    @cached_property
    def _validate(self) -> Validate:
        parse, find_problems, tool = self._parser(), self._problems, self._tool
        closed_by_hand = self._is_open and self._json_schema["additionalProperties"] is False
        find_boolean = None if self._strict else build_boolean_finder(self._adapter.core_schema)

        def validate(arguments: JsonObject) -> object:
            if closed_by_hand:
                self._refuse_unknown(arguments)
            try:
                value = parse(arguments)
            except ValidationError as error:
                problems = partial(find_problems, error, arguments)
                raise InvalidToolArgsError(format_problems, tool=tool, problems=problems) from error
            if find_boolean is not None and find_boolean(arguments):
                wrong = find_booleans_for_numbers(arguments, parse)
                if wrong:
                    raise build_refusal(tool, wrong)
            return value

        return _hide_causes(validate) if self._secret_fields else validate

    def _parser(self) -> Callable[[JsonObject], object]:
        validator, extra = self._adapter.validator, None if self._is_open else "forbid"
        if self._strict:  # strict in JSON mode: a date may still be text
            return lambda arguments: validator.validate_json(canonical_json(arguments), strict=True, extra=extra)
        if not self._kinds & _OBJECTS:  # only parameters, which reject unknown names anyway
            return validator.validate_python
        return partial(validator.validate_python, extra=extra)

    def _problems(self, error: ValidationError, given: JsonObject) -> list[Problem]:
        found = error.errors(include_url=False)
        return translate_errors(found, names_at=self._names_at, secret_fields=self._secret_fields, given=given)

    def _refuse_unknown(self, arguments: JsonObject) -> None:
        known: JsonObject = self._json_schema["properties"]
        unknown = [
            Problem(
                path=format_location((name,)),
                expected="only the arguments of the schema",
                received="unknown argument",
                hint=suggest_name(name, known),
            )
            for name in arguments
            if name not in known
        ]
        if unknown:
            raise build_refusal(self._tool, unknown)

    def _names_at(self, loc: tuple[str | int, ...]) -> list[str]:
        return list_names_at(self._json_schema, loc)

    def _cannot(self, what: str, error: BaseException | None) -> InvalidToolError:
        reason = f": {str(error).splitlines()[0]}" if error is not None and str(error) else ""
        message = f"Tool {self._tool!r}: its parameters cannot {what}{reason}"
        return InvalidToolError(message, tool=self._tool, field="input_schema")


def _adapter_of(source: Any) -> TypeAdapter[object]:
    try:
        return TypeAdapter(source)
    except PydanticUserError as error:
        if error.code != "typed-dict-version":  # before Python 3.12 it accepts only TypedDicts of typing_extensions
            raise
    return TypeAdapter(rebuild_typed_dicts(source))


def _hide_causes(validate: Validate) -> Validate:
    """Compute the problems of a refusal at once and drop its causes, which would show the values of secret fields."""

    def hidden(arguments: JsonObject) -> object:
        try:
            return validate(arguments)
        except InvalidToolArgsError as error:
            refused = build_refusal(str(error.tool), error.problems)
        try:
            raise refused
        finally:
            del refused  # otherwise the error and this frame form a reference cycle

    return hidden


def list_names_at(schema: JsonObject, loc: tuple[str | int, ...]) -> list[str]:
    """Return the property names that a JSON Schema has at a location; empty if unknown."""
    node: JsonValue = schema
    for step in loc:
        node = _resolve(schema, node)
        if isinstance(step, int):
            node = node.get("items", {})
        elif step in node.get("properties", {}):
            node = node["properties"][step]
        else:
            continue  # the label of a union branch is in the location, but not in the schema
    node = _resolve(schema, node)
    return list(node.get("properties", {}))


def _resolve(schema: JsonObject, node: object) -> JsonObject:
    if not is_object(node):
        return {}
    reference = node.get("$ref", "")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        return schema.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
    return node


def _with_root_inlined(schema: JsonObject) -> JsonObject:
    """Inline the root of a recursive model: arguments are an object, not a reference to one."""
    if "$ref" not in schema:
        return schema
    return {**_resolve(schema, schema), "$defs": schema["$defs"]}
