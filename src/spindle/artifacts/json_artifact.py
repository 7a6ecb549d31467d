"""JSON artifacts: parsing of JSON, JSON5 and JSON Lines, and queries by JSONPath."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias, TypeVar, cast, get_args

import jiter
from annotated_types import MinLen
from anyio.to_thread import run_sync

from spindle.artifacts.artifact import Artifact, LineNumber, clamp_range
from spindle.artifacts.queries import query
from spindle.artifacts.readers import SpoolReader
from spindle.errors import InvalidArtifactError
from spindle.extras import needs_extra

if TYPE_CHECKING:
    from spindle.artifacts.json_path import PathLimits, PathQuery


JsonFormat: TypeAlias = Literal["json", "json5", "jsonl", "ndjson"]

JSON_FORMATS: Final[tuple[JsonFormat, ...]] = get_args(JsonFormat)

MAX_JSON5_CHARS: Final = 256 * 1024
"""The JSON5 parser reads about 30 kB per second; longer documents would delay a turn."""


def parse_json(text: str) -> Any:
    """Parse one strict JSON value; integers keep every digit, and the last of duplicate keys wins.

    Raises:
        ValueError: The text is not strict JSON; NaN and infinities are rejected.
    """
    try:
        return jiter.from_json(text.encode(), allow_inf_nan=False, cache_mode="keys")
    except UnicodeEncodeError as error:
        raise ValueError("a lone surrogate is not valid text") from error


def is_json(text: str) -> bool:
    """Return whether a text is one strict JSON value."""
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


def parse_document(text: str) -> Any:
    """Parse a whole document.

    Raises:
        InvalidArtifactError: The text is not strict JSON.
    """
    try:
        return parse_json(text)
    except ValueError as error:
        raise InvalidArtifactError(f"the content is not one JSON document: {error}") from error


def parse_record(text: str, line: int) -> Any:
    """Parse one line of JSON Lines.

    Raises:
        InvalidArtifactError: The line, numbered from 0 as in `cat`, is not strict JSON.
    """
    try:
        return parse_json(text)
    except ValueError as error:
        raise InvalidArtifactError(f"line {line} is not a JSON record: {error}") from error


def parse_json5(text: str) -> Any:
    """Parse a JSON5 document, which may have comments, unquoted keys, single quotes, NaN and infinities.

    Raises:
        InvalidArtifactError: The text is not JSON5, is nested too deeply, or is longer than `MAX_JSON5_CHARS`.
    """
    if len(text) > MAX_JSON5_CHARS:
        raise InvalidArtifactError(
            f"JSON5 is limited to {MAX_JSON5_CHARS} characters, this has {len(text)}; write it as strict JSON, "
            "or read it with head, grep and cat"
        )
    with needs_extra("json"):
        import json5  # noqa: PLC0415 - an extra
    try:
        return json5.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidArtifactError(f"the content is neither JSON, JSON Lines nor JSON5: {reason}") from error


T = TypeVar("T")
JsonPathText: TypeAlias = Annotated[str, MinLen(1)]

_SMALL_CHARS = 16_384
_SMALL_BYTES = 16 << 20
_NARROW = "make the path more specific, for example with a slice such as [100:200]"
_DIALECT = "The path is a JSONPath of RFC 9535, such as $.items[?@.price > 10].name; match() and search() take RE2."


class JsonArtifact(Artifact):
    """JSON as one document (`json`, `json5`) or one record per line (`jsonl`, `ndjson`).

    Without a format it is detected from the content: a strict document is `json`, otherwise strict lines are `jsonl`,
    otherwise `json5`. Lines are read on demand, so their number does not matter; a document is read whole.

    Raises:
        InvalidArtifactError: The format is not one of the four.
    """

    machine_text = True
    max_document_bytes: ClassVar[int] = 128 << 20
    """A larger document is rejected: parsing takes many times its size in memory."""
    path_limits: ClassVar["PathLimits | None"] = None
    """The work limits of a path; `None` uses the defaults of `PathLimits`."""

    def __init__(self, reader: SpoolReader, format: JsonFormat | None = None) -> None:
        super().__init__(reader)
        if format is not None and format not in JSON_FORMATS:
            raise InvalidArtifactError(
                f"format must be one of {', '.join(JSON_FORMATS)}, got {format!r}", field="format"
            )
        self._format: JsonFormat | None = format
        self._root: list[Any] = []
        self._count: int | None = None

    def over(self, reader: SpoolReader) -> Self:
        """Return an artifact of the same type and options for another reader."""
        return type(self)(reader, self._format)

    @query("artifact_json_type", "Get the format of a JSON artifact: json, json5, jsonl or ndjson.")
    async def json_type(self) -> JsonFormat:
        """Return the format, as passed or as detected from the content.

        Raises:
            InvalidArtifactError: The content has none of the formats.
        """
        if self._format is None:
            self._format = await self._detect_format()
        return self._format

    @query(
        "artifact_json_keys",
        "List the keys of a JSON artifact's root object, or of all its records together.",
        rest="look at single records with artifact_json_slice",
        hidden={"limit": "max_items"},
    )
    async def keys(self, *, limit: int | None = None) -> list[str] | None:
        """Return the keys of the root object, or of all object records in first-seen order; `None` without objects."""
        seen: dict[str, None] = {}
        for part in await self._parts():
            for record in await self._records_of(part):
                if isinstance(record, dict):
                    seen.update(dict.fromkeys(cast("dict[str, Any]", record)))
            if limit is not None and len(seen) >= limit:
                break
        if not seen and not (await self._is_document() and isinstance(self._root[0], dict)):
            return None
        return list(seen)[:limit]

    @query("artifact_json_length", "Count the records of a JSON artifact; a single document counts as 1.")
    async def length(self) -> int:
        """Count the records: 1 for a document, even if its root is an array, otherwise the lines that are not blank."""
        if await self._is_document():
            return 1
        if self._count is None:
            count = 0
            for part in await self._line_ranges():
                count += len(await self._non_blank_lines(part))
            self._count = count
        return self._count

    @query(
        "artifact_json_get",
        f"Find all values at a path in a JSON artifact, in each record of JSON Lines. {_DIALECT}",
        rest=_NARROW,
        hidden={"limit": "max_items"},
    )
    async def get(self, path: JsonPathText, *, limit: int | None = None) -> list[Any]:
        """Return the values that a JSONPath selects, over all records.

        Raises:
            ArtifactQueryError: The path is not RFC 9535, or exceeds the work limits.
        """
        return await self._collect(path, lambda record, left, asked: asked.select(record, left), limit)

    @query(
        "artifact_json_filter",
        f"Find the records of a JSON artifact in which a path finds something. {_DIALECT}",
        rest=_NARROW,
        hidden={"limit": "max_items"},
    )
    async def filter(self, path: JsonPathText, *, limit: int | None = None) -> list[Any]:
        """Return the whole records in which a JSONPath selects anything.

        Raises:
            ArtifactQueryError: The path is not RFC 9535, or exceeds the work limits.
        """
        return await self._collect(path, lambda record, _, asked: [record] if asked.select(record, 1) else [], limit)

    @query(
        "artifact_json_pluck",
        f"Collect one field of every record of a JSON artifact. {_DIALECT}",
        rest=_NARROW,
        hidden={"limit": "max_items"},
    )
    async def pluck(self, path: JsonPathText, *, limit: int | None = None) -> list[Any]:
        """Return the same values as `get`.

        Raises:
            ArtifactQueryError: The path is not RFC 9535, or exceeds the work limits.
        """
        return await self.get(path, limit=limit)

    @query(
        "artifact_json_slice",
        "Read the records start to end (not included) of JSON Lines, counted from 0; a document is returned whole.",
        rest="ask again with start={next}; of a single document ask for a part with artifact_json_get",
        clamp=clamp_range,
        none_is_absent=False,
    )
    async def slice(self, start: LineNumber = None, end: LineNumber = None) -> Any:
        """Return the records `start` to `end`, as in a list slice; for a document its root, whatever the range."""
        if await self._is_document():
            return self._root[0]
        last = None if end is None else await self._to_start_index(end)
        return await self._slice_lines(await self._to_start_index(start or 0), last)

    async def _to_start_index(self, position: int) -> int:
        return position if position >= 0 else max(0, await self.length() + position)

    async def _slice_lines(self, first: int, last: int | None) -> list[Any]:
        found: list[Any] = []
        position = 0
        for part in await self._line_ranges():
            if last is not None and position >= last:
                break
            filled = await self._non_blank_lines(part)
            stop = None if last is None else last - position
            found += [parse_record(line, number) for number, line in filled[max(first - position, 0) : stop]]
            position += len(filled)
        return found

    async def _collect(
        self, path: str, pick: "Callable[[Any, int | None, PathQuery], list[Any]]", limit: int | None
    ) -> list[Any]:
        with needs_extra("json"):
            from spindle.artifacts.json_path import PathQuery  # noqa: PLC0415 - an extra
        asked, found = PathQuery(path, self.path_limits), list[Any]()

        def work(records: list[Any]) -> None:
            for record in records:
                left = None if limit is None else limit - len(found)
                if left is not None and left <= 0:
                    return
                found.extend(islice(pick(record, left, asked), left))

        for part in await self._parts():
            await run_sync(work, await self._records_of(part), abandon_on_cancel=True)
            if limit is not None and len(found) >= limit:
                break
        return found

    async def _parts(self) -> Iterable[range | None]:
        """Return the ranges of lines to read records from; `None` stands for the document."""
        return [None] if await self._is_document() else await self._line_ranges()

    async def _records_of(self, part: range | None) -> list[Any]:
        if part is None:
            return self._root
        return await run_sync(_parse_lines, await self._non_blank_lines(part))

    async def _non_blank_lines(self, part: range) -> list[tuple[int, str]]:
        lines = await self._lines(part.start, part.stop)
        return [(number, line) for number, line in enumerate(lines, part.start) if line.strip()]

    async def _is_document(self) -> bool:
        """Return whether the content is one document rather than lines, and load it if so."""
        kind = await self.json_type()
        if kind in ("jsonl", "ndjson"):
            return False
        if not self._root:
            text = await self._document_text()
            self._root = [await _run(parse_document if kind == "json" else parse_json5, text)]
        return True

    async def _document_text(self) -> str:
        size = await self.byte_length()
        if size > self.max_document_bytes:
            raise InvalidArtifactError(
                f"this JSON document has {size} bytes, and at most {self.max_document_bytes} are read at once; "
                "read it with grep and cat, or write it as JSON Lines, which are read record by record"
            )
        return await self.as_text()

    async def _detect_format(self) -> JsonFormat:
        sample = [] if await self._has_giant_lines() else await self._first_records()
        # A complete value followed by another is never one document, so the first lines are enough to decide.
        if len(sample) > 1 and is_json(sample[0][1]):
            bad = next(((number, line) for number, line in sample if not is_json(line)), None)
            return "jsonl" if bad is None else await self._detect_with_comments(*bad)
        text = await self._document_text()
        try:
            self._root = [await _run(parse_document, text)]
        except InvalidArtifactError as error:
            await self._try_json5(text, error)
            return "json5"
        return "json"

    async def _has_giant_lines(self) -> bool:
        return await self.byte_length() > _SMALL_BYTES * max(await self.line_count(), 1)

    async def _first_records(self) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        for part in await self._line_ranges():
            found += await self._non_blank_lines(part)
            if len(found) > 1:
                break
        return found

    async def _detect_with_comments(self, number: int, line: str) -> JsonFormat:
        """Decide for content that begins as JSON Lines but has an invalid line: JSON5 may end in comments."""
        try:
            parse_record(line, number)
        except InvalidArtifactError as error:
            if await self.byte_length() > MAX_JSON5_CHARS:
                raise
            await self._try_json5(await self.as_text(), error)
        return "json5"

    async def _try_json5(self, text: str, strict_error: InvalidArtifactError) -> None:
        try:
            self._root = [await _run(parse_json5, text)]
        except InvalidArtifactError as error:
            raise InvalidArtifactError(f"{error}; as strict JSON: {strict_error}") from strict_error


async def _run(parse: Callable[[str], T], text: str) -> T:
    # Parsing a small text takes less time than a thread switch; JSON5 is slow at any size.
    if len(text) <= _SMALL_CHARS and parse is parse_document:
        return parse(text)
    return await run_sync(parse, text)


def _parse_lines(lines: list[tuple[int, str]]) -> list[Any]:
    return [parse_record(line, number) for number, line in lines]
