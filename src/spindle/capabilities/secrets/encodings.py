r"""Patterns for the encodings in which a secret may appear, and rebuilding of values leaf by leaf.

A text is matched plain, escaped, percent-encoded, in hex and in base64. The patterns are for RE2 in Latin-1 mode over
UTF-8 bytes, so that each takes one linear pass. Escapes may be nested (JSON inside JSON) and mixed, because every
character is matched in each of its spellings.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, TypeAlias, cast
from urllib.parse import quote, quote_plus

MIN_CHARS = 4
"""A shorter text is matched only as a whole word and unencoded, because it is part of too many words."""
MIN_LINE_CHARS = 8
"""Minimum length for matching a single line of a multi-line text by itself."""
MAX_SPELLED_CHARS = 256
"""In longer texts, and in lines, only the output of single encoders is matched, not mixed: patterns stay small."""
MAX_PATTERN_BYTES = 64 << 10
"""RE2 is fast for small patterns: several small patterns are much faster than one large pattern."""

_SHORT_ESCAPES = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v", "\0": "0"}
_SELF_ESCAPED = frozenset("\"'/`$&<>")
_ENTITIES = {"&": "&(?:amp|#38|#x26);", "<": "&(?:lt|#60|#x3[cC]);", ">": "&(?:gt|#62|#x3[eE]);"} | {
    '"': "&(?:quot|#34|#x22);",
    "'": "&(?:apos|#39|#0?39|#x27);",
}
_WRAP = rb"(?:\r?\n|(?:\\+r)?\\+n)?"
"""Long base64 is wrapped into lines, and the line breaks may be escaped."""
_PADDING = rb"(?:=|%(?:25)*3[dD]){0,2}"
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_LITERALS = [re.escape(bytes([byte])) if 0x20 <= byte < 0x7F else b"\\x%02x" % byte for byte in range(256)]
_BASE64_SPELLINGS = {"+": rb"(?:[+-]|%(?:25)*2[bB])", "/": rb"(?:\\*/|_|%(?:25)*2[fF])"}


def build_patterns(text: str) -> Iterator[bytes]:
    """Yield patterns that together match `text` in all its encodings; a blank text has none."""
    group: list[bytes] = []
    for form in _build_encodings(text.strip()):
        if group and sum(map(len, group)) + len(form) > MAX_PATTERN_BYTES:
            yield b"|".join(group)
            group = []
        group.append(form)
    if group:
        yield b"|".join(group)


def _build_encodings(text: str) -> Iterator[bytes]:
    if not text:
        return
    if len(text) < MIN_CHARS:
        yield _match_word(text)
        return
    yield from _match_encoded(text) if len(text) > MAX_SPELLED_CHARS else _match_mixed(text)
    lines = {line.strip() for line in text.splitlines()} - {text}
    for line in sorted(lines):
        if len(line) >= MIN_LINE_CHARS:
            yield from _match_encoded(line)


def _match_word(text: str) -> bytes:
    start = rb"\b" if _is_word(text[0]) else b""
    end = rb"\b" if _is_word(text[-1]) else b""
    return start + _literal(_utf8(text)) + end


def _is_word(character: str) -> bool:
    return character == "_" or (character.isascii() and character.isalnum())


def _match_mixed(text: str) -> Iterator[bytes]:
    data = _utf8(text)
    yield b"".join(map(_match_character, text.replace("\r\n", "\n")))
    yield b"[ :-]?".join(map(_hex_byte, data))
    for shift in range(3):
        yield _base64_core(data, shift, wrap=_WRAP)


def _match_encoded(text: str) -> Iterator[bytes]:
    """Yield patterns for a long text as common encoders write it."""
    data = _utf8(text)
    plain = {text, text.replace("\r\n", "\n"), text.replace("\r\n", "\n").replace("\n", "\r\n")}
    quoted = {json.dumps(one, ensure_ascii=is_ascii)[1:-1] for one in plain for is_ascii in (True, False)}
    twice = {json.dumps(one)[1:-1] for one in quoted}
    escaped = {one.replace("/", "\\/") for one in quoted} | {repr(one)[1:-1] for one in plain}
    urls = {quote(data, safe=""), quote(data), quote_plus(data), quote(data, safe="!'()*")}
    hexes = {data.hex(), data.hex().upper()}
    for form in sorted(plain | quoted | twice | escaped | urls | hexes):
        yield _literal(_utf8(form))
    for shift in range(3):
        yield _base64_core(data, shift, wrap=b"")


@lru_cache(maxsize=1024)  # caches single characters, which are not secret
def _match_character(character: str) -> bytes:
    """Return a pattern for one character in each of its spellings."""
    data = _utf8(character)
    options = [
        _literal(data),
        b"".join(b"%(?:25)*" + _hex_byte(byte) for byte in data),
        _match_numeric_escapes(character, data),
    ]
    if character == " ":
        options.append(rb"\+")
    if character == "\\":
        options.append(rb"\\+")
    elif character in _SELF_ESCAPED:
        options.append(rb"\\+" + _literal(data))
    elif character in _SHORT_ESCAPES:
        options.append(rb"\\+" + _SHORT_ESCAPES[character].encode())
    if character == "\n":
        options.append(rb"\r\n|\\+r\\+n|%(?:25)*0[dD]%(?:25)*0[aA]")
    if character in _ENTITIES:
        options.append(_ENTITIES[character].encode())
    return b"(?:" + b"|".join(options) + b")"


def _match_numeric_escapes(character: str, data: bytes) -> bytes:
    r"""Return a pattern for `\u00e9` (or a surrogate pair), `\xe9` and `\xc3\xa9`, with any number of backslashes."""
    code = ord(character)
    if code < 0x80:
        return rb"\\+(?:u00|x|U000000)" + _hex_byte(code)
    units = _units(character)
    forms = [rb"\\+".join([b"", *(b"u" + _hex(unit, 4) for unit in units)]), rb"\\+U" + _hex(code, 8)]
    forms.append(b"".join(rb"\\+x" + _hex_byte(byte) for byte in data))
    if code < 0x100:
        forms.append(rb"\\+x" + _hex_byte(code))
    return b"|".join(forms)


def _units(character: str) -> list[int]:
    data = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2)]


def _base64_core(data: bytes, shift: int, *, wrap: bytes) -> bytes:
    """Return a pattern for the base64 of any text that contains `data` at an offset of `shift` modulo 3.

    The characters at both ends that share bits with neighbouring bytes are matched optionally.
    """
    letters = b64encode(bytes(shift) + data).decode()
    first, last = (0, 2, 3)[shift], (shift + len(data)) * 8 // 6
    core = [_letter(letter) for letter in letters[first:last]]
    if shift:
        neighbour = _ALPHABET.index(letters[first - 1])
        step = 16 if shift == 1 else 4
        core.insert(0, _any_of(range(neighbour % step, 64, step)))
    if (shift + len(data)) % 3:
        start = _ALPHABET.index(letters[last])
        core.append(_any_of(range(start, start + (4 if (shift + len(data)) % 3 == 2 else 16))))
    return wrap.join(core) + _PADDING


def _letter(letter: str) -> bytes:
    return _BASE64_SPELLINGS.get(letter, letter.encode())


def _any_of(numbers: range) -> bytes:
    return b"(?:" + b"|".join(_letter(_ALPHABET[number]) for number in numbers) + b")?"


def _hex_byte(byte: int) -> bytes:
    return _hex(byte, 2)


def _hex(number: int, digits: int) -> bytes:
    return "".join(_hex_digit(digit) for digit in f"{number:0{digits}x}").encode()


def _hex_digit(digit: str) -> str:
    return f"[{digit}{digit.upper()}]" if digit.isalpha() else digit


def _literal(data: bytes) -> bytes:
    return b"".join(map(_LITERALS.__getitem__, data))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


MAX_DEPTH = 200

Leaf: TypeAlias = Callable[[Any], Any]


def map_leaves(value: Any, leaf: Leaf, unreachable: Any) -> Any:
    """Return `value` with `leaf` applied to every leaf; recursive or too deeply nested parts become `unreachable`.

    Descends into mappings (keys too), lists, tuples, sets, dataclasses and pydantic models; `value` is not modified.
    """
    return _LeafMapper(leaf, unreachable).part(value)


class _LeafMapper:
    def __init__(self, leaf: Leaf, unreachable: Any) -> None:
        self._leaf = leaf
        self._unreachable = unreachable
        self._open: set[int] = set()

    def part(self, value: Any) -> Any:
        rebuild = _find_rebuilder(value)
        if rebuild is None:
            return self._leaf(value)
        if id(value) in self._open or len(self._open) >= MAX_DEPTH:
            return self._unreachable
        self._open.add(id(value))
        try:
            return rebuild(value, self.part)
        finally:
            self._open.discard(id(value))


def _find_rebuilder(value: object) -> "Callable[[Any, Leaf], Any] | None":
    if isinstance(value, (str, bytes, bytearray, memoryview, int, float, BaseException, type)) or value is None:
        return None
    if isinstance(value, Mapping):
        return _rebuild_mapping
    if isinstance(value, (list, tuple, set, frozenset)):
        return _rebuild_items
    if is_dataclass(value):
        return _rebuild_dataclass
    return _rebuild_model if hasattr(type(value), "__pydantic_fields__") else None


def _rebuild_mapping(value: Mapping[Any, Any], part: Leaf) -> Any:
    new = {part(key): part(child) for key, child in value.items()}
    return value if len(new) == len(value) and _same(_pairs(new), _pairs(value)) else new


def _pairs(mapping: Mapping[Any, Any]) -> Iterator[Any]:
    for key, child in mapping.items():
        yield key
        yield child


def _rebuild_items(value: Any, part: Leaf) -> Any:
    new = [part(child) for child in value]
    if _same(new, value):
        return value
    kind = cast("type[Any]", type(value))
    if hasattr(kind, "_make"):  # a named tuple
        return kind._make(new)
    kinds: tuple[Any, ...] = (list, tuple, set, frozenset)
    return next(plain for plain in kinds if issubclass(kind, plain))(new)


def _rebuild_dataclass(value: Any, part: Leaf) -> Any:
    old = {field.name: getattr(value, field.name, None) for field in fields(value)}
    new = {name: part(child) for name, child in old.items()}
    if _same(new.values(), old.values()):
        return value
    # The constructor may reject the values or have other parameters, and `copy` may return the same object.
    twin = object.__new__(cast("type[Any]", type(value)))
    for name, child in {**_attributes(value), **new}.items():
        object.__setattr__(twin, name, child)
    return twin


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for kind in type(value).__mro__ for name in _get_slots(kind)]
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return found | getattr(value, "__dict__", {})


def _get_slots(kind: type) -> list[str]:
    slots: str | Iterable[str] = kind.__dict__.get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name not in {"__dict__", "__weakref__"}]


def _rebuild_model(value: Any, part: Leaf) -> Any:
    old: dict[str, Any] = {**value.__dict__, **(getattr(value, "__pydantic_extra__", None) or {})}
    new = {name: part(child) for name, child in old.items()}
    return value if _same(new.values(), old.values()) else value.model_copy(update=new)


def _same(new: Iterable[Any], old: Iterable[Any]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))
