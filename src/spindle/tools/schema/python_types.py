"""Arguments described by Python types: pydantic validates them and generates their JSON Schema."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial, reduce
from types import UnionType
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from typing_extensions import TypedDict, is_typeddict

from spindle.errors import InvalidToolArgsError, InvalidToolError
from spindle.tools.identity import canonical_json
from spindle.tools.schema.base import Validate
from spindle.tools.schema.problems import Problem, build_refusal, format_location, format_problems, suggest_name
from spindle.tools.schema.pydantic_errors import translate_errors

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

    def kw_arguments_schema(self, arguments: Any, var_kwargs_schema: Any) -> JsonSchemaValue:
        schema = super().kw_arguments_schema(arguments, var_kwargs_schema)
        if var_kwargs_schema is not None:
            schema.setdefault("additionalProperties", True)  # pydantic omits it if `**rest` accepts anything
        return schema

    def encode_default(self, dft: Any) -> Any:
        # Pydantic builds an adapter for each default, which most defaults do not need.
        if type(dft) in _PLAIN:
            return dft
        if type(dft) in {list, dict} and not dft:
            return dft.copy()
        return super().encode_default(dft)


class _ClosedGenerator(_Generator):
    """A generator for types that reject unknown keys at every level; the schema states it at every level."""

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        return _closed(super().model_schema(schema))

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        return _closed(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: Any) -> JsonSchemaValue:
        return _closed(super().typed_dict_schema(schema))


def _closed(schema: JsonSchemaValue) -> JsonSchemaValue:
    if "properties" in schema or schema.get("type") == "object":
        schema.setdefault("additionalProperties", False)
    return schema


def generate_json_schema(adapter: TypeAdapter[Any], *, closed: bool) -> dict[str, Any]:
    """Return the JSON Schema of the values that `adapter` accepts."""
    generator = _ClosedGenerator() if closed else _Generator()
    return generator.generate(adapter.core_schema, mode="validation")


def collect_node_kinds(core_schema: Any) -> set[str]:
    """Return every node type in a core schema, and "open" if an object accepts unknown keys."""
    found: set[str] = set()
    todo: list[Any] = [core_schema]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            node = cast("dict[str, Any]", node)
            found.add(str(node.get("type")))
            if "allow" in (node.get("extra_behavior"), node.get("extra_fields_behavior")):
                found.add("open")
            todo.extend(node.values())
        elif isinstance(node, (list, tuple)):
            todo.extend(cast("list[Any]", node))
    return found


_NOT_A_NUMBER = {
    "int_parsing": "a whole number",
    "float_parsing": "a number",
    "decimal_parsing": "a number",
    "complex_str_parsing": "a number",
}


def may_contain_boolean(arguments: dict[str, Any], given: object) -> bool:
    """Return whether the arguments may contain a boolean; JSON text is searched for the word instead of walked."""
    if isinstance(given, bytes):
        return b"true" in given or b"false" in given
    if isinstance(given, str):
        return "true" in given or "false" in given
    return _holds_boolean(arguments.values())


def _holds_boolean(values: Iterable[Any]) -> bool:
    for value in values:
        if value is True or value is False:
            return True
        if isinstance(value, list) and _holds_boolean(cast("list[Any]", value)):
            return True
        if isinstance(value, dict) and _holds_boolean(cast("dict[Any, Any]", value).values()):
            return True
    return False


def find_booleans_for_numbers(arguments: dict[str, Any], validate: Callable[[Any], Any]) -> list[Problem]:
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


def _booleans_as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return {key: _booleans_as_text(part) for key, part in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_booleans_as_text(part) for part in cast("list[Any]", value)]
    return value


def _at(arguments: Any, loc: tuple[str | int, ...]) -> Any:
    for step in loc:
        try:
            arguments = arguments[step]
        except (KeyError, IndexError, TypeError):
            continue  # the label of a union branch is in the location, but not in the arguments
    return arguments


RebuiltClasses = dict[Any, Any]
"""Rebuilt classes by their original; a recursive class is entered before its keys are read."""

_TRAITS = ("__module__", "__qualname__", "__doc__", "__total__", "__required_keys__", "__optional_keys__")


def rebuild_typed_dicts(source: Any) -> Any:
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


def _new_class(old: Any, made: RebuiltClasses) -> Any:
    new: Any = TypedDict(old.__name__, {})  # pyright: ignore[reportArgumentType]  its name is known only at run time
    made[old] = new
    new.__annotations__ = {name: _again(hint, made) for name, hint in get_type_hints(old, include_extras=True).items()}
    for trait in _TRAITS:
        setattr(new, trait, getattr(old, trait))
    if (config := getattr(old, "__pydantic_config__", None)) is not None:
        new.__pydantic_config__ = config
    return new


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
        """Return the JSON Schema sent to the model."""
        return self._json_schema

    def can_be_empty(self) -> bool:
        """Return whether empty argument text is accepted as an empty object."""
        return not self._json_schema["properties"] and self._json_schema["additionalProperties"] is False

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
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

    @cached_property
    def _json_schema(self) -> dict[str, Any]:
        try:
            schema = generate_json_schema(self._adapter, closed=not self._is_open)
        except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
            raise self._cannot("be described as JSON Schema", error) from error
        schema = _with_root_inlined(schema)
        if schema.get("type") != "object":
            raise self._cannot("be used as arguments, which must be one JSON object", None)
        schema.setdefault("additionalProperties", False)
        properties: dict[str, Any] = schema.setdefault("properties", {})
        for name, text in self._texts().items():
            if name in properties:
                properties[name].setdefault("description", text)
        return schema

    def validator(self) -> Validate:
        """Return the function that validates a call's arguments."""
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
                raise InvalidToolArgsError(format_problems, tool=tool, problems=problems) from error
            if guards_numbers and may_contain_boolean(arguments, given):
                wrong = find_booleans_for_numbers(arguments, parse)
                if wrong:
                    raise build_refusal(tool, wrong)
            return value

        return _hiding_causes(validate) if self._secret_fields else validate

    def _parser(self) -> Callable[[dict[str, Any]], Any]:
        validator, extra = self._adapter.validator, None if self._is_open else "forbid"
        if self._strict:  # strict in JSON mode: a date may still be text
            return lambda arguments: validator.validate_json(canonical_json(arguments), strict=True, extra=extra)
        if not self._kinds & _OBJECTS:  # only parameters, which reject unknown names anyway
            return validator.validate_python
        return partial(validator.validate_python, extra=extra)

    def _problems(self, error: ValidationError, given: dict[str, Any]) -> list[Problem]:
        found = error.errors(include_url=False)
        return translate_errors(found, names_at=self._names_at, secret_fields=self._secret_fields, given=given)

    def _refuse_unknown(self, arguments: dict[str, Any]) -> None:
        known: dict[str, Any] = self._json_schema["properties"]
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


