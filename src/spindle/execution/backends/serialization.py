"""What crosses from a worker process to the program: JSON with explicit types, never pickled objects.

The worker runs a handler's code, so nothing that it sends may decide what the program executes. Plain data, bytes,
`Ok`, `Err`, media, artifacts, events and exceptions have an encoding; what pydantic can write as JSON crosses as JSON.
"""

import json
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from inspect import iscoroutine
from pathlib import Path
from typing import Any, cast

import anyio
from pydantic_core import to_json

from spindle import artifacts, events, media
from spindle.calls import Err, Ok, SingleMedia
from spindle.errors import HandlerFailedError, NotSendableError
from spindle.json_types import JsonObject, JsonValue
from spindle.tools.schema.base import Problem

_TYPE = "$"
"""The key that marks an object as the encoding of something else."""


def build_not_sendable(type_name: str, what: str = "the result") -> NotSendableError:
    """Build the error for a value of a type that does not cross from a worker process."""
    return NotSendableError(
        f"{what} of the tool ({type_name}) cannot be sent from its worker process: only text, bytes, JSON, Ok, Err, "
        'media and artifacts can; return one of these, or run the tool with isolation="thread"',
        type_name=type_name,
    )


def dump(value: object) -> bytes:
    """Encode a value.

    Raises:
        NotSendableError: The value, or a part of it, has no encoding.
    """
    try:
        return json.dumps(_encode(value)).encode()
    except NotSendableError:
        raise
    except BaseException:  # noqa: BLE001 - inspecting the value runs the handler's own code
        raise build_not_sendable(type(value).__name__) from None


def dump_failure(error: BaseException, trace: str) -> bytes:
    """Encode an exception and its traceback; what does not cross is left out."""
    return json.dumps({"error": _encode_error(error), "traceback": trace}).encode()


def load_failure(data: bytes) -> BaseException:
    """Rebuild an exception, with the traceback of the worker process as a note.

    Raises:
        NotSendableError: The data is not an encoded exception.
    """
    found = load(data)
    if not isinstance(found, dict) or not isinstance(error := cast("JsonObject", found).get("error"), BaseException):
        raise build_not_sendable("a broken encoding")
    # Not `error.add_note`, which an exception may override.
    BaseException.add_note(error, f"In the worker process:\n{found['traceback']}")
    return error


def load(data: bytes) -> Any:
    """Decode a value.

    Raises:
        NotSendableError: The data is not the encoding of a value, or its artifact is gone.
    """
    try:
        return _decode(json.loads(data))
    except NotSendableError:
        raise
    except Exception as error:  # the handler may have written the data itself
        raise build_not_sendable("a broken encoding") from error


def _encode(value: object) -> JsonValue:
    match value:
        case None | bool() | float():
            return value
        case int():
            return int(value)
        case str():
            return str.__str__(value)
        case list():
            return [_encode(each) for each in cast("list[object]", value)]
        case tuple():
            kind = "single" if isinstance(value, SingleMedia) else "tuple"
            return _tag(kind, [_encode(each) for each in cast("tuple[object, ...]", value)])
        case dict():
            return _encode_dict(cast("dict[object, object]", value))
        case bytes() | bytearray() | memoryview():
            return _tag("bytes", b64encode(bytes(cast("bytes", value))).decode())
        case _:
            return _encode_object(value)


def _encode_object(value: object) -> JsonValue:
    match value:
        case Ok():
            return _tag("ok", {each.name: _encode(getattr(value, each.name)) for each in fields(Ok)})
        case Err():
            parts = {each.name: getattr(value, each.name) for each in fields(Err)}
            return _tag("err", parts | {"cause": _encode_if_possible(value.cause)})
        case BaseException():
            return _encode_error(value)
        case artifacts.Artifact():
            return _encode_artifact(value)
        case media.Media():
            return _encode_media(value)
        case _ if _RECORDS.get(type(value).__name__) is type(value):
            parts = {each.name: _encode(getattr(value, each.name)) for each in fields(cast("Any", value))}
            return _tag("record", parts) | {"class": type(value).__name__}
        case _:
            return _encode_other(value)


def _tag(kind: str, value: JsonValue) -> JsonObject:
    return {_TYPE: kind, "value": value}


def _encode_dict(value: dict[object, object]) -> JsonValue:
    if _TYPE not in value and all(type(key) is str for key in value):
        return {cast("str", key): _encode(part) for key, part in value.items()}
    return _tag("dict", [[_encode(key), _encode(part)] for key, part in value.items()])


def _encode_other(value: object) -> JsonValue:
    if iscoroutine(value):
        value.close()  # avoids the "never awaited" warning
        raise build_not_sendable("coroutine")
    if isinstance(value, Iterator):
        raise build_not_sendable(type(cast("object", value)).__name__)  # it may be endless
    try:
        return json.loads(to_json(value, inf_nan_mode="constants"))
    except Exception:  # noqa: BLE001 - serializers of a handler's classes may raise anything
        raise build_not_sendable(type(value).__name__) from None


