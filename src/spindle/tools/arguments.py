"""Parsing of a call's raw arguments into one dict, and masking of its secret fields."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from jiter import from_json

from spindle.capabilities.secrets.secret import Redactor
from spindle.errors import InvalidToolArgsError
from spindle.json_types import JsonObject, JsonValue, copy_object, is_mapping
from spindle.text import MASK
from spindle.tools.schema.base import Problem, build_refusal, describe_kind, format_location

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_Place: TypeAlias = tuple[JsonValue, tuple[object, ...]]
"""A container and the path to it."""
_MAX_DEPTH = 200
_PLAIN_DEPTH = 50
_ATOMS = frozenset((str, int, bool, type(None)))
_CONTAINERS = (dict, list, tuple, Mapping)

# A float overflows only with a non-negative exponent, or with more than 308 digits before the point. With every digit
# replaced by 0, one search of the text finds either, so ordinary arguments need no walk.
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789+E", b"0000000000e")
_EXPONENT = b"0e0"
_MANY_DIGITS = b"0" * 309
_SHORT = len(_MANY_DIGITS)

_EXPECTED = "one JSON object with the tool's arguments"
_PLACE = re.compile(r" at line (\d+) column (\d+)$")
_HALF_PAIR = ("half of a surrogate pair", "send whole characters")
_TOO_DEEP = (f"more than {_MAX_DEPTH} levels of nesting", "send a flatter value")
_BROKEN: dict[str, tuple[str, str]] = {
    "EOF while parsing": ("JSON that ends too early", "send all of it; a shorter call is less likely to be cut off"),
    "Detected duplicate key": ("JSON that has a key twice", "name each argument once"),
    "trailing characters": ("JSON with more text after the object", "send the object alone"),
    "trailing comma": ("JSON with a comma that nothing follows", "remove the comma"),
    "recursion limit": _TOO_DEEP,
    "number out of range": ("a number with too many digits", "send fewer digits"),
    "invalid number": ("a number that JSON cannot write", "use no leading zero, plus sign or bare point"),
    "control character": ("a bare line break or control character in a text", "escape it, as in \\n"),
    "invalid unicode": ("bytes that are not UTF-8", "encode the text as UTF-8"),
    "lone leading surrogate": _HALF_PAIR,
    "unexpected end of hex": _HALF_PAIR,
    "invalid escape": ("an escape that JSON does not have", "write a backslash itself as \\\\"),
    "key must be a string": ("a key without double quotes", "put every key in double quotes"),
}
copy_arguments = copy_object
"""Copies parsed arguments, so that a handler that changes its own does not change the caller's."""
_NOT_JSON = ("text that is not valid JSON", "use double quotes, no comments, no NaN or Infinity")


