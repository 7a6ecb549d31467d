"""Identifiers inside a text: addresses, links, account and phone numbers, codes; also those written to be overlooked.

A content that goes to a known reader may say anything in words. What leads somewhere else, or is good for something by
itself, is an identifier and is looked at one by one.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from spindle.text import INVISIBLE

_HIDDEN: Final = re.compile(f"[{INVISIBLE}]")
_SPELLED_DOT: Final = re.compile(
    r"\s*[\[({<]\s*(?:dot|\.|punkt|point)\s*[\])}>]\s*|(?<=\w)\s+dot\s+(?=\w)", re.IGNORECASE
)
_SPELLED_AT: Final = re.compile(r"\s*[\[({<]\s*(?:at|@)\s*[\])}>]\s*", re.IGNORECASE)
_SPACED_DOT: Final = re.compile(
    r"(?<=\w) ?\. ?(?=(?:com|net|org|io|co|dev|app|info|biz|xyz|ai|de|uk|ru|cn)\b)", re.IGNORECASE
)
_LINK: Final = re.compile(r"(?:[a-z][a-z0-9+.-]{1,20}|h(?:xx|\*\*)ps?)://[^\s<>\"')\]}]+", re.IGNORECASE)
_OTHER_LINK: Final = re.compile(
    r"\b(?:mailto|tel|javascript|data|sms|callto|bitcoin|magnet):[^\s<>\"')\]}]+", re.IGNORECASE
)
_MAIL: Final = re.compile(r"(?<![^\s@<>()\"',;:])[^\s@<>()\"',;:]+@[^\s@<>()\"',;:]+")
_HANDLE: Final = re.compile(r"(?<![\w@.])@\w[\w.-]*")
_HOST: Final = re.compile(r"(?<![\w@.-])(?:[^\W_](?:[\w-]*[^\W_])?\.)+[^\W\d_]{2,}(?:[/:?#][^\s<>\"')\]}]*)?")
_ADDRESS_NUMBER: Final = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?:/[^\s]*)?(?![\w.])")
_DIGITS: Final = re.compile(r"(?<!\w)[+(]?[A-Za-z]{0,4}\d[A-Za-z0-9]*(?:[ ().-]{1,2}\d[A-Za-z0-9]*)*(?!\w)")
_CODE: Final = re.compile(r"(?<![\w+/=-])(?=[\w+/=-]*\d)(?=[\w+/=-]*[A-Za-z])[\w+/=-]{8,}(?![\w+/=-])")
_LONG: Final = re.compile(r"(?<!\S)[A-Za-z0-9+/_=-]{24,}(?!\S)")
_DATE: Final = re.compile(
    r"[12]\d{3}-[01]?\d-[0-3]?\d(?:[ T][0-2]?\d(?::[0-5]\d){1,2})?|[0-3]?\d\.[01]?\d\.[12]\d{3}|[12]\d{3}"
)
_ORDINAL: Final = re.compile(r"\d+(?:st|nd|rd|th|-th)")
_FILE_ENDINGS: Final = frozenset(
    "docx xlsx pptx doc xls ppt odt txt pdf csv tsv png jpg jpeg gif webp json yaml xml log".split(" ")  # noqa: SIM905  a list would take a line for each word
)
_MIN_DIGITS: Final = 6
_TRAILING: Final = ".,;:!?'\"*_"


def find_identifiers(text: str) -> dict[str, None]:
    """Return every identifier in a text, in the order of their kinds, each once."""
    plain = _reveal(text)
    found: dict[str, None] = {}
    for pattern in (_LINK, _OTHER_LINK, _MAIL, _HANDLE, _HOST, _ADDRESS_NUMBER, _DIGITS, _CODE, _LONG):
        for match in pattern.finditer(plain):
            value = match[0].rstrip(_TRAILING)
            if _is_identifier(value, pattern):
                found.setdefault(value)
    return found


def find_private_values(text: str) -> Iterator[str]:
    """Iterate over the values of a text that are worth keeping: its identifiers, and numbers of some length."""
    yield from find_identifiers(text)
    for match in _NUMBER.finditer(text):
        if sum(map(str.isdigit, match[0])) >= _MIN_PRIVATE_DIGITS:
            yield match[0]


_NUMBER: Final = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?!\w)")
_MIN_PRIVATE_DIGITS: Final = 4


def find_phrases(text: str, words: int) -> Iterator[str]:
    """Iterate over the runs of so many words in a text, each beginning where the last one ended."""
    parts = text.split()
    for start in range(0, len(parts) - words + 1, words // 2):
        yield " ".join(parts[start : start + words])


def _reveal(text: str) -> str:
    """Return a text as a reader would understand it: without invisible characters, with dots that were spelled out."""
    plain = " ".join(_HIDDEN.sub("", unicodedata.normalize("NFKC", text)).split())
    plain = _SPELLED_AT.sub("@", _SPELLED_DOT.sub(".", plain))
    return _SPACED_DOT.sub(".", plain)


def _is_identifier(value: str, pattern: "re.Pattern[str]") -> bool:
    if not value:
        return False
    if pattern is _HOST:
        return value.rpartition(".")[2].lower() not in _FILE_ENDINGS
    if pattern is _DIGITS:
        return sum(map(str.isdigit, value)) >= _MIN_DIGITS and not _is_date(value)
    if pattern is _CODE:
        return not _is_date(value) and not _ORDINAL.fullmatch(value.lower()) and sum(map(str.isdigit, value)) > 1
    if pattern is _LONG:
        return not value.isalpha() or value.lower() != value
    return True


def _is_date(value: str) -> bool:
    return _DATE.fullmatch(value.strip("()+ ")) is not None
