"""The port behind every tool's arguments: one object that describes them and guards them."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from spindle.tools.signature import Function


class Schema(Protocol):
    """Says what the arguments are, and holds a call to it."""

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema the model is told."""
        ...

    @property
    def takes_nothing(self) -> bool:
        """Whether a call without any arguments text means an empty object."""
        ...

    @property
    def validate(self) -> Callable[[dict[str, Any], object], Any]:
        """Check arguments, given also as they came, and give what the handler gets."""
        ...


def schema_of(source: Any, *, tool: str, strict: bool, secret_fields: frozenset[str]) -> Schema:
    """Make the schema of a function, a class or a JSON Schema dict.

    Raises:
        InvalidToolError: It cannot describe arguments.
    """
    # Both need a large library; a program that only defines tools should not pay for either.
    if isinstance(source, Mapping):
        from spindle.tools.raw_schema import RawSchema  # noqa: PLC0415

        return RawSchema(source, tool=tool, secret_fields=secret_fields)
    from spindle.tools.typed_schema import TypedSchema  # noqa: PLC0415

    types = source.collector if isinstance(source, Function) else lambda: source
    texts = source.parameter_texts if isinstance(source, Function) else dict[str, str]
    return TypedSchema(types, tool=tool, strict=strict, secret_fields=secret_fields, texts=texts)
