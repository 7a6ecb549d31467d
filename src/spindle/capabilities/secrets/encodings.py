r"""Patterns for the encodings in which a secret may appear, and the folding of lookalike and invisible characters.

A text is matched plain, escaped, percent-encoded, quoted-printable, as HTML entities, and its bytes as hex, base64,
base32 and base85. A secret may be anywhere in encoded data, so there is a pattern for each alignment. The patterns are
for RE2 in Latin-1 mode over UTF-8 bytes: each takes one linear pass. Escapes may be nested (JSON inside JSON) and
mixed, because every character is matched in each of its spellings.
"""

import json
import quopri
import re
import unicodedata
from base64 import a85encode, b32encode, b64encode, b85encode
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from html.entities import html5
from typing import Final
from urllib.parse import quote, quote_plus

from spindle.capabilities.secrets.secret import Span
from spindle.text import INVISIBLE

MIN_CHARS = 4
"""A shorter text is matched unencoded only, and one of two characters as a whole word: it is part of many words."""
MIN_LINE_CHARS = 8
"""Minimum length for matching a single line of a multi-line text by itself."""
MAX_SPELLED_CHARS = 256
"""In longer texts, and in lines, only the output of single encoders is matched, not mixed: patterns stay small."""
MAX_PATTERN_BYTES = 64 << 10
"""RE2 is fast for small patterns: several small patterns are much faster than one large pattern."""

_SHORT_ESCAPES = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v", "\0": "0"}
_SELF_ESCAPED = frozenset("\"'/`$&<>")
_SOFT_BREAK = rb"(?:=\r?\n)?"
"""Quoted-printable text is wrapped into lines with a `=` before each line break."""


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


def build_literals(text: str) -> Iterator[bytes]:
    """Yield a text, and each of its lines, as common encoders write it; for a text too long for patterns."""
    text = text.strip()
    for part in {text, *(line.strip() for line in text.splitlines())}:
        if len(part) >= MIN_LINE_CHARS:
            yield from _write_commonly(part)
            yield from encode_commonly(_utf8(part))


def _match_word(text: str) -> bytes:
    start = rb"\b" if len(text) < MIN_CHARS - 1 and _is_word(text[0]) else b""
    end = rb"\b" if len(text) < MIN_CHARS - 1 and _is_word(text[-1]) else b""
    return start + literal(_utf8(text)) + end


def _is_word(character: str) -> bool:
    return character == "_" or (character.isascii() and character.isalnum())


def _match_mixed(text: str) -> Iterator[bytes]:
    yield _SOFT_BREAK.join(map(_match_character, text.replace("\r\n", "\n")))
    yield from match_binary(_utf8(text))


def _match_encoded(text: str) -> Iterator[bytes]:
    """Yield patterns for a long text as common encoders write it."""
    yield from map(literal, sorted(_write_commonly(text)))
    yield from match_long_binary(_utf8(text))


def _write_commonly(text: str) -> set[bytes]:
    data = _utf8(text)
    plain = {text, text.replace("\r\n", "\n"), text.replace("\r\n", "\n").replace("\n", "\r\n")}
    quoted = {json.dumps(one, ensure_ascii=is_ascii)[1:-1] for one in plain for is_ascii in (True, False)}
    twice = {json.dumps(one)[1:-1] for one in quoted}
    escaped = {one.replace("/", "\\/") for one in quoted} | {repr(one)[1:-1] for one in plain}
    urls = {quote(data, safe=""), quote(data), quote_plus(data), quote(data, safe="!'()*")}
    hexes = {gap.join(f"{byte:02x}" for byte in data) for gap in ("", " ", ":", ", 0x")}
    codes = [ord(character) for character in text]
    entities = {"".join(f"&#{code};" for code in codes), "".join(f"&#x{code:x};" for code in codes)}
    forms = {_utf8(form) for form in plain | quoted | twice | escaped | urls | hexes | entities}
    forms |= {_utf8(form.upper()) for form in hexes}
    return forms | {quopri.encodestring(data), quopri.encodestring(data).replace(b"\n", b"\r\n")}


@lru_cache(maxsize=1024)  # caches single characters, which are not secret
def _match_character(character: str) -> bytes:
    """Return a pattern for one character in each of its spellings."""
    data = _utf8(character)
    options = [
        literal(data),
        b"".join(b"%(?:25)*" + hex_byte(byte) for byte in data),
        b"".join(b"=" + hex_byte(byte) for byte in data),
        _match_numeric_escapes(character, data),
        _match_entities(character),
    ]
    if character == " ":
        options += [rb"\+", rb"\s+"]  # white space is often folded into one space
    if character == "\\":
        options.append(rb"\\+")
    elif character in _SELF_ESCAPED:
        options.append(rb"\\+" + literal(data))
    elif character in _SHORT_ESCAPES:
        options.append(rb"\\+" + _SHORT_ESCAPES[character].encode())
    if character == "\n":
        options.append(rb"\r\n|\\+r\\+n|%(?:25)*0[dD]%(?:25)*0[aA]")
    return b"(?:" + b"|".join(options) + b")"


