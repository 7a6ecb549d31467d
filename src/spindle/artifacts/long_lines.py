"""Parts of long lines: both ends of a line, the text around a match, and any range of its characters.

A model pays for every character it is shown, and a line may have 100 MB. So a long line is shown in part, with the
place where the part begins, and read on from there with `artifact_cat`.
"""

from bisect import bisect_right
from codecs import getincrementaldecoder
from collections.abc import Callable
from threading import Lock

from spindle.artifacts.readers import BOM, LinePart, char_start, decode_text, encode_text

MAX_CHAR_BYTES = 4
"""The length of the longest character in UTF-8."""

_DECODE_BYTES = 1 << 18


def has_at_most(data: bytes, max_chars: int) -> bool:
    """Return whether `data` has at most `max_chars` characters."""
    return len(data) <= max_chars or (len(data) <= max_chars * MAX_CHAR_BYTES and count_chars(data) <= max_chars)


def cut_line(line: bytes, max_chars: int) -> LinePart:
    """Return a line, or its ends if it has more than `max_chars` characters."""
    return cut_ends(line, line, len(line), max_chars)


def cut_ends(first: bytes, last: bytes, total: int, max_chars: int) -> LinePart:
    """Return the line of `total` bytes that begins with `first` and ends with `last`, or its ends if it is long.

    Each of the two is the whole line, or has at least `max_chars` characters of any length.
    """
    if total <= len(first) and has_at_most(first, max_chars):
        return LinePart(decode_text(first))
    # Half of the room for the head and a quarter for the tail: the rest is for the note.
    head = decode_text(first[: max_chars * MAX_CHAR_BYTES])[: max(max_chars // 2, 1)]
    end = last[-max_chars * MAX_CHAR_BYTES :]
    tail = decode_text(end[char_start(end, 0) :])[-max(max_chars // 4, 1) :]
    return LinePart(head, tail, max(total - len(encode_text(head)) - len(encode_text(tail)), 1))


def cut_around(data: bytes, found: int, max_chars: int, *, before: int = 0, after: int = 0) -> str:
    """Return `max_chars` characters of a line around offset `found` of `data`; an ellipsis marks each cut.

    `before` and `after` count the bytes of the line on either side of `data`.
    """
    lead = max_chars // 3
    begin = char_start(data, max(found - lead * MAX_CHAR_BYTES, 0))
    end = min(found + max_chars * MAX_CHAR_BYTES, len(data))
    text, rest = decode_text(data[begin:found]), decode_text(data[found:end])
    is_cut_before = before + begin > 0 or len(text) > lead
    text = text[-lead:] if lead else ""
    shown = rest[: max_chars - len(text)]
    is_cut_after = after > 0 or end < len(data) or len(shown) < len(rest)
    return f"{'…' if is_cut_before else ''}{text}{shown}{'…' if is_cut_after else ''}"


def count_chars(data: bytes) -> int:
    """Count the characters that `decode_text` returns; decodes in pieces, to avoid a wide copy of the whole."""
    if data.isascii():
        return len(data)
    decoder = getincrementaldecoder("utf-8")("replace")
    pieces = range(0, len(data), _DECODE_BYTES)
    return sum(len(decoder.decode(data[start : start + _DECODE_BYTES])) for start in pieces) + len(
        decoder.decode(b"", final=True)
    )


class CharMap:
    """Where the characters of one line are: the offset of about one in a million, known as far as was read.

    A page near the end of a long line is found by counting all characters before it. The map is kept, so that reading a
    line page by page counts each of them once.
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        begin: int,
        stop: int,
        *,
        at_start: bool = False,
        step_bytes: int = 1 << 20,
    ) -> None:
        if at_start and read(begin, min(begin + len(BOM), stop)) == BOM:
            begin += len(BOM)
        self._read, self._stop, self._step_bytes = read, stop, step_bytes
        self._chars, self._offsets = [0], [begin]
        self._lock = Lock()

    def extend(self, char: int) -> bool:
        """Count the characters of the next part; return whether `char`, or the line's end, is known."""
        with self._lock:
            if self._chars[-1] >= char or self._offsets[-1] >= self._stop:
                return True
            text, end = self._decode(self._offsets[-1])
            self._chars.append(self._chars[-1] + len(text))
            self._offsets.append(end)
            return False

    def read_part(self, start: int, end: int | None) -> str:
        """Return some of the characters `start` to `end`; `start` must be known. Only the line's end gives none."""
        with self._lock:
            at = bisect_right(self._chars, start) - 1
            first, offset = self._chars[at], self._offsets[at]
        if offset >= self._stop:
            return ""
        return self._decode(offset)[0][start - first : None if end is None else end - first]

    def _decode(self, offset: int) -> tuple[str, int]:
        """Return the characters of the next part, and the offset of the first one after them."""
        end = min(offset + self._step_bytes, self._stop)
        decoder = getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(self._read(offset, end), final=end == self._stop)
        return text, end - len(decoder.getstate()[0])
