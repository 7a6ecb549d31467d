"""The line queries of an artifact as a model sees them, loaded by the first reader tool that is called."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.grep import search_line_ranges
from spindle.artifacts.long_lines import cut_line
from spindle.artifacts.queries import Bounds
from spindle.artifacts.readers import LinePart, Match, Search, encode_text


class LineView:
    """The line queries of an artifact as a model sees them: of a long line, only a part."""

    def __init__(self, artifact: Artifact, bounds: Bounds | None = None) -> None:
        bounds = bounds or Bounds()
        self._artifact = artifact
        self._max_chars = min(bounds.max_line_chars, bounds.max_chars)

    async def head(self, n: int) -> list[str]:
        """Return the first `n` lines."""
        return await self._lines(0, n)

    async def tail(self, n: int) -> list[str]:
        """Return the last `n` lines, in order."""
        count = await self._artifact.line_count()
        return await self._lines(max(count - n, 0), count)

    async def cat(self, start: int | None, end: int, **chars: int | None) -> list[str]:
        """Return lines `start` to `end`, or a range of characters of each, which is not cut."""
        if chars:
            return await self._artifact.cat(start, end, **chars)
        return await self._lines(start or 0, end)

    async def grep(self, **wanted: Any) -> list[Match]:
        """Return the lines that match a pattern, with context."""
        return await self._artifact.search(Search(**wanted, max_line_chars=self._max_chars // 4))

    async def search(self, wanted: Search, ranges: Iterable[range]) -> list[Match]:
        """Search the lines of an artifact whose reader has no search of its own, range by range.

        Raises:
            ArtifactQueryError: The pattern or a flag is not supported by the dialect.
        """
        return await search_line_ranges(wanted, ranges, self._artifact.cat, await self._artifact.line_count())

    async def _lines(self, start: int, end: int) -> list[str]:
        native: Callable[[int, int, int], Awaitable[list[LinePart]]] | None
        native = getattr(self._artifact.reader, "read_line_ends", None)
        if callable(native):
            parts = await native(start, end, self._max_chars)
        else:
            parts = [cut_line(encode_text(line), self._max_chars) for line in await self._artifact.cat(start, end)]
        return [part.describe(line) for line, part in enumerate(parts, start)]
