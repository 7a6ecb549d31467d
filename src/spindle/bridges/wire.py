"""Tolerant access to provider data (SDK objects or plain JSON, never assumed well-formed), and helpers for requests."""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

from pydantic import BaseModel
from typing_extensions import TypeIs

from spindle.bridges.rendering import MediaPart, Part
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.text import escape_surrogates, to_encodable

# `value` is `Any` in the readers below so that each narrows it by its class: they run for every delta of a stream.


def get_field(value: Any, name: str) -> object:
    """Return a field of an SDK object or of plain data; `None` if it is missing."""
    if value.__class__ is dict:
        return value.get(name)
    if isinstance(value, BaseModel):
        return getattr(value, name, None)
    return value.get(name) if is_mapping(value) else None


def get_str(value: Any, name: str) -> str:
    """Return a field that is a string; "" if it is missing or of another type."""
    found = value.get(name) if value.__class__ is dict else get_field(value, name)
    return found if isinstance(found, str) else ""


def get_list(value: object, name: str) -> Sequence[object]:
    """Return a field that is a list; an empty one if it is missing or of another type."""
    found: Any = get_field(value, name)
    return found if found.__class__ is list else as_list(found)


def get_count(value: object, name: str) -> int | None:
    """Return a field that is a non-negative integer; `None` otherwise."""
    found = get_field(value, name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def as_list(value: object) -> Sequence[object]:
    """Return a list or tuple unchanged, and an empty one for anything else."""
    return value if is_list(value) else ()


def is_list(value: object) -> TypeIs[list[object] | tuple[object, ...]]:
    """Return whether a value is a list or a tuple."""
    return isinstance(value, (list, tuple))


def is_mapping(value: object) -> TypeIs[Mapping[str, object]]:
    """Return whether a value is plain data with fields."""
    return isinstance(value, Mapping)


def is_record(value: object) -> bool:
    """Return whether a value can have fields."""
    return isinstance(value, (dict, BaseModel, Mapping))


def to_plain(value: object) -> JsonValue:
    """Return an SDK object as the plain data it was on the wire."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    if is_mapping(value):
        return {name: to_plain(each) for name, each in value.items()}
    return [to_plain(each) for each in value] if is_list(value) else value


_CALL_ID_FIELDS = frozenset({"id", "call_id", "tool_call_id", "tool_use_id", "toolUseId"})


def replace_lone_surrogates(value: JsonValue) -> JsonValue:
    """Return data that can be encoded as UTF-8: lone surrogates become question marks, in ids of calls escapes."""
    if isinstance(value, str):
        return to_encodable(value)
    if is_object(value):
        return {
            name: escape_surrogates(each)
            if name in _CALL_ID_FIELDS and isinstance(each, str)
            else replace_lone_surrogates(each)
            for name, each in value.items()
        }
    return [replace_lone_surrogates(each) for each in value] if is_array(value) else value


def has_content(part: Part) -> bool:
    """Return whether a part is not blank: these APIs reject blank text."""
    return isinstance(part, MediaPart) or bool(part.text.strip())


def split_request(create: Callable[..., object], request: JsonObject) -> JsonObject:
    """Split a request into parameters the SDK knows and an `extra_body` for those only the server knows."""
    known = signature(create).parameters
    if any(each.kind is Parameter.VAR_KEYWORD for each in known.values()):
        return dict(request)  # a wrapper around the SDK that forwards its arguments
    unknown = {name: value for name, value in request.items() if name not in known}
    arguments = {name: value for name, value in request.items() if name in known}
    if unknown:
        arguments["extra_body"] = {**(arguments.get("extra_body") or {}), **unknown}
    return arguments