def _encode_artifact(value: "artifacts.Artifact") -> JsonValue:
    kind = type(value)
    if _find_class(kind.__module__, kind.__qualname__) is not kind:
        raise build_not_sendable(kind.__name__)
    options = {name: part for name, part in vars(value).items() if name != "_reader"}
    stored: Path | None = getattr(value.reader, "stored_file", None)
    content = _encode(anyio.run(value.as_bytes)) if stored is None else str(stored)
    return _tag("artifact", content) | {
        "module": kind.__module__,
        "class": kind.__qualname__,
        "options": _encode(options),
    }


def _encode_media(value: "media.Media") -> JsonValue:
    names = ("kind", "mime_type", "filename", "trust_tier", "modality_hazard", "id", "source")
    stash = {name: {"value": text.value, "trust_tier": text.trust_tier} for name, text in value.stash.items()}
    facts = {name: getattr(value, name) for name in names}
    return _tag("media", _encode(anyio.run(value.as_bytes))) | {"facts": facts, "stash": stash}


def _encode_error(error: BaseException) -> JsonObject:
    """Encode an exception: its class by name, its message, and those arguments and attributes that cross."""
    kind = type(error)
    text = get_message(error)
    # After `str`, because some errors build their message only then.
    return _tag("error", text) | {
        "module": kind.__module__,
        "class": kind.__qualname__,
        "args": _encode_if_possible(error.args),
        "facts": {name: part for name, each in vars(error).items() if (part := _encode_if_possible(each)) is not None},
    }


def _encode_if_possible(value: object) -> JsonValue:
    try:
        return _encode(value)
    except BaseException:  # noqa: BLE001 - inspecting the value runs the handler's own code
        return None


def get_message(error: BaseException) -> str:
    """Return an exception's message, or a fallback if its `__str__` raises."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - `__str__` of a handler's exception may raise anything, also SystemExit
        return "(its message cannot be shown)"


def _decode(value: JsonValue) -> Any:
    if isinstance(value, list):
        return [_decode(each) for each in cast("list[JsonValue]", value)]
    if not isinstance(value, dict):
        return value
    parts = cast("JsonObject", value)
    kind = parts.get(_TYPE)
    return {name: _decode(part) for name, part in parts.items()} if kind is None else _DECODERS[kind](parts)


def _decode_record(parts: JsonObject) -> object:
    return _RECORDS[parts["class"]](**{name: _decode(part) for name, part in parts["value"].items()})


def _decode_artifact(parts: JsonObject) -> "artifacts.Artifact":
    kind = _find_class(parts["module"], parts["class"])
    if kind is None or not issubclass(kind, artifacts.Artifact):
        raise build_not_sendable(str(parts["class"]))
    content = _decode(parts["value"])
    if isinstance(content, bytes):
        reader: Any = artifacts.BytesReader(content)
    else:
        reader = artifacts.FileStore.reopen(Path(content))
        if reader is None:
            raise build_not_sendable("an artifact that is gone")
    made = object.__new__(kind)
    vars(made).update(_decode(parts["options"]) | {"_reader": reader})
    return made


def _decode_media(parts: JsonObject) -> "media.Media":
    return media.Media.from_bytes(_decode(parts["value"]), **parts["facts"], stash=parts["stash"])


def _decode_error(parts: JsonObject) -> BaseException:
    """Rebuild an exception of a class that the program has loaded, without running its code; describe any other."""
    kind = _find_class(parts["module"], parts["class"])
    args, facts = _decode(parts["args"]), _decode(parts["facts"])
    if kind is not None and issubclass(kind, BaseException) and isinstance(args, tuple):
        # The constructor of the nearest class of Python itself: that of the handler's class is not run.
        base: Any = next(each for each in kind.__mro__ if each.__module__ == "builtins")
        with suppress(Exception):
            error: BaseException = base.__new__(kind, *args)
            base.__init__(error, *args)
            error.args = args
            vars(error).update(facts)
            return error
    name, text = str(parts["class"]), str(parts["value"])
    return HandlerFailedError(f"{name}: {text}", class_name=name, text=text)


def _find_class(module: str, qualified_name: str) -> type | None:
    """Return the class of that name if the program has it; nothing is imported, and no `__getattr__` is asked."""
    found: object = sys.modules.get(module)
    for part in qualified_name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) else None


_RECORDS: dict[str, Any] = {
    each.__name__: each for each in vars(events).values() if isinstance(each, type) and is_dataclass(each)
} | {"Problem": Problem}
"""Dataclasses that cross field by field."""

_DECODERS: Mapping[str, Callable[[JsonObject], Any]] = {
    "bytes": lambda parts: b64decode(parts["value"]),
    "tuple": lambda parts: tuple(_decode(parts["value"])),
    "single": lambda parts: SingleMedia(_decode(parts["value"])),
    "dict": lambda parts: {_decode(key): _decode(part) for key, part in parts["value"]},
    "ok": lambda parts: Ok(**_decode(parts["value"])),
    "err": lambda parts: Err(**_decode(parts["value"])),
    "record": _decode_record,
    "artifact": _decode_artifact,
    "media": _decode_media,
    "error": _decode_error,
}
