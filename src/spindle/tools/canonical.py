"""Canonical JSON: RFC 8785, plus exact integers and escaped lone surrogates.

`serialize` is the reference and accepts values of any depth; `serialize_fast` has a compiled library serialize ordinary
values, with the same bytes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from json.encoder import encode_basestring, encode_basestring_ascii
from math import isfinite
from types import NoneType
from typing import Any, NoReturn, TypeAlias

from spindle.errors import NotCanonicalError
from spindle.json_types import JsonObject, JsonValue, is_list_or_tuple, is_mapping
from spindle.text import shorten_middle

_PIECE_DIGITS = 512  # below 640, the lowest limit that `sys.set_int_max_str_digits` accepts
_PIECE = 10**_PIECE_DIGITS


def format_float(number: float) -> str:
    """Format a finite float as ECMAScript does, which RFC 8785 requires."""
    mantissa, _, exponent = float.__repr__(number).partition("e")
    if not exponent:
        text = mantissa.removesuffix(".0")
        return "0" if text == "-0" else text
    # Python and ECMAScript agree on the shortest digits, and differ only in when they use an exponent.
    sign = "-" if mantissa.startswith("-") else ""
    return sign + _place_point(mantissa.lstrip("-").replace(".", ""), point=int(exponent) + 1)


def _place_point(digits: str, *, point: int) -> str:
    if 0 < point <= 21:
        # Python uses an exponent from 1e16 on and needs at most 17 digits, so no digit is right of the point.
        return digits.ljust(point, "0")
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    fraction = "." + digits[1:] if digits[1:] else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def format_integer(number: int) -> str:
    """Format an integer with all its digits, regardless of Python's digit limit."""
    try:
        return int.__repr__(number)
    except ValueError:  # longer than `sys.get_int_max_str_digits()`
        return ("-" if number < 0 else "") + _all_digits(int.__abs__(number))


def _all_digits(number: int) -> str:
    powers = [_PIECE]
    while (square := powers[-1] ** 2) <= number:
        powers.append(square)
    pieces = [number]
    for power in reversed(powers):
        pieces = [part for piece in pieces for part in divmod(piece, power)]
    return "".join(f"{piece:0{_PIECE_DIGITS}d}" for piece in pieces).lstrip("0")


_Step: TypeAlias = str | int
_Entry: TypeAlias = tuple[str, _Step, object]
"""The text before a child, the child's key or index, the child."""

_SHOWN_PATH_CHARS = 200


def serialize(value: object) -> bytes:
    """Serialize `value` as canonical JSON.

    Raises:
        NotCanonicalError: The value contains something that is not JSON, or contains itself.
    """
    # Only a lone surrogate cannot be encoded as UTF-8, and its replacement is exactly its JSON escape.
    return _Rendering().render(value).encode("utf-8", "backslashreplace")


@dataclass(slots=True)
class _Open:
    """A list or mapping whose children are being serialized."""

    container: object
    entries: Iterator[_Entry]
    closing: str
    step: _Step = 0


