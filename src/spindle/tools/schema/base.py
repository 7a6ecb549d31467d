"""The port behind every tool's arguments: one object that describes them and guards them."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, cast

from spindle.tools.function import Function

Validate: TypeAlias = Callable[[dict[str, Any], object], Any]
"""`(arguments, as_they_came)`: gives what the handler gets, or raises `InvalidToolArgsError`."""


class Schema(Protocol):
    """Says what the arguments are, and holds a call to it."""

    def json_schema(self) -> dict[str, Any]:
        """Give the JSON Schema the model is told."""
        ...

    def takes_nothing(self) -> bool:
        """Say whether a call without any arguments text means an empty object."""
        ...

    def validator(self) -> Validate:
        """Give the function that checks a call's arguments."""
        ...


def schema_of(source: Any, *, tool: str, strict: bool, secret_fields: frozenset[str]) -> Schema:
    """Make the schema of a function, a class or a JSON Schema dict.

    Raises:
        InvalidToolError: It cannot describe arguments.
    """
    # Both need a large library; a program that only defines tools should not pay for either.
    if isinstance(source, Mapping):
        from spindle.tools.schema.json_schema import RawSchema  # noqa: PLC0415

        return RawSchema(cast("Mapping[str, Any]", source), tool=tool, secret_fields=secret_fields)
    from spindle.tools.schema.python_types import TypedSchema  # noqa: PLC0415

    if isinstance(source, Function):
        types, texts = source.collector, source.parameter_texts
    else:
        types, texts = (lambda: source), dict[str, str]
    return TypedSchema(types, texts=texts, tool=tool, strict=strict, secret_fields=secret_fields)
