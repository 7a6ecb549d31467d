"""What an artifact holds, judged by its first bytes, for people who choose how to look at it."""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from spindle import artifacts
from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.readers import IndexedReader, decode_text
from spindle.concurrency import spool_threads
from spindle.errors import ArtifactQueryError, MissingExtraError
from spindle.media.mime import sniff

ContentView: TypeAlias = Literal["lines", "hex", "json", "markdown", "table"]
"""A way to look at content."""

SAMPLE_BYTES: Final = 1 << 16
MAX_COPIED_BYTES: Final = 16 << 20
"""Content of a reader that cannot return a byte range is copied into memory, up to this size."""

_MAX_INVALID_SHARE = 0.1
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")
_HEADING = re.compile(r"^#{1,6} \S", re.MULTILINE)
_MARKDOWN = re.compile(r"^(?:```|~~~|[-*] \S|\d+\. \S|> |\|[ :|-]+\|$)|\*\*\S|\[[^\]\n]{1,200}\]\(", re.MULTILINE)
_SUFFIXES: Final[dict[str, ContentView]] = {
    "md": "markdown",
    "markdown": "markdown",
    "csv": "table",
    "tsv": "table",
    "parquet": "table",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ContentFacts:
    """The size of content, and what its first bytes look like."""

    byte_length: int
    line_count: int
    media_type: str
    """As sniffed from the first bytes; `application/octet-stream` if unknown."""
    is_binary: bool
    """Whether the content is not text, so that only its bytes are worth a look."""
    width: int | None = None
    """Of an image, in pixels."""
    height: int | None = None
    best_view: ContentView
    """The view that fits the content."""


async def open_content(reader: IndexedReader) -> BlockReader:
    """Return a reader of byte ranges with the content of any reader.

    Raises:
        ArtifactQueryError: The reader can only return everything at once, and that is too much.
    """
    if isinstance(reader, BlockReader):
        return reader
    size = await reader.byte_length()
    if size > MAX_COPIED_BYTES:
        raise ArtifactQueryError(
            f"this store cannot return parts of an artifact, and {size} bytes are more than the {MAX_COPIED_BYTES} "
            "that are read at once; download it"
        )
    return await spool_threads.run(artifacts.BytesReader, await reader.read_all())


def describe_content(content: BlockReader, name: str = "") -> ContentFacts:
    """Describe content by its first bytes and its name; blocks, so it is for worker threads."""
    size, lines = content.size
    head = content.read_range(0, min(size, SAMPLE_BYTES))
    is_binary = _is_binary(head)
    media_type = "application/octet-stream"
    with suppress(MissingExtraError):  # without the extra only text is recognized
        media_type = sniff(head, is_whole=len(head) == size) or media_type
    width, height = _measure_image(head) or (None, None)
    return ContentFacts(
        byte_length=size,
        line_count=lines,
        media_type=media_type,
        is_binary=is_binary,
        width=width,
        height=height,
        best_view=_choose_view(head, name, is_binary=is_binary),
    )


def _is_binary(head: bytes) -> bool:
    if b"\0" in head:
        return True
    text = head.decode("utf-8", "replace")
    # The last character may be cut.
    return len(_CONTROL.findall(text[:-1])) > _MAX_INVALID_SHARE * len(text)


def _choose_view(head: bytes, name: str, *, is_binary: bool) -> ContentView:
    if head.startswith(b"PAR1"):
        return "table"
    if is_binary:
        return "hex"
    text = decode_text(head, at_start=True)
    if text.lstrip()[:1] in ("{", "["):
        return "json"
    suffix = name.rpartition(".")[2].lower()
    if suffix in _SUFFIXES and _SUFFIXES[suffix] != "json":
        return _SUFFIXES[suffix]
    if _is_table(text):
        return "table"
    if len(_HEADING.findall(text)) >= 2 or (_HEADING.search(text) and _MARKDOWN.search(text)):
        return "markdown"
    return "lines"


def _is_table(text: str) -> bool:
    """Return whether the first lines have the same delimiter equally often."""
    lines = [line for line in text.split("\n")[:12] if line.strip()]
    if len(lines) < 3:
        return False
    # The last line may be cut, and quoted cells may hide delimiters in a few.
    for mark in (",", "\t", ";", "|"):
        counts = [line.count(mark) for line in lines[:-1] or lines]
        if counts[0] >= 1 and counts.count(counts[0]) == len(counts) and not _is_prose(lines[0]):
            return True
    return False


def _is_prose(header: str) -> bool:
    return header.rstrip().endswith((".", ":", "!", "?")) or header.startswith(("#", "- ", "|"))


def _measure_image(head: bytes) -> tuple[int, int] | None:
    """Return the width and height that the header of a PNG, GIF, WebP or JPEG file tells."""
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    if head.startswith((b"GIF87a", b"GIF89a")) and len(head) >= 10:
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head.startswith(b"RIFF") and head[8:16] == b"WEBPVP8X" and len(head) >= 30:
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    return _measure_jpeg(head) if head.startswith(b"\xff\xd8") else None


def _measure_jpeg(head: bytes) -> tuple[int, int] | None:
    place = 2
    while place + 9 <= len(head) and head[place] == 0xFF:
        marker, length = head[place + 1], int.from_bytes(head[place + 2 : place + 4])
        # The frame headers; 0xC4, 0xC8 and 0xCC among them are tables.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(head[place + 7 : place + 9]), int.from_bytes(head[place + 5 : place + 7])
        place += 2 + max(length, 2)
    return None
