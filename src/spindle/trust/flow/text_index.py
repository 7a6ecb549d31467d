"""An index of texts in which values are found on token boundaries, in microseconds whatever the size of the texts.

A value counts as found only if it stands there by itself: `x.com` is not in `bob@x.com`, and `26` not in `$26.50`.
Letters of other scripts are other letters, and a value with invisible characters is found nowhere. Plain words and mail
addresses are compared without case; what has digits or a path is compared exactly, since `bit.ly/aBc` and `bit.ly/AbC`
are two addresses.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from spindle.text import INVISIBLE

_BLOCK_CHARS: Final = 4_000
_OVERLAP_CHARS: Final = 500
MAX_VALUE_CHARS: Final = _OVERLAP_CHARS // 2
"""A longer value is found nowhere as a whole."""
_MAX_BLOCKS_SEARCHED: Final = 64
_WORD: Final = re.compile(r"\w+")
_SPACE: Final = re.compile(r"\s")
_HIDDEN: Final = re.compile(f"[{INVISIBLE}]")
_APOSTROPHES: Final = frozenset("'\u2019")
_JOINERS: Final = frozenset("@.-_/:+%#&=~?$*\\|^") | _APOSTROPHES
"""Characters that make one token of what stands on both sides of them."""
_CLOSERS: Final = frozenset(".:?!*_") | _APOSTROPHES
"""Joiners that end a sentence or a quotation if nothing follows them."""
_MAIL: Final = re.compile(r"[^\s@<>]+@[^\s@<>]+\.[^\s@<>]+")
_SCHEME: Final = re.compile(r"(?i)^https?://")
_EXACT: Final = re.compile(r"[0-9/\\=?&]")

SourceT = TypeVar("SourceT")


class _Block(NamedTuple, Generic[SourceT]):
    source: SourceT
    text: str
    folded: str


class TextIndex(Generic[SourceT]):
    """Texts of sources, found by the values in them."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Block[SourceT]] = {}
        self._next = 0
        self._by_word: dict[str, list[int]] = {}
        self.chars = 0
        """The size of the texts."""

    def __bool__(self) -> bool:
        return bool(self._blocks)

    @property
    def words(self) -> "dict[str, list[int]]":
        """The words of all texts, without case."""
        return self._by_word

    def add(self, text: str, source: SourceT) -> None:
        """Add a text."""
        for _ in self.add_in_steps(text, source):
            pass

    def add_in_steps(self, text: str, source: SourceT) -> Iterator[str]:
        """Add a text, and yield each block of it: a large text takes a tenth of a second."""
        for piece in split_into_blocks(text):
            block = normalize(piece)
            if not block:
                continue
            folded = block.casefold()
            number, self._next = self._next, self._next + 1
            self._blocks[number] = _Block(source, block, block if folded == block else folded)
            self.chars += len(block)
            for word in set(_WORD.findall(folded)):
                self._by_word.setdefault(word, []).append(number)
            yield block

    def forget_oldest(self, chars: int) -> set[SourceT]:
        """Forget the oldest blocks until at most so many characters are left; return their sources."""
        gone: set[int] = set()
        sources: set[SourceT] = set()
        for number, block in self._blocks.items():
            if self.chars <= chars:
                break
            gone.add(number)
            sources.add(block.source)
            self.chars -= len(block.text)
        if gone:
            words = {word for number in gone for word in _WORD.findall(self._blocks.pop(number).folded)}
            for word in words:
                left = [number for number in self._by_word.get(word, ()) if number not in gone]
                if left:
                    self._by_word[word] = left
                else:
                    self._by_word.pop(word, None)
        return sources

    def find(self, value: str, *, exact: bool = False) -> SourceT | None:
        """Return the source of the first text that contains a value, or `None`; `exact` compares the case as well."""
        return next(self.search(value, exact=exact), None)

    def search(self, value: str, *, exact: bool = False) -> Iterator[SourceT]:
        """Iterate over the sources of the texts that contain a value on token boundaries, oldest first."""
        needle = _Needle.build(value, exact=exact)
        if needle is None:
            return
        postings: list[list[int]] = []
        for word in needle.words:
            numbers = self._by_word.get(word)
            if numbers is None:
                return
            postings.append(numbers)
        rarest = min(postings, key=len)
        for number in rarest[:_MAX_BLOCKS_SEARCHED]:
            block = self._blocks[number]
            if needle.is_in(block.text, block.folded):
                yield block.source

    def has_words(self, words: "set[str]") -> bool:
        """Return whether every word is in some text; the words must be folded."""
        return all(word in self._by_word for word in words)


