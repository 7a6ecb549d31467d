"""Arguments as they may be shown: secret fields without their values."""

from collections.abc import Collection, Mapping
from typing import Any, cast

MASK = "***"


def masked(value: Any, secret_fields: Collection[str]) -> Any:
    """Give the arguments with every secret field masked; those without any are given as they are.

    An object becomes a dict of its fields, for a masked instance of its class might not exist.
    """
    if not secret_fields:
        return value
    fields = dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else _fields_of(value)
    return {name: MASK if name in secret_fields else part for name, part in fields.items()}


def _fields_of(value: object) -> dict[str, Any]:
    return vars(value)
