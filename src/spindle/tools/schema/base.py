"""The `Schema` port: one object that describes and validates a tool's arguments."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, cast

from spindle.tools.function import Function

Validate: TypeAlias = Callable[[dict[str, Any], object], Any]
"""`(arguments, raw_arguments)`: returns the value the handler receives, or raises `InvalidToolArgsError`."""


class Schema(Protocol):
    """The schema of a tool's arguments."""

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema sent to the model."""
        ...

    def can_be_empty(self) -> bool:
        """Return whether empty argument text is accepted as an empty object."""
        ...

    def validator(self) -> Validate:
        """Return the function that validates a call's arguments."""
        ...


def build_schema(source: Any, *, tool: str, strict: bool, secret_fields: frozenset[str]) -> Schema:
    """Build the schema of a function, a class or a JSON Schema dict.

    Raises:
        InvalidToolError: The source cannot describe arguments.
    """
    # Each imports a large library; a program that only defines tools should not load either.
    if isinstance(source, Mapping):
        from spindle.tools.schema.json_schema import RawSchema  # noqa: PLC0415

        return RawSchema(cast("Mapping[str, Any]", source), tool=tool, secret_fields=secret_fields)
    from spindle.tools.schema.python_types import TypedSchema  # noqa: PLC0415

    if isinstance(source, Function):
        types, texts = source.build_collector, source.parameter_texts
    else:
        types, texts = (lambda: source), dict[str, str]
    return TypedSchema(types, texts=texts, tool=tool, strict=strict, secret_fields=secret_fields)