class _Needle(NamedTuple):
    """A value to look for."""

    forms: tuple[str, ...]
    is_exact: bool
    words: tuple[str, ...]

    @classmethod
    def build(cls, value: str, *, exact: bool) -> "_Needle | None":
        """Return what to look for, or `None` for a value that can be found nowhere."""
        if len(value) > MAX_VALUE_CHARS or _HIDDEN.search(value):
            return None
        plain = normalize(value)
        is_mail = _MAIL.fullmatch(plain) is not None
        is_exact = exact or (not is_mail and _EXACT.search(plain) is not None)
        bare = _SCHEME.sub("", plain)
        if bare != plain or (is_exact and "." in plain):  # an address, whose host has no case
            host, slash, rest = bare.partition("/")
            bare = f"{host.casefold() if slash or bare != plain else host}{slash}{rest}"
            bare = bare.removesuffix("/")
        forms = tuple(dict.fromkeys((plain, bare))) if is_exact else (plain.casefold(), bare.casefold())
        words = tuple(_WORD.findall(bare.casefold()))
        return cls(forms, is_exact, words) if words and bare else None

    def is_in(self, text: str, folded: str) -> bool:
        """Return whether a text contains the value by itself; `folded` is the text without case."""
        within = text if self.is_exact else folded
        return any(_stands_alone(within, form) for form in dict.fromkeys(self.forms)) or (
            self.is_exact and _has_host_in_other_case(text, self.forms[-1])
        )


def split_into_blocks(text: str) -> Iterator[str]:
    """Iterate over overlapping blocks of a text, cut between tokens.

    Where there is no space to cut at, an underscore marks the edge, so that half a token does not count as one.
    """
    start = 0
    while True:
        end = start + _BLOCK_CHARS
        if end >= len(text):
            yield _mark_start(text, start, len(text))
            return
        space = _SPACE.search(text, end, end + _OVERLAP_CHARS)
        cut = end if space is None else space.start()
        yield _mark_start(text, start, cut) + ("_" if space is None else "")
        start = cut - _OVERLAP_CHARS


def _mark_start(text: str, start: int, end: int) -> str:
    if not start:
        return text[:end]
    space = _SPACE.search(text, start, start + _OVERLAP_CHARS // 2)
    return "_" + text[start:end] if space is None else text[space.end() : end]


def normalize(text: str) -> str:
    """Return a text in one spelling: composed characters, single spaces, straight quotation marks."""
    plain = text if text.isascii() else unicodedata.normalize("NFC", text)
    return " ".join(plain.split())


def _has_host_in_other_case(text: str, address: str) -> bool:
    """Return whether an address stands in a text with its host in capitals; its path must be the same."""
    host, slash, rest = address.partition("/")
    if not slash or "." not in host:
        return False
    return any(
        text[match.end() :].startswith(slash + rest) and _is_alone(text, match.start(), match.end() + len(slash + rest))
        for match in re.finditer(re.escape(host), text, re.IGNORECASE)
    )


def _stands_alone(text: str, value: str) -> bool:
    start = text.find(value)
    while start >= 0:
        if _is_alone(text, start, start + len(value)):
            return True
        start = text.find(value, start + 1)
    return False


def _is_alone(text: str, start: int, end: int) -> bool:
    return _is_open_before(text, start) and _is_open_after(text, end)


def _is_open_before(text: str, start: int) -> bool:
    if start == 0:
        return True
    before = text[start - 1]
    if _is_wordlike(before):
        return False
    if before == "/" and _SCHEME_BEFORE.search(text, max(0, start - 8), start):
        return True
    if before == "," and start > 1 and text[start - 2].isdigit() and text[start].isdigit():
        return False
    # A joiner joins only what it stands between: in "to: -x" and "'x'" there is nothing before it.
    if before not in _JOINERS or start == 1:
        return True
    earlier = text[start - 2]
    return not _is_wordlike(earlier) and earlier not in _JOINERS


_SCHEME_BEFORE: Final = re.compile(r"(?i)(?<![\w.])https?://$")


def _is_open_after(text: str, end: int) -> bool:
    if end >= len(text):
        return True
    after = text[end]
    if _is_wordlike(after):
        return False
    following = text[end + 1] if end + 1 < len(text) else " "
    if after == "," and text[end - 1].isdigit() and following.isdigit():
        return False
    if after == "/":
        return following.isspace() or following in "\"'),;"
    if after in _APOSTROPHES and following in "sS":  # "Bob's calendar"
        return True
    if after not in _JOINERS:
        return True
    return after in _CLOSERS and not _is_wordlike(following) and following not in _JOINERS


def _is_wordlike(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"
