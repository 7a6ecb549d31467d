"""The `Artifact` class: a read-only, line-oriented view of a large output, and its line search."""

from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from inspect import isawaitable
from typing import Annotated, Any, ClassVar, Self, TypeAlias, TypeGuard, TypeVar, cast

from annotated_types import Ge, Le, MinLen
from anyio.to_thread import run_sync

from spindle.artifacts.forge import ForgeContext, forge
from spindle.artifacts.grep import DIALECT, LineSearch, merge_context_ranges
from spindle.artifacts.queries import Bounds, query
from spindle.artifacts.readers import Match, Search, SpoolReader, build_line_index, decode_text, encode_text
from spindle.artifacts.tokens import estimate_from_bytes, find_counter, is_prose, known_encodings
from spindle.errors import InvalidArtifactError, NotASpoolReaderError
from spindle.tools.registry import ToolRegistry


async def search_line_ranges(
    wanted: Search,
    ranges: Iterable[range],
    read_lines: Callable[[int, int], Awaitable[list[str]]],
    line_count: int,
) -> list[Match]:
    """Return the matching lines in order, with their context.

    Raises:
        ArtifactQueryError: The pattern or a flag is not supported by the dialect.
    """
    # Search an empty block first, so that an invalid pattern is rejected even if there are no lines.
    found = await run_sync(_search_block, wanted, 0, list[str]())
    for part in ranges:
        found += await run_sync(_search_block, wanted, part.start, await read_lines(part.start, part.stop))
        if wanted.limit is not None and len(found) >= wanted.limit:
            del found[wanted.limit :]
            break
    if not (wanted.before or wanted.after):
        return found
    matches = {match.line: match for match in found}
    answer: list[Match] = []
    for first, last in merge_context_ranges(matches, wanted.before, wanted.after, line_count):
        texts = await read_lines(first, last)
        answer += [matches.get(n) or Match(n, text, is_context=True) for n, text in enumerate(texts, first)]
    return answer


def _search_block(wanted: Search, start: int, lines: list[str]) -> list[Match]:
    # The trailing newline makes a block of one empty line count as one; the extra line it adds is dropped below.
    data = encode_text("\n".join(lines) + "\n") if lines else b""
    search = LineSearch(wanted, build_line_index(data), lambda begin, end: data[begin:end])
    while not search.is_done:
        search.advance()
    return [Match(start + match.line, match.text) for match in search.matches if match.line < len(lines)]


T = TypeVar("T")

LineNumber: TypeAlias = Annotated[int | None, Ge(0)]
Count: TypeAlias = Annotated[int, Ge(1)]

_READER_METHODS = ("line", "byte_length", "line_count", "read_all")
_BLOCK_BYTES = 1 << 20
_SAMPLE_CHARS = 32_768
_PAGING = "page with artifact_cat, giving start and end"


def _clamp_count(args: dict[str, Any], bounds: Bounds) -> dict[str, Any]:
    return args | {"n": min(args["n"], bounds.max_items + 1)}


def clamp_range(args: dict[str, Any], bounds: Bounds) -> dict[str, Any]:
    """Limit the range `start` to `end` to one item more than an answer can show."""
    furthest = (args["start"] or 0) + bounds.max_items + 1
    return args | {"end": furthest if args["end"] is None else min(args["end"], furthest)}


def _clamp_grep(args: dict[str, Any], bounds: Bounds) -> dict[str, Any]:
    limit = args["limit"] or bounds.max_items + 1
    return args | {"limit": min(limit, bounds.max_items + 1)}


