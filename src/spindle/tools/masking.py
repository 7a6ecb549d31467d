"""Arguments as they may be shown: secret fields without their values."""

from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import fields, is_dataclass
from typing import Any, cast

MASK = "***"


def masked(value: Any, secret_fields: Collection[str]) -> Any:
    """Give the arguments with every secret field masked; those without any are given as they are.

    An object becomes a dict of its fields, for a masked instance of its class might not exist.
    """
    if not secret_fields:
        return value
    given = dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else _fields_of(value)
    secret = set(secret_fields) | _named_otherwise(type(cast("object", value)), secret_fields)
    return {name: MASK if name in secret else part for name, part in given.items()}


def shown(value: Any, secret_fields: Collection[str]) -> Any:
    """Give the masked arguments as a copy: who is only told of a call cannot change what runs."""
    told = masked(value, secret_fields)
    try:
        return deepcopy(told)
    except Exception:  # noqa: BLE001  an object of others may refuse, and is told as it is
        return told


def _fields_of(value: object) -> dict[str, Any]:
    if is_dataclass(value):  # it may have slots, and then no dict
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return vars(value)


def _named_otherwise(kind: type, secret_fields: Collection[str]) -> set[str]:
    """Find the attributes that a model calls otherwise than the model is told: those with an alias."""
    told: dict[str, Any] = getattr(kind, "__pydantic_fields__", {})
    aliases = {name: (field.alias, field.validation_alias) for name, field in told.items()}
    return {name for name, given in aliases.items() if any(isinstance(it, str) and it in secret_fields for it in given)}
