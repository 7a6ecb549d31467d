"""Texts without their disguises: as a reader, or the program of a reader, would understand them."""

import re
import unicodedata
from html import unescape
from typing import Final

from spindle.text import INVISIBLE
from spindle.trust.flow.tokens import WORD

_HIDDEN: Final = re.compile(f"[{INVISIBLE}]")
_BRACKETS: Final = frozenset("[({<\\\u3002")
_SPELLED_MAIL: Final = re.compile(r"(?<=\w) at (?=[\w-]{1,60} dot \w)", re.IGNORECASE)
_SPELLED_DOT: Final = re.compile(
    r" ?[\[({<] ?(?:dot|\.|punkt|point) ?[\])}>] ?|(?<=\w) dot (?=\w)|\\\.|\u3002", re.IGNORECASE
)
_SPELLED_AT: Final = re.compile(r" ?[\[({<] ?(?:at|@) ?[\])}>] ?", re.IGNORECASE)
_SPACED_DOT: Final = re.compile(
    r"\. (?=(?:com|net|org|io|co|dev|app|info|biz|xyz|ai|de|uk|ru|cn|me|site|online|shop|link)\b)", re.IGNORECASE
)
_DIGIT_WORDS: Final = re.compile(
    r"\b(?:zero|oh|one|two|three|four|five|six|seven|eight|nine)\b[ ,.-]{0,2}", re.IGNORECASE
)
_DIGITS: Final = {
    word: str(digit)
    for digit, word in enumerate("zero one two three four five six seven eight nine".split(" "))  # noqa: SIM905  a list would take a line for each word
} | {"oh": "0"}
_MARK: Final = "\u02d0"
"""A letter that stands for a mark over another one, so that a word with marks is another word."""


def reveal(text: str) -> str:
    """Return a text on one line, without invisible characters and with dots and signs that were spelled out."""
    plain = " ".join(text.split()) if text.isascii() else _to_plain(text)
    if "&" in plain:
        plain = unescape(plain)
    small = plain.lower()
    if " dot " in small or not _BRACKETS.isdisjoint(plain):
        plain = _SPELLED_AT.sub("@", _SPELLED_MAIL.sub("@", plain))
        plain = _SPELLED_DOT.sub(".", plain)
    return _SPACED_DOT.sub(".", plain.replace(" .", ".")) if ". " in plain or " ." in plain else plain


def reveal_digits(text: str) -> str:
    """Return a text with the words for digits as digits."""
    if _DIGITS.keys().isdisjoint(WORD.findall(text.lower())):
        return text
    return _DIGIT_WORDS.sub(lambda match: _DIGITS[match[0].rstrip(" ,.-").lower()] + " ", text)


def _to_plain(text: str) -> str:
    """Return a text in compatible characters: of other forms of a letter or a digit there is one."""
    plain = " ".join(_HIDDEN.sub("", unicodedata.normalize("NFKC", text)).split())
    return "".join(map(_to_plain_character, plain)) if not plain.isascii() else plain


def _to_plain_character(character: str) -> str:
    if character <= "\x7f":
        return character
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    return _MARK if unicodedata.category(character) in ("Mn", "Me") else character