class _Rendering:
    """One walk over a value with an explicit stack, so that depth cannot overflow Python's."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._open: list[_Open] = []
        self._open_ids: set[int] = set()

    def render(self, value: object) -> str:
        self._write(value)
        while self._open:
            top = self._open[-1]
            entry = next(top.entries, None)
            if entry is None:
                self._close(top)
            else:
                lead, top.step, child = entry
                self._parts.append(lead)
                self._write(child)
        return "".join(self._parts)

    def _write(self, value: object) -> None:
        if value is None or isinstance(value, (bool, int, float, str)):
            self._parts.append(self._scalar(value))
        elif is_list_or_tuple(value):
            self._enter(value, "[", "]", _items(self._children(value)))
        elif is_mapping(value):
            self._enter(value, "{", "}", self._members(value))
        else:
            self._refuse(
                f"{type(value).__name__} is not a JSON value",
                "use None, bool, int, float, str, list, tuple or a mapping with str keys",
            )

    def _enter(self, container: object, opening: str, closing: str, entries: Iterator[_Entry]) -> None:
        if id(container) in self._open_ids:
            self._refuse("this value contains itself", "break the cycle")
        self._open_ids.add(id(container))
        self._open.append(_Open(container, entries, closing))
        self._parts.append(opening)

    def _close(self, top: _Open) -> None:
        self._parts.append(top.closing)
        self._open_ids.remove(id(top.container))
        self._open.pop()

    def _scalar(self, value: float | str | None) -> str:
        if isinstance(value, str):
            return encode_basestring(_whole_text(value))
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return format_integer(value)
        if not isfinite(value):
            self._refuse(f"{float.__repr__(value)} is not a JSON number", "use a finite number or None")
        return format_float(value)

    def _members(self, mapping: Mapping[object, object]) -> Iterator[_Entry]:
        members: dict[str, object] = {}
        for key, child in self._children(mapping):
            if not isinstance(key, str):
                self._refuse(f"a key is {type(key).__name__}", "use str for every key")
            name = _whole_text(key)
            if name in members:
                self._refuse(f"two keys are both {encode_basestring_ascii(name)}", "keep one of them")
            members[name] = child
        return _iter_members(members)

    def _children(self, container: Mapping[object, object] | Sequence[object]) -> list[Any]:
        try:
            return list(container.items() if isinstance(container, Mapping) else container)
        except Exception as error:  # a custom mapping may raise anything
            path, kind = self._path(), type(container).__name__
            raise NotCanonicalError(
                f"{_shorten_path(path)}: this {kind} cannot be read; use a dict", path=path
            ) from error

    def _refuse(self, problem: str, remedy: str) -> NoReturn:
        path = self._path()
        raise NotCanonicalError(f"{_shorten_path(path)}: {problem}; {remedy}", path=path)

    def _path(self) -> str:
        return "$" + "".join(_step_text(opened.step) for opened in self._open)


def _items(children: list[object]) -> Iterator[_Entry]:
    for index, child in enumerate(children):
        yield "," if index else "", index, child


def _iter_members(members: dict[str, object]) -> Iterator[_Entry]:
    comma = ""
    for name in sorted(members, key=_utf16_units):
        yield f"{comma}{encode_basestring(name)}:", name, members[name]
        comma = ","


def _utf16_units(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _whole_text(text: str) -> str:
    """Return `text` as a plain `str` with surrogate pairs combined into the characters they encode.

    JSON cannot distinguish the two, so both must serialize to the same text.
    """
    plain = str.__str__(text)
    try:
        plain.encode()
    except UnicodeEncodeError:
        return _utf16_units(plain).decode("utf-16-be", "surrogatepass")
    return plain


def _step_text(step: _Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if step.isidentifier() else f"[{encode_basestring_ascii(step)}]"


def _shorten_path(path: str) -> str:
    return shorten_middle(path, _SHOWN_PATH_CHARS)


_SMALLEST, _LARGEST = 1e-6, 2.0**53
_PLAIN = frozenset({str, int, bool, NoneType})
_BEYOND_BMP = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")
_PROBE: JsonObject = {
    "".join(map(chr, range(0x300))): [None, True, False, "", {}, [], ()],
    "\u2028\ud7ff\uffff": [0, -1, 2**53 + 1, -(2**63) - 1, 10**40],
    "b": [0.0, -0.0, 1.0, -2.5, 0.1, 1e-6, 0.00012345, 5e15, 2.0**53 - 1, 4503599627370495.5],
    "a": "\U0001f600\U0010ffff",
}


def serialize_fast(value: JsonValue) -> bytes | None:
    """Serialize an ordinary value; return `None` for one that only `serialize` can serialize or reject."""
    write = _load_fast_writer()
    if write is None:
        return None
    try:
        # Serialize first: it stops at cycles and great depth, on which the type check would recurse endlessly.
        data = write(value).encode()
        return data if _is_ordinary(value) and not _keys_may_be_misplaced(data) else None
    except (ValueError, RecursionError):
        return None


@cache
def _load_fast_writer() -> Callable[[JsonValue], str] | None:
    """Return the compiled serializer, or `None` if it no longer produces the same bytes as `serialize`.

    Checksums outlive the process: a new release of the library must not change them.
    """
    from jsonschema_rs import canonical  # noqa: PLC0415 - takes longer to import than all of Spindle

    write = canonical.json.to_string
    try:
        return write if write(_PROBE).encode() == serialize(_PROBE) else None
    except (TypeError, ValueError):
        return None


def _is_ordinary(value: JsonValue) -> bool:
    """Return whether `value` holds only types that the fast serializer formats as RFC 8785 does.

    It also accepts decimals, enums and NaN, and formats very small and very large floats differently.
    """
    thing: object = value  # otherwise `kind` is untyped
    kind = type(thing)
    if kind is dict:
        # Loops, because `all(…)` over a generator would double the cost of the whole fast path.
        for key, child in value.items():
            if type(key) is not str or (type(child) not in _PLAIN and not _is_ordinary(child)):
                return False
    elif kind is list or kind is tuple:
        for child in value:
            if type(child) not in _PLAIN and not _is_ordinary(child):
                return False
    elif kind is float:
        return _SMALLEST <= value < _LARGEST or -_LARGEST < value <= -_SMALLEST or value == 0
    else:
        return kind in _PLAIN
    return True


def _keys_may_be_misplaced(data: bytes) -> bool:
    """Return whether code point order, which the fast serializer uses, may differ from UTF-16 order.

    That requires a character of U+E000 to U+FFFF and one beyond; these bytes occur in UTF-8 only as their first bytes.
    """
    return (b"\xee" in data or b"\xef" in data) and any(lead in data for lead in _BEYOND_BMP)
