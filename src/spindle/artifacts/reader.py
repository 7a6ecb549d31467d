"""The port an artifact reads through."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """What `grep` looks for."""

    pattern: str
    flags: str = ""
    before: int = 0
    after: int = 0
    limit: int | None = None
    """At most so many matching lines; context lines come on top."""


@dataclass(frozen=True, slots=True)
class Match:
    """A line that was found, or stands beside one."""

    line: int
    """0-based, as in `cat`."""
    text: str
    """Without the terminator; of a line over 64 KiB only the part round the match, with a note of what was cut."""
    is_context: bool = field(default=False, compare=False)
    """The line matches nothing itself; it was asked for by `before` or `after`."""


@runtime_checkable
class SpoolReader(Protocol):
    """Reads what was spooled; lines end at `\\n` only and are given without it.

    Text is UTF-8: bad bytes are given as U+FFFD, and a byte order mark is left out of line 0. A reader may also have
    the methods of `IndexedReader`; an artifact uses those that are there.
    """

    async def line(self, i: int) -> str | None:
        """Give line `i` (0-based), or `None` out of range."""
        ...

    async def byte_length(self) -> int:
        """Count the bytes."""
        ...

    async def line_count(self) -> int:
        """Count the lines."""
        ...

    async def read_all(self) -> bytes:
        """Give every byte as it was written."""
        ...


class IndexedReader(SpoolReader, Protocol):
    """What the readers of a spool can do besides; each method costs what it returns, not what is stored."""

    async def read_lines(self, start: int, end: int) -> list[str]:
        """Give lines `start` to `end` (half-open, clamped)."""
        ...

    async def search(self, query: Search) -> list[Match]:
        """Give the lines that match, in order, with their context.

        Raises:
            ArtifactQueryError: The pattern or a flag is not of the dialect.
        """
        ...

    def chunks(self, size: int = 1 << 20) -> AsyncIterator[bytes]:
        """Give every byte in pieces of at most `size`; fresh each time."""
        ...

    def local_path(self) -> AbstractAsyncContextManager[Path]:
        """Lend a real file with the bytes, for engines that read files; leave it unchanged, it ends with the block."""
        ...