def read_arguments(args: object, *, tool: str, empty_ok: bool) -> JsonObject:
    """Return the arguments as one dict; JSON text of calls is parsed only here.

    A dict is returned unchanged. `None` means `{}`, and so does blank text if `empty_ok`.

    Raises:
        InvalidToolArgsError: The arguments are not one JSON object, or contain a value that JSON cannot represent.
    """
    if type(args) is bytes:
        data = args
    elif type(args) is str:
        try:
            data = args.encode()
        except UnicodeEncodeError:
            raise _build_error(tool, *_HALF_PAIR) from None
    else:
        return _read_other(args, tool=tool, empty_ok=empty_ok)
    try:
        value: JsonValue = from_json(data, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        if empty_ok and not data.strip():
            return {}
        raise _not_parsed(tool, data, str(error)) from None
    if value.__class__ is not dict:
        raise _build_error(tool, describe_kind(value), "wrap it in an object and name each argument")
    masked = data.translate(_DIGITS_AS_ZERO)
    if masked.replace(_EXPONENT, b"") != masked or (len(data) > _SHORT and _may_hide(masked)):
        return _inspect(value, tool)
    return value


def copy_plain(given: object) -> JsonObject | None:
    """Copy a mapping of ordinary JSON values, which always has a checksum; `None` for any other, or a deep one."""
    if given.__class__ is not dict:
        return None
    try:
        return _copy_plain(given, _PLAIN_DEPTH)
    except _NotPlainError:
        return None


class _NotPlainError(Exception):
    """A value that is not plain JSON, or that must be looked at more closely to know."""


def _copy_plain(value: JsonValue, depth: int) -> JsonValue:
    kind = value.__class__
    if kind is dict and depth:
        copied: JsonObject = {}
        for key, part in value.items():
            if key.__class__ is not str or not key.isascii():
                raise _NotPlainError
            copied[key] = part if part.__class__ in _ATOMS else _copy_plain(part, depth - 1)
        return copied
    if kind is list and depth:
        if _ATOMS.issuperset(map(type, value)):
            return value.copy()
        return [part if part.__class__ in _ATOMS else _copy_plain(part, depth - 1) for part in value]
    if kind in _ATOMS or (kind is float and isfinite(value)):
        return value
    raise _NotPlainError


def _may_hide(masked: bytes) -> bool:
    """Return whether a long text may contain an overflowing number or an empty container nested one level too deep."""
    return masked.find(_MANY_DIGITS) >= 0 or masked.count(b"[") + masked.count(b"{") > _MAX_DEPTH


def _read_other(args: Any, *, tool: str, empty_ok: bool) -> JsonObject:
    kind = args.__class__
    if kind is dict:
        return args if _is_plain(args) else _inspect(args, tool)
    if args is None:
        return {}
    if issubclass(kind, Mapping):
        return _inspect(dict(args), tool)
    if issubclass(kind, (bytes, bytearray, memoryview)):
        return read_arguments(bytes(args), tool=tool, empty_ok=empty_ok)
    if issubclass(kind, str):
        return read_arguments(str.__str__(args), tool=tool, empty_ok=empty_ok)
    raise _build_error(tool, describe_kind(args), "pass a mapping, or JSON text or bytes")


def _is_plain(given: dict[Any, JsonValue]) -> bool:
    """Return whether a mapping holds only scalars and flat lists, and needs no inspection."""
    for key, value in given.items():
        kind = value.__class__
        if key.__class__ is not str or not (kind in _ATOMS or (kind is list and _ATOMS.issuperset(map(type, value)))):
            return False
    return True


def _inspect(root: dict[Any, JsonValue], tool: str) -> JsonObject:
    """Reject infinities, NaN and deep nesting, which the parser accepts and mappings were never parsed for."""
    for key in root:
        if not isinstance(key, str):
            raise _build_error(tool, f"{describe_kind(key)} as an argument's name", "name every argument with text")
    level: dict[int, _Place] = {0: (root, ())}
    for _ in range(_MAX_DEPTH):
        # Keyed by identity: a value that contains itself twice must not double with every level.
        inner: dict[int, _Place] = {}
        for container, at in level.values():
            for step, value in _entries(container):
                kind = value.__class__
                if kind in _ATOMS:
                    continue
                if issubclass(kind, _CONTAINERS):
                    inner[id(value)] = value, (*at, step)
                elif issubclass(kind, float) and not isfinite(value):
                    raise _not_finite((*at, step), tool)
        if not inner:
            return root
        level = inner
    raise _build_error(tool, *_TOO_DEEP)


def _entries(container: JsonValue) -> Iterable[tuple[object, JsonValue]]:
    if hasattr(container, "items"):
        return container.items()
    items: Iterable[JsonValue] = container
    return enumerate(items)


def _not_finite(at: tuple[object, ...], tool: str) -> InvalidToolArgsError:
    path = format_location([step if isinstance(step, (str, int)) else describe_kind(step) for step in at])
    return build_refusal(tool, [Problem(path=path, expected="a finite number", received="NaN or an infinite number")])


def _not_parsed(tool: str, data: bytes, reason: str) -> InvalidToolArgsError:
    if not data.strip():
        return _build_error(tool, "empty text", "send the arguments, all in one object")
    if data.startswith(b"\xef\xbb\xbf"):
        return _build_error(tool, "text that starts with a byte order mark", "send the object alone")
    received, hint = next((words for start, words in _BROKEN.items() if reason.startswith(start)), _NOT_JSON)
    place = _PLACE.search(reason)
    where = f" (line {place[1]}, column {place[2]})" if place else ""
    return _build_error(tool, received + where, hint)


def _build_error(tool: str, received: str, hint: str) -> InvalidToolArgsError:
    return build_refusal(tool, [Problem(path="", expected=_EXPECTED, received=received, hint=hint)])


def mask_arguments(value: object, secret_fields: Collection[str]) -> JsonValue:
    """Return the arguments with every secret field masked, or unchanged if there are none.

    An object becomes a dict of its fields, because its class might not accept the mask.
    """
    if not secret_fields:
        return value
    given = dict(value) if is_mapping(value) else _fields_of(value)
    secret = set(secret_fields) | _find_aliased_secrets(type(value), secret_fields)
    return {name: MASK if name in secret else part for name, part in given.items()}


def copy_masked(value: object, secret_fields: Collection[str]) -> JsonValue:
    """Return a masked copy of the arguments for observers, so that they cannot change what runs."""
    for_observers = mask_arguments(value, secret_fields)
    try:
        return deepcopy(for_observers)
    except Exception:  # noqa: BLE001  an object that cannot be copied is passed by reference
        return for_observers


def mask_call_arguments(args: object, *, tool: str, secret_fields: Collection[str]) -> JsonValue:
    """Return a call's arguments, parsed and with every secret field masked; unchanged if there are none.

    Arguments that cannot be parsed become a mask: they may contain part of a secret.
    """
    if not secret_fields:
        return args
    try:
        return mask_arguments(read_arguments(args, tool=tool, empty_ok=True), secret_fields)
    except InvalidToolArgsError:
        return MASK


def _fields_of(value: object) -> Mapping[str, object]:
    if is_dataclass(value):  # with slots it has no `__dict__`
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return vars(value)


def _find_aliased_secrets(kind: type, secret_fields: Collection[str]) -> set[str]:
    """Return the attributes of a pydantic model whose alias, the name the language model uses, is a secret field."""
    for_observers: dict[str, FieldInfo] = getattr(kind, "__pydantic_fields__", {})
    aliases = {name: (field.alias, field.validation_alias) for name, field in for_observers.items()}
    return {name for name, given in aliases.items() if any(isinstance(it, str) and it in secret_fields for it in given)}


NO_SECRETS = Redactor()
"""Redacts nothing."""


def build_redactor(arguments: Mapping[str, JsonValue] | None, secret_fields: Collection[str]) -> Redactor:
    """Return a redactor for the values of secret fields; it redacts nothing if there are none."""
    if not secret_fields:
        return NO_SECRETS
    return Redactor(text for name in secret_fields for text in _iter_texts((arguments or {}).get(name)))


def _iter_texts(secret: JsonValue) -> Iterator[str]:
    """Yield the texts of a secret: itself, or every text and number inside it."""
    if is_mapping(secret):
        secret = list(secret.values())
    if isinstance(secret, Sequence) and not isinstance(secret, (str, bytes)):
        for part in cast("Sequence[JsonValue]", secret):
            yield from _iter_texts(part)
    elif secret is not None and not isinstance(secret, bool) and len(text := str(secret)) > 2:
        yield text
