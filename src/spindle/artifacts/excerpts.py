"""Bytes of lines as text that can be shown and searched, without a wide copy of everything. No I/O."""

import codecs

from spindle.artifacts.lines import BOM, decode_text

MAX_TEXT_BYTES = 1 << 16
"""A longer line is shown in part."""

_DECODE_BYTES = 1 << 18


def excerpt(part: bytes, *, before: int = 0, after: int = 0) -> str:
    """Decode a part of a line and say how much of it was cut on either side."""
    head = f"[… {before} bytes cut] " if before else ""
    tail = f" [{after} bytes cut …]" if after else ""
    return f"{head}{decode_text(part)}{tail}"


def cut_line(line: bytes, *, total: int | None = None, at_start: bool = False) -> str:
    """Give a line, or its beginning when it is too long; `total` is its true length when `line` is only a part."""
    if at_start and line.startswith(BOM):
        line, total = line[len(BOM) :], None if total is None else total - len(BOM)
    total = len(line) if total is None else total
    if total <= MAX_TEXT_BYTES:
        return decode_text(line)
    part = line[: char_start(line, MAX_TEXT_BYTES)]
    return excerpt(part, after=total - len(part))


def char_start(data: bytes, place: int) -> int:
    """Move forward to where a character begins; a character has at most three bytes after its first."""
    for step in range(4):
        if place + step >= len(data) or data[place + step] & 0xC0 != 0x80:
            return min(place + step, len(data))
    return place


def is_utf8(data: bytes, end: int) -> bool:
    """Check `data[:end]`; in pieces, so that no wide copy of the whole is made."""
    if data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, end, _DECODE_BYTES):
            stop = min(start + _DECODE_BYTES, end)
            decoder.decode(data[start:stop], final=stop == end)
    except UnicodeDecodeError:
        return False
    return True


def repaired(data: bytes) -> bytes:
    """Give what the text of these bytes is in UTF-8: bad bytes become U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    parts = [
        decoder.decode(data[start : start + _DECODE_BYTES], final=start + _DECODE_BYTES >= len(data)).encode()
        for start in range(0, len(data), _DECODE_BYTES)
    ]
    return b"".join(parts)
