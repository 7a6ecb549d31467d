"""The reference implementation of canonical JSON: RFC 8785, plus exact integers and escaped lone surrogates.

It accepts values of any depth; `fast_canonical.py` has a fast path for ordinary values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring, encode_basestring_ascii
from math import isfinite
from typing import Any, NoReturn, TypeAlias, cast

from spindle.errors import NotCanonicalError

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
_Entry: TypeAlias = tuple[str, _Step, Any]
"""The text before a child, the child's key or index, the child."""

_SHOWN_PATH_CHARS = 200


def serialize(value: Any) -> bytes:
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

    def render(self, value: Any) -> str:
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
        match value:
            case None | bool() | int() | float() | str():
                self._parts.append(self._scalar(value))
            case list() | tuple():
                items = cast("Sequence[Any]", value)
                self._enter(items, "[", "]", _items(self._children(items)))
            case Mapping():
                mapping = cast("Mapping[Any, Any]", value)
                self._enter(mapping, "{", "}", self._members(mapping))
            case _:
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

    def _members(self, mapping: Mapping[Any, Any]) -> Iterator[_Entry]:
        members: dict[str, Any] = {}
        for key, child in self._children(mapping):
            if not isinstance(key, str):
                self._refuse(f"a key is {type(key).__name__}", "use str for every key")
            name = _whole_text(key)
            if name in members:
                self._refuse(f"two keys are both {encode_basestring_ascii(name)}", "keep one of them")
            members[name] = child
        return _named(members)

    def _children(self, container: Mapping[Any, Any] | Sequence[Any]) -> list[Any]:
        try:
            return list(container.items() if isinstance(container, Mapping) else container)
        except Exception as error:  # a custom mapping may raise anything
            path, kind = self._path(), type(container).__name__
            raise NotCanonicalError(f"{_shown(path)}: this {kind} cannot be read; use a dict", path=path) from error

    def _refuse(self, problem: str, remedy: str) -> NoReturn:
        path = self._path()
        raise NotCanonicalError(f"{_shown(path)}: {problem}; {remedy}", path=path)

    def _path(self) -> str:
        return "$" + "".join(_step_text(opened.step) for opened in self._open)


def _items(children: list[Any]) -> Iterator[_Entry]:
    for index, child in enumerate(children):
        yield "," if index else "", index, child


def _named(members: dict[str, Any]) -> Iterator[_Entry]:
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


def _shown(path: str) -> str:
    if len(path) <= _SHOWN_PATH_CHARS:
        return path
    half = _SHOWN_PATH_CHARS // 2
    return f"{path[:half]}…{path[-half:]}"