def _adapter_of(source: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(source)
    except PydanticUserError as error:
        if error.code != "typed-dict-version":  # before Python 3.12 it accepts only TypedDicts of typing_extensions
            raise
    return TypeAdapter(rebuild_typed_dicts(source))


def _hiding_causes(validate: Validate) -> Validate:
    """Compute the problems of a refusal at once and drop its causes, which would show the values of secret fields."""

    def hidden(arguments: dict[str, Any], given: object) -> Any:
        try:
            return validate(arguments, given)
        except InvalidToolArgsError as error:
            refused = build_refusal(str(error.tool), error.problems)
        try:
            raise refused
        finally:
            del refused  # otherwise the error and this frame form a reference cycle

    return hidden


def list_names_at(schema: dict[str, Any], loc: tuple[str | int, ...]) -> list[str]:
    """Return the property names that a JSON Schema has at a location; empty if unknown."""
    node: Any = schema
    for step in loc:
        node = _resolved(schema, node)
        if isinstance(step, int):
            node = node.get("items", {})
        elif step in node.get("properties", {}):
            node = node["properties"][step]
        else:
            continue  # the label of a union branch is in the location, but not in the schema
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
    """Inline the root of a recursive model: arguments are an object, not a reference to one."""
    if "$ref" not in schema:
        return schema
    return {**_resolved(schema, schema), "$defs": schema["$defs"]}
