"""Identifiers inside a text: addresses, links, account and phone numbers, codes; also those written to be overlooked.

A content that goes to a known reader may say anything in words. What leads somewhere else, or is good for something by
itself, is an identifier and is looked at one by one.
"""

import re
from collections.abc import Iterator
from typing import Final

from spindle.trust.flow.disguises import reveal, reveal_digits

_LINK: Final = re.compile(r"[a-z*][a-z0-9+.*-]{1,20}:[/\\]{1,3}[^\s<>\"]+", re.IGNORECASE)
_OTHER_LINK: Final = re.compile(
    r"\b(?:mailto|tel|javascript|data|sms|callto|bitcoin|magnet|xmpp|skype):[^\s<>\"]+", re.IGNORECASE
)
_MAIL: Final = re.compile(r"(?<![^\s@<>()\"',;:])[^\s@<>()\"',;:]+@[^\s@<>()\"',;:]+")
_HANDLE: Final = re.compile(r"(?<![\w@.])@\w[\w.-]*")
_HOST: Final = re.compile(r"(?<![\w@.-])(?:[^\W_](?:[\w-]*[^\W_])?\.)+[^\W\d_]{2,}(?:[/\\:?#][^\s<>\"]*)?")
_PORT: Final = re.compile(r"(?<![\w.:])(?:localhost:\d|[^\W\d_][\w-]*:\d{2,5}/)\S*", re.IGNORECASE)
_SHARE: Final = re.compile(r"\\\\[\w.-]+\\\S*|(?<![\w:])//[\w-]+(?:/\S*)?")
_ADDRESS_NUMBER: Final = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?:/\S*)?(?![\w.])")
_ADDRESS_V6: Final = re.compile(r"(?<![\w:])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}(?![\w:])", re.IGNORECASE)
_NUMBERS: Final = re.compile(r"(?<!\w)[+(]?[A-Za-z]{0,4}\d[A-Za-z0-9]*(?:[ ()./_-]{1,3}\d[A-Za-z0-9]*)*(?!\w)")
_SPLIT_DIGITS: Final = re.compile(r"\d(?:[^\w\s]{0,2} ?\d){9,}")
_CODE: Final = re.compile(r"(?<![\w+/=-])(?=[\w+/=-]*\d)(?=[\w+/=-]*[A-Za-z])[\w+/=-]{8,}(?![\w+/=-])")
_LONG: Final = re.compile(r"(?<!\S)[A-Za-z0-9+/_=-]{24,}(?!\S)")
_MIXED: Final = re.compile(r"(?<![\w+/=-])(?=\w*[a-z][A-Z]\w*[a-z][A-Z]\w*[a-z][A-Z])[\w+/]{10,}={0,2}(?![\w+/=-])")
_ESCAPED: Final = re.compile(r"%[0-9a-f]{2}|\\[xu][0-9a-f]{2,4}", re.IGNORECASE)
_SPELLED: Final = re.compile(r"(?<!\S)(?:[\w.@:/] ){5,}[\w.@:/](?!\S)")
_OVERRIDES: Final = re.compile("[\u200b\u2060-\u2064\u202a-\u202e\u2066-\u2069\U000e0000-\U000e0fff]")
_TIME: Final = re.compile(
    r"(?<![\w.:/-])(?:[12]\d{3}-[01]?\d-[0-3]?\d(?:[ T][0-2]?\d(?::[0-5]\d){1,2}Z?)?|[0-3]?\d\.[01]?\d\.[12]\d{3}"
    r"|[0-3]?\d/[0-3]?\d/(?:[12]\d{3}|\d\d)|[0-2]?\d:[0-5]\d(?::[0-5]\d)?)(?![\w:/-]|\.\d)"
)
_YEAR: Final = re.compile(r"[(+ ]*[12]\d{3}[) ]*")
_ORDINAL: Final = re.compile(r"\d+(?:st|nd|rd|th|-th)")
_AMOUNT: Final = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?!\w)")
_FILE_ENDINGS: Final = frozenset(
    "docx xlsx pptx doc xls ppt odt txt pdf csv tsv png jpg jpeg gif webp json yaml xml log".split(" ")  # noqa: SIM905  a list would take a line for each word
)
_DIGIT: Final = re.compile(r"\d")
_MIN_DIGITS: Final = 6
_MIN_PRIVATE_DIGITS: Final = 4
_MAX_GROUPED_DIGITS: Final = 20
_MIN_CODE_CHARS: Final = 8
_MIN_SPELLED: Final = 6
_TRAILING: Final = ".,;:!?'\"*_)]}"
_SEPARATORS: Final = re.compile(r"[/\\:?#]")