class Artifact:
    """A lazy, read-only, line-oriented view of a reader's content; lines are numbered from 0.

    Raises:
        NotASpoolReaderError: The reader lacks one of the four methods of `SpoolReader`.
    """

    machine_text: ClassVar[bool] = False
    """Whether the content is code or data rather than prose; used by the token estimate."""

    def __init__(self, reader: SpoolReader) -> None:
        lacking = [name for name in _READER_METHODS if not callable(getattr(reader, name, None))]
        if lacking:
            kind = type(reader).__name__
            raise NotASpoolReaderError(
                f"Expected a SpoolReader, got {kind}, which lacks {', '.join(lacking)}", field="reader"
            )
        self._reader = reader

    @classmethod
    def from_text(cls, text: str, **options: Any) -> Self:
        """Create an artifact from text in memory; `options` are passed to the class.

        Raises:
            InvalidArtifactError: `text` is not a string.
        """
        if not isinstance(cast("object", text), str):
            kind = type(text).__name__
            raise InvalidArtifactError(f"Expected text (str), got {kind}; use from_bytes for bytes", field="text")
        return cls.from_bytes(encode_text(text), **options)

    @classmethod
    def from_bytes(cls, data: bytes, **options: Any) -> Self:
        """Create an artifact from bytes in memory; `options` are passed to the class.

        Raises:
            InvalidArtifactError: `data` is not bytes-like.
        """
        if not isinstance(cast("object", data), bytes | bytearray | memoryview):
            kind = type(data).__name__
            raise InvalidArtifactError(f"Expected bytes, got {kind}; use from_text for text", field="data")
        from spindle.artifacts.backends.memory import BytesReader  # noqa: PLC0415 - a port's factory method

        return cls(BytesReader(data), **options)

    @staticmethod
    def is_artifact(value: object) -> "TypeGuard[Artifact]":
        """Return whether a value is an artifact of any class."""
        return isinstance(value, Artifact)

    @classmethod
    def forge_tools(cls, ctx: ForgeContext, *, bounds: Bounds | None = None) -> ToolRegistry:
        """Create the reader tools for the turn's artifacts from the queries of this class and its bases."""
        return forge(cls, ctx, bounds or Bounds())

    def over(self, reader: SpoolReader) -> Self:
        """Return an artifact of the same type and options for another reader."""
        return type(self)(reader)

    @property
    def reader(self) -> SpoolReader:
        """The reader that supplies the content."""
        return self._reader

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {type(self._reader).__name__}>"

    @query("artifact_head", "Read the first lines of an artifact.", rest=_PAGING, clamp=_clamp_count)
    async def head(self, n: Count = 10) -> list[str]:
        """Return the first `n` lines."""
        return await self._lines(0, n)

    @query("artifact_tail", "Read the last lines of an artifact.", rest=_PAGING, clamp=_clamp_count, from_end=True)
    async def tail(self, n: Count = 10) -> list[str]:
        """Return the last `n` lines, in order."""
        count = await self.line_count()
        return await self._lines(count - n, count) if n > 0 else []

    @query(
        "artifact_grep",
        "Find the lines of an artifact that match a regular expression anywhere in the line. Answers `line: text`, "
        "lines counted from 0; before and after add lines of context. The dialect: " + DIALECT + ".",
        rest="make the pattern more specific, or read on from a line with artifact_cat",
        clamp=_clamp_grep,
        extra_schema={"flags": {"pattern": "^[imsu]*$"}},
    )
    async def grep(
        self,
        pattern: Annotated[str, MinLen(1)],
        flags: str = "",
        *,
        before: Annotated[int, Ge(0), Le(50)] = 0,
        after: Annotated[int, Ge(0), Le(50)] = 0,
        limit: Annotated[int | None, Ge(1)] = None,
    ) -> list[Match]:
        """Return the lines that match a pattern, with context; at most `limit` matches.

        Raises:
            ArtifactQueryError: The pattern or a flag is not supported by the dialect.
        """
        wanted = Search(pattern=pattern, flags=flags, before=before, after=after, limit=limit)
        native = getattr(self._reader, "search", None)
        if callable(native):
            return await await_if_needed(cast("list[Match]", native(wanted)))
        return await search_line_ranges(wanted, await self._line_ranges(), self._lines, await self.line_count())

    @query(
        "artifact_cat",
        "Read a range of lines of an artifact, from start up to but not including end, counted from 0.",
        rest="ask again with start={next}",
        clamp=clamp_range,
    )
    async def cat(self, start: LineNumber = None, end: LineNumber = None) -> list[str]:
        """Return lines `start` to `end` (half-open); values out of range are clamped, never counted from the end."""
        first = max(start or 0, 0)
        last = await self.line_count() if end is None else end
        return await self._lines(first, last)

    @query("artifact_byte_length", "Count the bytes of an artifact.")
    async def byte_length(self) -> int:
        """Count the bytes."""
        return await await_if_needed(self._reader.byte_length())

    @query("artifact_line_count", "Count the lines of an artifact.")
    async def line_count(self) -> int:
        """Count the lines."""
        return await await_if_needed(self._reader.line_count())

    @query(
        "artifact_estimate_tokens",
        "Estimate how many tokens the whole artifact would take. encoding names a tokenizer; leave it out for a "
        "general estimate.",
        choices={"encoding": known_encodings},
    )
    async def estimate_tokens(self, encoding: str | None = None) -> int:
        """Estimate the tokens of the whole text, or count them where a counter is registered for `encoding`.

        Raises:
            ArtifactQueryError: The encoding is unknown.
        """
        count = find_counter(encoding)
        if count is None:
            prose = not self.machine_text and is_prose(await self._sample())
            return estimate_from_bytes(await self.byte_length(), prose=prose)
        total = 0
        for part in await self._line_ranges():
            # The newline between two parts is part of the text.
            joint = "\n" if part.start else ""
            total += count(joint + "\n".join(await self._lines(part.start, part.stop)))
        return total

    async def as_bytes(self) -> bytes:
        """Return all bytes as they were written."""
        whole = await await_if_needed(cast("bytes | str", self._reader.read_all()))
        return encode_text(whole) if isinstance(whole, str) else bytes(whole)

    async def as_text(self) -> str:
        """Return the whole text; a byte order mark is dropped, invalid bytes become U+FFFD."""
        return decode_text(await self.as_bytes(), at_start=True)

    async def first_bytes(self, count: int) -> bytes:
        """Return the first `count` bytes, without reading the rest if the reader can stream."""
        stream = getattr(self._reader, "chunks", None)
        if not callable(stream):
            return (await self.as_bytes())[:count]
        found = b""
        async with aclosing(cast("AsyncGenerator[bytes, None]", stream(count))) as chunks:
            async for chunk in chunks:
                found += chunk
                if len(found) >= count:
                    break
        return found[:count]

    async def char_count(self) -> int:
        """Count the characters of `as_text()`, without loading all of it if the reader can stream."""
        stream = getattr(self._reader, "chunks", None)
        if not callable(stream):
            return len(await self.as_text())
        decoder, count, is_marked = getincrementaldecoder("utf-8")("replace"), 0, False
        async with aclosing(cast("AsyncGenerator[bytes, None]", stream())) as chunks:
            async for chunk in chunks:
                text = decoder.decode(chunk)
                is_marked = is_marked or (not count and text.startswith("\ufeff"))
                count += len(text)
        return count + len(decoder.decode(b"", final=True)) - is_marked

    async def _lines(self, start: int, end: int) -> list[str]:
        """Read lines `start` to `end`, clamped; lines that the reader does not have are skipped."""
        start, end = max(start, 0), min(end, await self.line_count())
        if start >= end:
            return []
        native = getattr(self._reader, "read_lines", None)
        if callable(native):
            return list(await await_if_needed(cast("list[str]", native(start, end))))
        lines = [await await_if_needed(self._reader.line(i)) for i in range(start, end)]
        return [line for line in lines if line is not None]

    async def _line_ranges(self) -> Iterator[range]:
        """Split all lines into ranges of about 1 MiB, for queries that scan every line."""
        count, size = await self.line_count(), await self.byte_length()
        step = max(1, min(50_000, count * _BLOCK_BYTES // max(size, 1)))
        return (range(start, min(start + step, count)) for start in range(0, count, step))

    async def _sample(self) -> str:
        count = await self.line_count()
        lines = await self._lines(0, 50) + await self._lines(max(50, count // 2), count // 2 + 50)
        return "\n".join(line[:1000] for line in lines)[:_SAMPLE_CHARS]


async def await_if_needed(value: Awaitable[T] | T) -> T:
    """Return a value, awaiting it if needed: third-party readers may be synchronous."""
    return await value if isawaitable(value) else cast("T", value)
