"""The port an artifact reads through."""

from dataclasses import dataclass
from typing import Protocol


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


class SpoolReader(Protocol):
    """Reads what was spooled; lines end at `\\n` only and are given without it.

    A reader may also have `read_lines(start, end) -> list[str]` (half-open, clamped) and
    `search(Search) -> list[Match]`; an artifact uses them when they are there.
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
