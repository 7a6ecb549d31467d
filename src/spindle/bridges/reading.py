"""Reads what providers send, whether an SDK made objects of it or not; nothing is believed to be well-formed."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel


def field_of(value: Any, name: str) -> Any:
    """Give one field of an SDK's object or of plain data; `None` where there is none."""
    if value.__class__ is dict:
        return value.get(name)
    if isinstance(value, BaseModel):
        return getattr(value, name, None)
    return cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else None


def is_record(value: Any) -> bool:
    """Say whether a value can have fields at all."""
    return isinstance(value, (dict, BaseModel, Mapping))


def text_of(value: Any, name: str) -> str:
    """Give a field that is text, and an empty one for whatever is none."""
    found = value.get(name) if value.__class__ is dict else field_of(value, name)
    return found if isinstance(found, str) else ""


def items_of(value: Any, name: str) -> Sequence[Any]:
    """Give a field that is a list, and an empty one for whatever is none."""
    found = field_of(value, name)
    if found.__class__ is list:
        return found
    return cast("Sequence[Any]", found) if isinstance(found, (list, tuple)) else ()


def count_of(value: Any, name: str) -> int | None:
    """Give a field that is a whole number, not negative."""
    found = field_of(value, name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def plain(value: Any) -> Any:
    """Give an SDK's object as the plain data it was on the wire."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in cast("Mapping[str, Any]", value).items()}
    return [plain(each) for each in cast("list[Any]", value)] if isinstance(value, (list, tuple)) else value


def sendable(value: Any) -> Any:
    """Give data that can be written as UTF-8: halves of surrogate pairs become question marks."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: sendable(each) for name, each in cast("dict[str, Any]", value).items()}
    return [sendable(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value