def _match_numeric_escapes(character: str, data: bytes) -> bytes:
    r"""Return a pattern for `\u00e9` (or a surrogate pair), `\xe9` and `\xc3\xa9`, with any number of backslashes."""
    code = ord(character)
    if code < 0x80:
        return rb"\\+(?:u00|x|U000000)" + hex_byte(code)
    units = _units(character)
    forms = [rb"\\+".join([b"", *(b"u" + hex_number(unit, 4) for unit in units)]), rb"\\+U" + hex_number(code, 8)]
    forms.append(b"".join(rb"\\+x" + hex_byte(byte) for byte in data))
    if code < 0x100:
        forms.append(rb"\\+x" + hex_byte(code))
    return b"|".join(forms)


def _match_entities(character: str) -> bytes:
    """Return a pattern for `&#233;`, `&#xe9;` and `&eacute;`, with any number of `amp;`."""
    code = ord(character)
    forms = [b"#0*%d" % code, b"#[xX]0*" + hex_number(code, 1), *_entity_names().get(character, ())]
    return b"&(?:amp;)*(?:" + b"|".join(forms) + b");?"


@cache
def _entity_names() -> dict[str, list[bytes]]:
    names: dict[str, list[bytes]] = {}
    for name, text in html5.items():
        if name.endswith(";"):
            names.setdefault(text, []).append(name.removesuffix(";").encode())
    return names


def _units(character: str) -> list[int]:
    data = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2)]


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


WRAP: Final = rb"(?:\r?\n|(?:\\+r)?\\+n)?"
"""Long encoded text is wrapped into lines, and the line breaks may be escaped."""
_PADDING: Final = rb"(?:=|%(?:25)*3[dD]){0,2}"
_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_LITERALS: Final = [re.escape(bytes([byte])) if 0x20 <= byte < 0x7F else b"\\x%02x" % byte for byte in range(256)]
_BASE64_SPELLINGS: Final = {"+": rb"(?:[+-]|%(?:25)*2[bB])", "/": rb"(?:\\*/|_|%(?:25)*2[fF])"}
_HEX_GAP: Final = rb"[ :,;_\r\n-]{0,3}(?:0[xX]|\\+x)?"
_B85: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_OF_B85: Final = bytes.maketrans(_B85, _Z85)
_MIN_NESTED_BYTES: Final = 4


def match_binary(data: bytes) -> Iterator[bytes]:
    """Yield patterns for data in every binary form, at every alignment."""
    yield _HEX_GAP.join(map(hex_byte, data))
    yield from match_base64(data, wrap=WRAP)
    yield from match_base32(data, wrap=WRAP)
    yield from match_base85(data)
    for inner in _encode_inner(data):
        yield from match_base64(inner, wrap=WRAP)
        yield _HEX_GAP.join(map(hex_byte, inner))


def match_long_binary(data: bytes) -> Iterator[bytes]:
    """Yield patterns for long data as common encoders write it; hex is not among them, it is a literal."""
    yield from match_base64(data, wrap=b"")
    yield from match_base32(data, wrap=b"")
    yield from (literal(encode(data)) for encode in _BASE85)
    yield from match_base64(_core64(data, 0), wrap=b"")


def encode_commonly(data: bytes) -> Iterator[bytes]:
    """Yield data in each binary form as literal bytes; for data too long for patterns."""
    for shift in range(3):
        core = _core64(data, shift)
        yield core
        yield _to_urlsafe(core)
    yield from (_core64(_core64(data, 0), shift) for shift in range(3))
    yield b32encode(data).rstrip(b"=")
    yield b32encode(data).rstrip(b"=").lower()
    yield from (encode(data) for encode in _BASE85)


def _encode_inner(data: bytes) -> Iterator[bytes]:
    """Yield the first layer of nested forms: base64 at each alignment and in both alphabets, and hex."""
    inner = {data.hex().encode(), data.hex().upper().encode()}
    for shift in range(3):
        core = _core64(data, shift)
        inner |= {core, _to_urlsafe(core)}
    yield from sorted(each for each in inner if len(each) >= _MIN_NESTED_BYTES)


