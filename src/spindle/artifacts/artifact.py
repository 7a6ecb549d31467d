"""The `Artifact` class: a read-only, line-oriented view of a large output."""

from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from inspect import isawaitable
from typing import Annotated, Any, Self, TypeAlias, TypeGuard, TypeVar, cast

from annotated_types import Ge, Le, MinLen

from spindle import artifacts
from spindle.artifacts.forge import ForgeContext, forge
from spindle.artifacts.queries import Bounds, query
from spindle.artifacts.readers import DIALECT, Match, Search, SpoolReader, decode_text, encode_text, is_instance
from spindle.artifacts.tokens import estimate_from_text, find_counter, known_encodings
from spindle.errors import InvalidArtifactError, NotASpoolReaderError
from spindle.json_types import JsonObject, JsonValue
from spindle.tools.registry import ToolRegistry

T = TypeVar("T")
MaybeAwaitable: TypeAlias = Awaitable[T] | T
"""What a method of a third-party reader returns, which may be synchronous."""

LineNumber: TypeAlias = Annotated[int | None, Ge(0)]
Column: TypeAlias = Annotated[int | None, Ge(0)]
Count: TypeAlias = Annotated[int, Ge(1)]

_READER_METHODS = ("line", "byte_length", "line_count", "read_all")
_BLOCK_BYTES = 1 << 20
_SAMPLE_BYTES = 1 << 16
_PASSAGES, _PASSAGE_LINES = 16, 100
_PAGING = "page with artifact_cat, giving start and end"


def _clamp_count(args: JsonObject, bounds: Bounds) -> JsonObject:
    return args | {"n": min(args["n"], bounds.max_items + 1)}


def clamp_range(args: JsonObject, bounds: Bounds) -> JsonObject:
    """Limit the range `start` to `end` to one item more than an answer can show."""
    furthest = (args["start"] or 0) + bounds.max_items + 1
    return args | {"end": furthest if args["end"] is None else min(args["end"], furthest)}


def _clamp_cat(args: JsonObject, bounds: Bounds) -> JsonObject:
    lines = {"start": args["start"], "end": args["end"]}
    first, last = args["start_char"], args["end_char"]
    if first is None and last is None:
        return clamp_range(lines, bounds)
    if lines["end"] is None:
        lines["end"] = (lines["start"] or 0) + 1
    furthest = (first or 0) + bounds.max_chars + 1
    chars = {"start_char": first, "end_char": furthest if last is None else min(last, furthest)}
    return clamp_range(lines, bounds) | chars


def _read_on_in_line(args: Mapping[str, JsonValue], bounds: Bounds) -> str | None:
    if args.get("start_char") is None and args.get("end_char") is None:
        return None
    return f"ask again with start_char={(args.get('start_char') or 0) + bounds.max_chars}"


def _clamp_grep(args: JsonObject, bounds: Bounds) -> JsonObject:
    limit = args["limit"] or bounds.max_items + 1
    return args | {"limit": min(limit, bounds.max_items + 1)}


def _show_lines(artifact: "Artifact", bounds: Bounds) -> object:
    return artifacts.LineView(artifact, bounds)


