"""Tolerant access to provider data (SDK objects or plain JSON, never assumed well-formed), and helpers for requests."""

from collections.abc import Iterable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, cast

from pydantic import BaseModel

from spindle.bridges.rendering import MediaPart, Part
from spindle.bridges.transcript import MessageStep, Step


def get_field(value: Any, name: str) -> Any:
    """Return a field of an SDK object or of plain data; `None` if it is missing."""
    if value.__class__ is dict:
        return value.get(name)
    if isinstance(value, BaseModel):
        return getattr(value, name, None)
    return cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else None


def is_record(value: Any) -> bool:
    """Return whether a value can have fields."""
    return isinstance(value, (dict, BaseModel, Mapping))


def get_str(value: Any, name: str) -> str:
    """Return a field that is a string; "" if it is missing or of another type."""
    found = value.get(name) if value.__class__ is dict else get_field(value, name)
    return found if isinstance(found, str) else ""


def get_list(value: Any, name: str) -> Sequence[Any]:
    """Return a field that is a list; an empty one if it is missing or of another type."""
    found = get_field(value, name)
    if found.__class__ is list:
        return found
    return cast("Sequence[Any]", found) if isinstance(found, (list, tuple)) else ()


def get_count(value: Any, name: str) -> int | None:
    """Return a field that is a non-negative integer; `None` otherwise."""
    found = get_field(value, name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def to_plain(value: Any) -> Any:
    """Return an SDK object as the plain data it was on the wire."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    if isinstance(value, Mapping):
        return {name: to_plain(each) for name, each in cast("Mapping[str, Any]", value).items()}
    return [to_plain(each) for each in cast("list[Any]", value)] if isinstance(value, (list, tuple)) else value


def replace_lone_surrogates(value: Any) -> Any:
    """Return data that can be encoded as UTF-8: lone surrogates become question marks."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: replace_lone_surrogates(each) for name, each in cast("dict[str, Any]", value).items()}
    return [replace_lone_surrogates(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


class AlternatingMessages:
    """A list of messages with alternating roles: consecutive blocks of one role are merged into one message."""

    def __init__(self, content: str) -> None:
        self.messages: list[dict[str, Any]] = []
        self._content = content
        """The API's field name for the content of a message."""

    def append(self, role: str, blocks: Sequence[dict[str, Any]]) -> None:
        """Append blocks of a role; an empty list adds no message."""
        if not blocks:
            return
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1][self._content] += blocks
        else:
            self.messages.append({"role": role, self._content: list(blocks)})

    def starting_with_user(self, block: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the messages, preceded by `block` as a user message unless the user already comes first."""
        if not self.messages or self.messages[0]["role"] != "user":
            return [{"role": "user", self._content: [block]}, *self.messages]
        return self.messages


def collect_system_texts(system_prompt: str, steps: Iterable[Step]) -> list[str]:
    """Return the system prompt followed by the texts of all system messages."""
    said = [step.text for step in steps if isinstance(step, MessageStep) and step.role == "system"]
    return [text for text in (system_prompt, *said) if text.strip()]


def has_content(part: Part) -> bool:
    """Return whether a part is not blank: these APIs reject blank text."""
    return isinstance(part, MediaPart) or bool(part.text.strip())


def split_request(create: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    """Split a request into parameters the SDK knows and an `extra_body` for those only the server knows."""
    known = signature(create).parameters
    if any(each.kind is Parameter.VAR_KEYWORD for each in known.values()):
        return dict(request)  # a wrapper around the SDK that forwards its arguments
    unknown = {name: value for name, value in request.items() if name not in known}
    arguments = {name: value for name, value in request.items() if name in known}
    if unknown:
        arguments["extra_body"] = {**(arguments.get("extra_body") or {}), **unknown}
    return arguments