def find_identifiers(text: str, *, with_numbers: bool = True) -> dict[str, None]:
    """Return every identifier in a text, in the order of their kinds, each once.

    Without numbers, only what leads somewhere is returned: links, hosts, addresses, codes.
    """
    plain = reveal(text)
    found: dict[str, None] = {}
    for pattern in _choose_patterns(plain):
        for match in pattern.finditer(plain):
            value = match[0].rstrip(_TRAILING)
            if value and _is_identifier(value, pattern):
                found.setdefault(value)
    if "%" in plain or "\\" in plain:
        found.update(dict.fromkeys(token for token in plain.split(" ") if _ESCAPED.search(token)))
    for value in found if with_numbers else ():  # its digits are judged with it
        plain = plain.replace(value, " | ")
    digits = reveal_digits(plain) if with_numbers else ""
    if _DIGIT.search(digits):
        _find_numbers(_TIME.sub(" | ", digits), found)
    if not text.isascii() and _OVERRIDES.search(text) is not None:
        found.setdefault(_OVERRIDES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)[:80])
    return found


def find_amounts(text: str) -> Iterator[str]:
    """Iterate over the numbers of some length in a text, with and without commas."""
    for match in _AMOUNT.finditer(text):
        number, digits = match[0], sum(map(str.isdigit, match[0]))
        if digits >= _MIN_PRIVATE_DIGITS:
            yield number
            if "," in number:
                yield number.replace(",", "")
            elif digits == len(number) < _MAX_GROUPED_DIGITS:
                yield f"{int(number):,}"


def find_phrases(text: str, words: int) -> Iterator[str]:
    """Iterate over runs of `words` words in a text, each beginning in the middle of the last one."""
    parts = text.split()
    for start in range(0, len(parts) - words + 1, words // 2):
        yield " ".join(parts[start : start + words])


def _choose_patterns(plain: str) -> Iterator["re.Pattern[str]"]:
    """Iterate over the patterns that can match a text, by the characters in it."""
    if ":" in plain:
        yield from (_LINK, _OTHER_LINK, _PORT, _ADDRESS_V6)
    if "@" in plain:
        yield from (_MAIL, _HANDLE)
    if "." in plain:
        yield from (_HOST, _ADDRESS_NUMBER)
    if "\\" in plain or "//" in plain:
        yield _SHARE
    lengths = list(map(len, plain.split(" ")))
    if max(lengths) >= _MIN_CODE_CHARS:
        yield from (_CODE, _LONG, _MIXED)
    if lengths.count(1) >= _MIN_SPELLED:
        yield _SPELLED


def _find_numbers(plain: str, found: dict[str, None]) -> None:
    for pattern in (_NUMBERS, _SPLIT_DIGITS):
        for match in pattern.finditer(plain):
            value = match[0].rstrip(_TRAILING + " ")
            digits = sum(map(str.isdigit, value))
            if digits >= _MIN_DIGITS and not _YEAR.fullmatch(value):
                found.setdefault(value)


def _is_identifier(value: str, pattern: "re.Pattern[str]") -> bool:
    if pattern is _HOST:
        host = _SEPARATORS.split(value, maxsplit=1)[0]
        return host != value or host.rpartition(".")[2].lower() not in _FILE_ENDINGS
    if pattern is _CODE:
        return (
            sum(map(str.isdigit, value)) > 1
            and _TIME.fullmatch(value) is None
            and _ORDINAL.fullmatch(value.lower()) is None
        )
    if pattern is _LONG:
        return not value.isalpha() or value.lower() != value
    return True
