"""JSON Schema of Python types, as the model is told it."""

from typing import Any, cast

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind

_METHOD_NAMES: dict[str, str] = {}
_PLAIN = frozenset({str, int, bool, type(None)})


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, without the noise of titles made from names."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  pydantic's own shape

    def build_schema_type_to_method(self) -> Any:
        # Pydantic finds its eighty methods anew for each schema; their names are always the same.
        names = _METHOD_NAMES or _METHOD_NAMES.update(
            {kind: method.__name__ for kind, method in super().build_schema_type_to_method().items()}
        )
        return {kind: getattr(self, name) for kind, name in (names or _METHOD_NAMES).items()}

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:  # noqa: ARG002
        return value  # what is generated has the same order in every process, and the order of the signature at that

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def kw_arguments_schema(self, arguments: Any, var_kwargs_schema: Any) -> JsonSchemaValue:
        schema = super().kw_arguments_schema(arguments, var_kwargs_schema)
        if var_kwargs_schema is not None:
            schema.setdefault("additionalProperties", True)  # left out where `**rest` takes anything
        return schema

    def encode_default(self, dft: Any) -> Any:
        # Pydantic builds a whole adapter for each default; for most of them there is nothing to do.
        if type(dft) in _PLAIN:
            return dft
        if type(dft) in {list, dict} and not dft:
            return dft.copy()
        return super().encode_default(dft)


class _ClosedGenerator(_Generator):
    """For types validated with unknown keys refused at every level: the schema says so at every level."""

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


def json_schema(adapter: TypeAdapter[Any], *, closed: bool) -> dict[str, Any]:
    """Give the schema of what `adapter` accepts."""
    generator = _ClosedGenerator() if closed else _Generator()
    return generator.generate(adapter.core_schema, mode="validation")


def node_kinds(core_schema: Any) -> set[str]:
    """Name every kind of node in a core schema, and "open" for an object that takes unknown keys."""
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