class Artifact:
    """A lazy, read-only, line-oriented view of a reader's content; lines are numbered from 0.

    Raises:
        NotASpoolReaderError: The reader lacks one of the four methods of `SpoolReader`.
    """

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
        if not is_instance(text, str):
            kind = type(text).__name__
            raise InvalidArtifactError(f"Expected text (str), got {kind}; use from_bytes for bytes", field="text")
        return cls.from_bytes(encode_text(text), **options)

    @classmethod
    def from_bytes(cls, data: bytes, **options: Any) -> Self:
        """Create an artifact from bytes in memory; `options` are passed to the class.

        Raises:
            InvalidArtifactError: `data` is not bytes-like.
        """
        if not is_instance(data, bytes | bytearray | memoryview):
            kind = type(data).__name__
            raise InvalidArtifactError(f"Expected bytes, got {kind}; use from_text for text", field="data")
        return cls(artifacts.BytesReader(data), **options)

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
        match getattr(self._reader, "size", None):
            case (int(byte_length), int(line_count)):
                return f"<{type(self).__name__} of {byte_length:,} bytes, {line_count:,} lines>"
            case _:
                return f"<{type(self).__name__} of {type(self._reader).__name__}, size unknown>"

    @query("artifact_head", "Read the first lines.", rest=_PAGING, clamp=_clamp_count, view=_show_lines)
    async def head(self, n: Count = 10) -> list[str]:
        """Return the first `n` lines."""
        return await self._lines(0, n)

    @query(
        "artifact_tail",
        "Read the last lines.",
        rest=_PAGING,
        clamp=_clamp_count,
        from_end=True,
        view=_show_lines,
    )
    async def tail(self, n: Count = 10) -> list[str]:
        """Return the last `n` lines, in order."""
        count = await self.line_count()
        return await self._lines(count - n, count) if n > 0 else []

    @query(
        "artifact_grep",
        "Find lines by a regular expression. Answers `line: text`, or `line, char n: part` of a long line, from 0; "
        "before and after add context. Dialect: " + DIALECT + ".",
        rest="make the pattern more specific, or read on from a line with artifact_cat",
        clamp=_clamp_grep,
        view=_show_lines,
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
        return await self.search(wanted)

    @query(
        "artifact_cat",
        "Read lines start to end (excluded), from 0, or chars start_char to end_char of line start.",
        rest="ask again with start={next}",
        clamp=_clamp_cat,
        view=_show_lines,
        read_on=_read_on_in_line,
    )
    async def cat(
        self, start: LineNumber = None, end: LineNumber = None, start_char: Column = None, end_char: Column = None
    ) -> list[str]:
        """Return lines `start` to `end` (half-open); values out of range are clamped, never counted from the end.

        With `start_char` or `end_char`, return that range of characters of each line; `end` is then the next line
        unless it is given.
        """
        first = max(start or 0, 0)
        if start_char is None and end_char is None:
            return await self._lines(first, await self.line_count() if end is None else end)
        last = min(first + 1 if end is None else end, await self.line_count())
        parts = [await self._chars(line, max(start_char or 0, 0), end_char) for line in range(first, last)]
        return [part for part in parts if part is not None]

    @query("artifact_byte_length", "Count the bytes.")
    async def byte_length(self) -> int:
        """Count the bytes."""
        return await await_if_needed(self._reader.byte_length())

    @query("artifact_line_count", "Count the lines.")
    async def line_count(self) -> int:
        """Count the lines."""
        return await await_if_needed(self._reader.line_count())

    @query(
        "artifact_estimate_tokens",
        "Estimate the tokens of the whole text; encoding is optional.",
        choices={"encoding": known_encodings},
    )
    async def estimate_tokens(self, encoding: str | None = None) -> int:
        """Estimate the tokens of the whole text, or count them where a counter is registered for `encoding`.

        Raises:
            ArtifactQueryError: The encoding is unknown.
        """
        count = find_counter(encoding)
        if count is None:
            return await self._estimate_tokens()
        total = 0
        for part in await self._line_ranges():
            # The newline between two parts is part of the text.
            joint = "\n" if part.start else ""
            total += count(joint + "\n".join(await self._lines(part.start, part.stop)))
        return total

    async def search(self, wanted: Search) -> list[Match]:
        """Return the matching lines in order, with their context.

        Raises:
            ArtifactQueryError: The pattern or a flag is not supported by the dialect.
        """
        native: Callable[[Search], MaybeAwaitable[list[Match]]] | None = getattr(self._reader, "search", None)
        if callable(native):
            return await await_if_needed(native(wanted))
        return await artifacts.LineView(self).search(wanted, await self._line_ranges())

    async def as_bytes(self) -> bytes:
        """Return all bytes as they were written."""
        whole = await await_if_needed(self._reader.read_all())
        return encode_text(whole) if isinstance(whole, str) else bytes(whole)

    async def as_text(self) -> str:
        """Return the whole text; a byte order mark is dropped, invalid bytes become U+FFFD."""
        return decode_text(await self.as_bytes(), at_start=True)

    async def first_bytes(self, count: int) -> bytes:
        """Return the first `count` bytes, without reading the rest if the reader can stream."""
        stream: Callable[..., AsyncGenerator[bytes]] | None = getattr(self._reader, "chunks", None)
        if not callable(stream):
            return (await self.as_bytes())[:count]
        found = b""
        async with aclosing(stream(count)) as chunks:
            async for chunk in chunks:
                found += chunk
                if len(found) >= count:
                    break
        return found[:count]

    async def char_count(self) -> int:
        """Count the characters of `as_text()`, without loading all of it if the reader can stream."""
        stream: Callable[..., AsyncGenerator[bytes]] | None = getattr(self._reader, "chunks", None)
        if not callable(stream):
            return len(await self.as_text())
        decoder, count, is_marked = getincrementaldecoder("utf-8")("replace"), 0, False
        async with aclosing(stream()) as chunks:
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
        native: Callable[[int, int], MaybeAwaitable[list[str]]] | None = getattr(self._reader, "read_lines", None)
        if callable(native):
            return list(await await_if_needed(native(start, end)))
        lines = [await await_if_needed(self._reader.line(i)) for i in range(start, end)]
        return [line for line in lines if line is not None]

    async def _chars(self, line: int, start: int, end: int | None) -> str | None:
        native: Callable[[int, int, int | None], Awaitable[str | None]] | None
        native = getattr(self._reader, "read_chars", None)
        if callable(native):
            return await native(line, start, end)
        text = await await_if_needed(self._reader.line(line))
        return None if text is None else text[start : None if end is None else max(end, 0)]

    async def _line_ranges(self) -> Iterator[range]:
        """Split all lines into ranges of about 1 MiB, for queries that scan every line."""
        count, size = await self.line_count(), await self.byte_length()
        step = max(1, min(50_000, count * _BLOCK_BYTES // max(size, 1)))
        return (range(start, min(start + step, count)) for start in range(0, count, step))

    async def _estimate_tokens(self) -> int:
        """Estimate the tokens of a short text from all of it, of a long one from passages spread over it."""
        size = await self.byte_length()
        if size <= _SAMPLE_BYTES:
            return estimate_from_text(await self.as_bytes())
        count = await self.line_count()
        starts = sorted({count * part // _PASSAGES for part in range(_PASSAGES)})
        room = _SAMPLE_BYTES // len(starts)
        passages = [
            await self._lines(start, start + min(max(1, room * count // size), _PASSAGE_LINES)) for start in starts
        ]
        sample = b"\n".join(encode_text("\n".join(lines)[:room]) for lines in passages)
        return estimate_from_text(sample) * size // max(len(sample), 1)


async def await_if_needed(value: MaybeAwaitable[T]) -> T:
    """Return a value, awaiting it if needed: third-party readers may be synchronous."""
    return await value if isawaitable(value) else cast("T", value)
