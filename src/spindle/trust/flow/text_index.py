"""An index of texts in which values are found on token boundaries, in microseconds whatever the size of the texts.

A value counts as found only if it stands there by itself. Letters of other scripts are other letters, and a value with
invisible characters is found nowhere. Plain words and mail addresses are compared without case; what has digits or a
path is compared exactly, since `bit.ly/aBc` and `bit.ly/AbC` are two addresses.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from spindle.trust.flow.tokens import (
    HIDDEN,
    MAX_VALUE_CHARS,
    WORD,
    fold,
    get_scheme_before,
    is_alone,
    normalize,
    split_into_blocks,
)

_SEGMENT_CHARS: Final = 2_000_000
_MAX_REJECTED: Final = 500
"""How often a value may be found as a part of something else until a search is given up."""
_MAX_COMMON_BLOCKS: Final = 24
_MAIL: Final = re.compile(r"[^\s@<>]+@[^\s@<>]+\.[^\s@<>]+")
_SCHEME: Final = re.compile(r"(?i)https?://")
_HOST: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[^\W\d_]{2,}(?=[/?#:])")
_EXACT: Final = re.compile(r"[\d/\\=?&]|[a-z][A-Z]\w*[a-z][A-Z]")

SourceT = TypeVar("SourceT")


class Searchable(Protocol):
    """Texts in which values are looked for, whatever their sources are."""

    def find(self, value: str, *, exact: bool = False) -> object | None:
        """Return the source of the first text that contains a value, or `None`."""
        ...

    def has_word(self, word: str) -> bool:
        """Return whether a word, given in small letters, is in some text."""
        ...


class _Block(NamedTuple, Generic[SourceT]):
    source: SourceT
    text: str
    folded: str


class _Segment(Generic[SourceT]):
    """Some blocks, and where their words are; forgotten as a whole."""

    def __init__(self) -> None:
        self.blocks: list[_Block[SourceT]] = []
        self.chars = 0
        self.by_word: dict[str, int] = {}
        """For each word a number whose bits are the blocks that contain it."""

    def add(self, block: _Block[SourceT]) -> None:
        bit = 1 << len(self.blocks)
        self.blocks.append(block)
        self.chars += len(block.text)
        by_word = self.by_word
        get = by_word.get
        for word in set(WORD.findall(block.folded)):
            by_word[word] = get(word, 0) | bit

    def find_blocks(self, words: Iterable[str]) -> int:
        """Return the blocks that contain every word, as the bits of a number."""
        found = (1 << len(self.blocks)) - 1
        for word in words:
            found &= self.by_word.get(word, 0)
            if not found:
                break
        return found

    def iterate(self, bits: int) -> Iterator[_Block[SourceT]]:
        """Iterate over the blocks whose bits are set, oldest first."""
        while bits:
            lowest = bits & -bits
            yield self.blocks[lowest.bit_length() - 1]
            bits ^= lowest


class TextIndex(Generic[SourceT]):
    """Texts of sources, found by the values in them; safe to search while another thread adds.

    A search through a text that was made to be slow is given up. `is_found_in_doubt` says whether the value then counts
    as found.
    """

    def __init__(self, *, is_found_in_doubt: bool = False) -> None:
        self._segments: deque[_Segment[SourceT]] = deque()
        self._lock = Lock()
        self._is_found_in_doubt = is_found_in_doubt
        self.chars = 0
        """The size of the texts."""

    def __bool__(self) -> bool:
        return bool(self._segments)

    def add(self, text: str, source: SourceT) -> None:
        """Add a text."""
        for _ in self.add_in_steps(text, source):
            pass

    def add_in_steps(self, text: str, source: SourceT) -> Iterator[str]:
        """Add a text, and yield each block of it: a large text takes a tenth of a second."""
        for block in split_into_blocks(text):
            folded = fold(block)
            with self._lock:
                if not self._segments or self._segments[-1].chars >= _SEGMENT_CHARS:
                    self._segments.append(_Segment())
                self._segments[-1].add(_Block(source, block, block if folded == block else folded))
                self.chars += len(block)
            yield block

    def forget_oldest(self, chars: int) -> set[SourceT]:
        """Forget the oldest texts until at most `chars` characters are left; return their sources."""
        sources: set[SourceT] = set()
        with self._lock:
            while self.chars > chars and self._segments:
                gone = self._segments.popleft()
                self.chars -= gone.chars
                sources.update(block.source for block in gone.blocks)
        return sources

    def clear(self) -> None:
        """Forget all texts, word by word: to free 100,000 words at once keeps all other threads waiting."""
        while self._segments:
            segment = self._segments.popleft()
            while segment.by_word:
                segment.by_word.popitem()
            while segment.blocks:
                segment.blocks.pop()
        self.chars = 0

    def find(self, value: "str | Needle", *, exact: bool = False) -> SourceT | None:
        """Return the source of the first text that contains a value, or `None`; `exact` compares the case as well."""
        return next(self.search(value, exact=exact), None) if self._segments else None

    def search(self, value: "str | Needle", *, exact: bool = False) -> Iterator[SourceT]:
        """Iterate over the sources of the texts that contain a value on token boundaries, oldest first."""
        needle = Needle.build(value, exact=exact) if isinstance(value, str) else value
        if needle is None or not self._segments:
            return
        rejected = 0
        for segment in tuple(self._segments):
            for block in segment.iterate(segment.find_blocks(needle.words)):
                found = needle.count_rejected(block.text, block.folded, _MAX_REJECTED - rejected)
                if found is None or (found + rejected >= _MAX_REJECTED and self._is_found_in_doubt):
                    yield block.source
                    continue
                rejected += found
                if rejected >= _MAX_REJECTED:
                    return

    def search_phrases(self, text: str, words: int) -> Iterator[tuple[str, SourceT]]:
        """Iterate over the runs of `words` words of a text that are in the index, and their sources."""
        parts = fold(normalize(text)).split(" ")
        starts = range(len(parts) - words + 1)
        words_of = {part: WORD.findall(part) for part in set(parts)} if starts else {}
        for segment in tuple(self._segments) if starts else ():
            blocks_of = {part: segment.find_blocks(own) for part, own in words_of.items()}
            bits = [blocks_of[part] for part in parts]
            for start in starts:
                common = bits[start]
                for each in bits[start + 1 : start + words]:
                    common &= each
                # Words that are everywhere say nothing: "and this is what the".
                if not common or common.bit_count() > _MAX_COMMON_BLOCKS:
                    continue
                phrase = " ".join(parts[start : start + words])
                for block in segment.iterate(common):
                    if phrase in block.folded:
                        yield phrase, block.source
                        break

    def has_word(self, word: str) -> bool:
        """Return whether a word, given in small letters, is in some text."""
        return any(word in segment.by_word for segment in tuple(self._segments))


class _Form(NamedTuple):
    """One spelling of a value: its first characters are compared without case."""

    text: str
    folded: str
    head_chars: int
    is_plain_http: bool = False


class Needle(NamedTuple):
    """A value to look for; built once if it is looked for in several indexes."""

    forms: tuple[_Form, ...]
    words: tuple[str, ...]

    @classmethod
    def build(cls, value: str, *, exact: bool = False) -> "Needle | None":
        """Return what to look for, or `None` for a value that can be found nowhere."""
        if len(value) > MAX_VALUE_CHARS:
            return None
        if not (value.isascii() and value.isprintable()) and HIDDEN.search(value):
            return None
        plain = normalize(value)
        words = tuple(WORD.findall(fold(plain)))
        if not words:
            return None
        if plain.isalpha():
            return cls((_Form(plain, fold(plain), 0 if exact or _EXACT.search(plain) else len(plain)),), words)
        scheme = _SCHEME.match(plain)
        if scheme is not None:
            return cls._build_address(plain, scheme.end())
        host = _HOST.match(plain)
        if host is not None and not exact:
            bare = plain.removesuffix("/")
            return cls((_Form(bare, fold(bare), host.end()),), words)
        is_exact = exact or (_EXACT.search(plain) is not None and _MAIL.fullmatch(plain) is None)
        return cls((_Form(plain, fold(plain), 0 if is_exact else len(plain)),), words)

    @classmethod
    def _build_address(cls, plain: str, start: int) -> "Needle | None":
        """Return a web address as it is, and without its scheme; the case of its host does not matter."""
        bare = plain[start:].removesuffix("/")
        host_chars = len(re.split(r"[/?#\\]", bare, maxsplit=1)[0])
        if "@" in bare[:host_chars]:  # what stands before it is not the host, though it looks like it
            host_chars = 0
        words = tuple(WORD.findall(fold(bare)))
        if not words:
            return None
        whole = _Form(plain, fold(plain), start + host_chars)
        return cls((whole, _Form(bare, fold(bare), host_chars, plain[:start].lower() == "http://")), words)

    def count_rejected(self, text: str, folded: str, most: int) -> int | None:
        """Return `None` if a text contains the value by itself, or how often it stands there as a part, up to `most`.

        `folded` is the text in small letters.
        """
        rejected = 0
        for form in self.forms:
            chars, start = len(form.text), folded.find(form.folded)
            while start >= 0:
                if (
                    form.head_chars >= chars or text.startswith(form.text[form.head_chars :], start + form.head_chars)
                ) and self._stands_alone(form, text, start):
                    return None
                rejected += 1
                if rejected >= most:
                    return rejected
                start = folded.find(form.folded, start + 1)
        return rejected

    def _stands_alone(self, form: _Form, text: str, start: int) -> bool:
        if not is_alone(text, start, start + len(form.text)):
            return False
        return not form.is_plain_http or get_scheme_before(text, start) != "https://"


def to_key(value: str) -> str:
    """Return a value in the spelling in which two values are compared as a whole."""
    plain = normalize(value)
    scheme, is_mail = _SCHEME.match(plain), _MAIL.fullmatch(plain) is not None
    if scheme is None and (is_mail or _EXACT.search(plain) is None):
        return fold(plain)
    start = 0 if scheme is None else scheme.end()
    host = re.split(r"[/?#\\]", plain[start:], maxsplit=1)[0] if scheme is not None else ""
    end = start + (0 if "@" in host else len(host))
    return fold(plain[:end]) + plain[end:]