def _core64(data: bytes, shift: int) -> bytes:
    """Return the base64 characters that data alone decides, at an offset of `shift` modulo 3."""
    return b64encode(bytes(shift) + data)[(0, 2, 3)[shift] : (shift + len(data)) * 8 // 6]


def _to_urlsafe(letters: bytes) -> bytes:
    return letters.replace(b"+", b"-").replace(b"/", b"_")


def match_base64(data: bytes, *, wrap: bytes) -> Iterator[bytes]:
    """Yield patterns for the base64 of any text that contains `data`, one for each alignment."""
    for shift in range(3):
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
        yield wrap.join(core) + _PADDING


def _letter(letter: str) -> bytes:
    return _BASE64_SPELLINGS.get(letter, letter.encode())


def _any_of(numbers: range) -> bytes:
    return b"(?:" + b"|".join(_letter(_ALPHABET[number]) for number in numbers) + b")?"


def match_base32(data: bytes, *, wrap: bytes) -> Iterator[bytes]:
    """Yield patterns for the base32 of any text that contains `data`, in either case, one for each alignment."""
    edge = b"[A-Za-z2-7]?"
    for shift in range(5):
        letters = b32encode(bytes(shift) + data).decode()
        first, last = -(-shift * 8 // 5), (shift + len(data)) * 8 // 5
        core = [f"[{each}{each.lower()}]".encode() if each.isalpha() else each.encode() for each in letters[first:last]]
        after = edge if (shift + len(data)) * 8 % 5 else b""
        yield wrap.join(core) + after + b"(?:=|%(?:25)*3[dD]){0,6}"


def _encode_z85(data: bytes) -> bytes:
    return b85encode(data).translate(_Z85_OF_B85)


_BASE85: Final[tuple[Callable[[bytes], bytes], ...]] = (a85encode, b85encode, _encode_z85)


def match_base85(data: bytes) -> Iterator[bytes]:
    """Yield patterns for data in Ascii85, base85 and Z85: alone, and as the full groups of each alignment."""
    for encode in _BASE85:
        yield _match_escaped(encode(data))
        for shift in range(4):
            start = -shift % 4
            groups = data[start : start + (len(data) - start) // 4 * 4]
            if len(groups) >= 8:  # one group is too short to be recognised
                yield _match_escaped(encode(groups))


def _match_escaped(data: bytes) -> bytes:
    return b"".join(
        rb"\\*" + literal(bytes([each])) if each in b"\"'\\/<>&" else literal(bytes([each])) for each in data
    )


def hex_byte(byte: int) -> bytes:
    """Return a pattern for one byte in hex, in either case."""
    return hex_number(byte, 2)


def hex_number(number: int, digits: int) -> bytes:
    """Return a pattern for a number in hex, in either case."""
    return "".join(f"[{each}{each.upper()}]" if each.isalpha() else each for each in f"{number:0{digits}x}").encode()


def literal(data: bytes) -> bytes:
    """Return a pattern for exactly these bytes."""
    return b"".join(map(_LITERALS.__getitem__, data))


_INVISIBLE: Final = re.compile(f"[{INVISIBLE}]")


def normalize(value: str) -> set[str]:
    """Return a secret in each of its normal forms, and as it is in a folded text."""
    if value.isascii() and value.isprintable():
        return {value}
    folded = "".join(map(fold, value))
    forms = {value, unicodedata.normalize("NFC", value), unicodedata.normalize("NFD", value)}
    # A folded text that lost most of its characters would match nearly everything.
    return forms | {folded} if len(folded.strip()) * 2 >= len(value.strip()) else forms


@lru_cache(maxsize=4096)  # caches single characters, which are not secret
def fold(character: str) -> str:
    """Return the ASCII characters that one stands for, nothing for an invisible one or a mark, or itself."""
    if character in "\t\n\r" or " " <= character <= "~":
        return character
    if _INVISIBLE.match(character):
        return "" if not "\udc80" <= character <= "\udcff" else character  # a byte that is not UTF-8 stays
    if unicodedata.category(character) in {"Mn", "Me"}:
        return ""
    parts = [each for each in unicodedata.normalize("NFKD", character) if unicodedata.category(each) != "Mn"]
    return "".join(parts) if parts and all(each.isascii() for each in parts) else character


def unfold(text: str, folds: dict[int, str], spans: Sequence[Span]) -> Iterator[Span]:
    """Yield the spans of a folded text, in bytes, as spans of the text itself."""
    points = sorted({place for start, end in spans for place in (start, end - 1)})
    found: dict[int, Span] = {}
    raw = folded = done = 0
    for segment in re.finditer(f"([{''.join(map(re.escape, map(chr, folds)))}])|\\Z", text):
        plain = _count_bytes(text[done : segment.start()])
        while points and points[0] < folded + plain:
            place = raw + points[0] - folded
            found[points.pop(0)] = place, place + 1
        raw, folded, done = raw + plain, folded + plain, segment.end()
        if segment[1]:
            size, fold = _count_bytes(segment[1]), len(folds[ord(segment[1])])
            while points and points[0] < folded + fold:
                found[points.pop(0)] = raw, raw + size
            raw, folded = raw + size, folded + fold
    yield from ((found[start][0], found[end - 1][1]) for start, end in spans)


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
