"""Readings of a text: what a model can read in it, though a person does not see it or a search does not find it."""

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import unquote

from spindle.mcp.lint.confusables import fold_letters
from spindle.text import INVISIBLE, to_encodable

_MIN_SHARE: Final = 0.9

_HIDDEN: Final = re.compile(f"[{INVISIBLE}]")
_HIDDEN_RUN: Final = re.compile(f"[{INVISIBLE}]{{4,}}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
_HEX: Final = re.compile(r"(?:(?:\\x|0x|%)?[0-9A-Fa-f]{2}[ :,]?){12,}")
_ESCAPES: Final = re.compile(r"\\u([0-9A-Fa-f]{4})|\\x([0-9A-Fa-f]{2})")
_LEET: Final = re.compile(r"[A-Za-z][013457@$!][A-Za-z]|\b[013457@$][a-z]{2}")
_LEET_TABLE: Final = str.maketrans("013457@$!", "oieastasi")
_SPACED: Final = re.compile(r"\b(?:\w[ .*_·-]){3,}\w\b")
_GAP: Final = re.compile(r"[ .*_·-](?=\w\b)")
_SPACES: Final = re.compile(r"\s+")


class Reading(NamedTuple):
    """One reading of a text, on one line."""

    how: str
    """How it is read, for the message; empty for the text as it stands."""
    text: str


def read_plainly(text: str) -> str:
    """Return the text on one line, without hidden characters and in compatible letters; case is kept."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _HIDDEN.sub("", to_encodable(text)))
    elif not text.isprintable():
        text = _HIDDEN.sub("", text)
    return _SPACES.sub(" ", text)


def find_readings(text: str) -> Iterator[Reading]:
    """Yield the text as it stands, and every other reading that differs from it."""
    plain = read_plainly(text)
    yield Reading("", plain)
    if not text.isascii():
        hidden = decode_hidden(text)
        if hidden:
            yield Reading("in hidden characters", read_plainly(hidden))
        folded = _SPACES.sub(" ", fold_letters(to_encodable(text)))
        if folded != plain:
            yield Reading("in look-alike letters", folded)
    if _SPACED.search(text):
        # Before white space is collapsed: two spaces separate words here.
        yield Reading("in spaced letters", read_plainly(_SPACED.sub(lambda found: _GAP.sub("", found[0]), text)))
    if _LEET.search(plain):
        yield Reading("in digits for letters", plain.translate(_LEET_TABLE))
    for how, other in _decode_escapes(plain):
        if other != plain:
            yield Reading(how, read_plainly(other))
    for how, passages in decode_passages(plain):
        yield Reading(how, read_plainly(" ".join(passages)))
    yield Reading("in rot13", codecs.encode(plain, "rot13"))
    yield Reading("backwards", plain[::-1])


def _decode_escapes(text: str) -> Iterator[tuple[str, str]]:
    if "&" in text:
        yield "in HTML entities", html.unescape(text)
    if "%" in text:
        yield "in percent encoding", unquote(text)
    if "\\" in text:
        yield "in escapes", to_encodable(_ESCAPES.sub(lambda found: chr(int(found[1] or found[2], 16)), text))


def decode_passages(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield how passages of a text are encoded, in base64 or hexadecimal, and the readable texts that they hold."""
    for pattern, how, decode in ((_BASE64, "in base64", _decode_base64), (_HEX, "in hexadecimal", _decode_hex)):
        found = [decoded for passage in pattern.finditer(text) if (decoded := decode(passage[0])) is not None]
        if found:
            yield how, found


def _decode_base64(passage: str) -> str | None:
    body = passage.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return _to_text(base64.b64decode(body[: len(body) // 4 * 4] + _pad(body)))
    except (binascii.Error, ValueError):
        return None


def _pad(body: str) -> str:
    rest = body[len(body) // 4 * 4 :]
    return rest + "=" * (4 - len(rest)) if len(rest) > 1 else ""


def _decode_hex(passage: str) -> str | None:
    digits = re.sub(r"\\x|0x|[%\s:,]", "", passage)
    try:
        return _to_text(bytes.fromhex(digits[: len(digits) // 2 * 2]))
    except ValueError:
        return None


def _to_text(data: bytes) -> str | None:
    """Return decoded bytes if they are readable text: an id or a hash decodes to something else."""
    text = data.decode("utf-8", "ignore")
    letters = sum(each.isalnum() or each.isspace() or each in ".,:;!?'\"/-_@()" for each in text)
    return text if len(data) >= 12 and letters >= _MIN_SHARE * len(data.decode("latin-1")) and " " in text else None


def decode_hidden(text: str) -> str:
    """Return the text that hidden characters spell: tags, variation selectors as bytes, zero-width bits."""
    tags = "".join(chr(ord(each) - 0xE0000) for each in text if 0xE0020 <= ord(each) <= 0xE007E)
    passages = [tags] if len(tags) > 3 else []
    for run in _HIDDEN_RUN.finditer(text):
        passages += [each for each in (_decode_selectors(run[0]), _decode_bits(run[0])) if each]
    return " ".join(passages)


def _decode_selectors(run: str) -> str | None:
    codes = [ord(each) for each in run]
    data = bytes(
        code - 0xFE00 if code < 0xFE10 else code - 0xE0100 + 16
        for code in codes
        if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF
    )
    return _to_text(data)


def _decode_bits(run: str) -> str | None:
    bits = "".join({"\u200b": "0", "\u200c": "1", "\u200d": "1"}.get(each, "") for each in run)
    if len(bits) < 96:
        return None
    data = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8))
    return _to_text(data) or _to_text(bytes(each ^ 0xFF for each in data))
