"""JSON artifacts: parsing of JSON, JSON5 and JSON Lines, and queries by JSONPath."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Self, TypeAlias, TypeVar, get_args

from annotated_types import MinLen

from spindle.artifacts.artifact import Artifact, LineNumber, clamp_range
from spindle.artifacts.json_records import (
    BLOCK_BYTES,
    JsonContent,
    JsonLines,
    Line,
    collect_keys,
    count_records,
    load_beginning,
    load_items,
    load_value,
    parse_json,
    parse_record,
    slice_records,
    take_sample,
)
from spindle.artifacts.json_stream import JsonDocument, KnownPlaces, LargeArray, LargeObject, ReadBytes
from spindle.artifacts.queries import query
from spindle.artifacts.readers import SpoolReader, decode_text
from spindle.concurrency import spool_threads
from spindle.errors import InvalidArtifactError
from spindle.extras import needs_extra
from spindle.json_types import JsonValue, is_array

__all__ = ["JsonArtifact", "is_json", "parse_document", "parse_json", "parse_json5", "parse_record"]

if TYPE_CHECKING:
    from spindle.artifacts.json_path import PathLimits, PathQuery


JsonFormat: TypeAlias = Literal["json", "json5", "jsonl", "ndjson"]

JSON_FORMATS: Final[tuple[JsonFormat, ...]] = get_args(JsonFormat)

MAX_JSON5_CHARS: Final = 256 * 1024
"""The JSON5 parser reads about 30 kB per second; longer documents would delay a turn."""


def is_json(text: str) -> bool:
    """Return whether a text is one strict JSON value."""
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


def parse_document(text: str) -> JsonValue:
    """Parse a whole document.

    Raises:
        InvalidArtifactError: The text is not strict JSON.
    """
    try:
        return parse_json(text)
    except ValueError as error:
        raise InvalidArtifactError(f"the content is not one JSON document: {error}") from error


def parse_json5(text: str) -> JsonValue:
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

_INLINE_BYTES = 16_384
_NARROW = "make the path more specific, for example with a slice such as [100:200]"
_DIALECT = "The path is RFC 9535 JSONPath, such as $.items[?@.price > 10].name."


class JsonArtifact(Artifact):
    """JSON as one document (`json`, `json5`) or one record per line (`jsonl`, `ndjson`).

    Without a format it is detected from the content: a strict document is `json`, otherwise strict lines are `jsonl`,
    otherwise `json5`. The records are the lines, the items of a document that is an array, or the one document. Lines
    and the members of large documents are read as they are needed, so their number does not matter.

    Raises:
        InvalidArtifactError: The format is not one of the four.
    """

    max_document_bytes: ClassVar[int] = 128 << 20
    """A larger value is not returned whole: it takes many times its size in memory. Ask for its parts with a path."""
    path_limits: ClassVar["PathLimits | None"] = None
    """The work limits of a path; `None` uses the defaults of `PathLimits`."""

    def __init__(self, reader: SpoolReader, format: JsonFormat | None = None) -> None:
        super().__init__(reader)
        if format is not None and format not in JSON_FORMATS:
            raise InvalidArtifactError(
                f"format must be one of {', '.join(JSON_FORMATS)}, got {format!r}", field="format"
            )
        self._format: JsonFormat | None = format
        self._root: list[object] = []
        self._known_places = KnownPlaces()
        self._count: int | None = None

    def over(self, reader: SpoolReader) -> Self:
        """Return an artifact of the same type and options for another reader."""
        return type(self)(reader, self._format)

    @query("artifact_json_type", "Get the format: json, json5, jsonl or ndjson.")
    async def json_type(self) -> JsonFormat:
        """Return the format, as passed or as detected from the content.

        Raises:
            InvalidArtifactError: The content has none of the formats.
        """
        if self._format is None:
            detected = await self._run(self._detect_strict_format)
            self._format = await self._detect_json5(detected) if isinstance(detected, Exception) else detected
        return self._format

    @query(
        "artifact_json_keys",
        "List the keys of the root object, or of all records together.",
        rest="look at single records with artifact_json_slice",
        hidden={"limit": "max_items"},
    )
    async def keys(self, *, limit: int | None = None) -> list[str] | None:
        """Return the keys of the root object, or of all object records in first-seen order; `None` without objects."""
        await self.json_type()
        return await self._run(lambda content: collect_keys(self._open_records(content), limit))

    @query(
        "artifact_json_length",
        "Count the records: lines of JSON Lines, or items of an array; an object counts as 1.",
    )
    async def length(self) -> int:
        """Count the records: the lines that are not blank, or the items of a document that is an array, otherwise 1."""
        await self.json_type()
        if self._count is None:
            self._count = await self._run(lambda content: count_records(self._open_records(content)))
        return self._count

    @query(
        "artifact_json_get",
        f"Find all values at a path, in each record of JSON Lines. {_DIALECT}",
        rest=_NARROW,
        hidden={"limit": "max_items", "max_chars": "max_chars"},
    )
    async def get(
        self, path: JsonPathText, *, limit: int | None = None, max_chars: int | None = None
    ) -> list[JsonValue]:
        """Return the values that a JSONPath selects in the document, or in all lines.

        With `max_chars`, what follows the first `max_chars` characters of a value is left out.

        Raises:
            ArtifactQueryError: The path is not RFC 9535, or exceeds the work limits.
        """
        return await self._collect(path, _find_values, limit, max_chars)

    @query(
        "artifact_json_filter",
        "Find the records with something at a path: lines of JSON Lines, or items of an array ($[?@.price > 10]).",
        rest=_NARROW,
        hidden={"limit": "max_items", "max_chars": "max_chars"},
    )
    async def filter(
        self, path: JsonPathText, *, limit: int | None = None, max_chars: int | None = None
    ) -> list[JsonValue]:
        """Return the whole records in which a JSONPath selects anything; a path begins at the line or the document.

        With `max_chars`, what follows the first `max_chars` characters of a record is left out.

        Raises:
            ArtifactQueryError: The path is not RFC 9535, or exceeds the work limits.
        """
        return await self._collect(path, _find_records, limit, max_chars)

    @query(
        "artifact_json_pluck",
        "Collect one field of every record, by a path as in artifact_json_get.",
        rest=_NARROW,
        hidden={"limit": "max_items", "max_chars": "max_chars"},
    )
    async def pluck(
        self, path: JsonPathText, *, limit: int | None = None, max_chars: int | None = None
    ) -> list[JsonValue]:
        """Return the same values as `get`.

        Raises:
            ArtifactQueryError: The path is not RFC 9535, or exceeds the work limits.
        """
        return await self.get(path, limit=limit, max_chars=max_chars)

    @query(
        "artifact_json_slice",
        "Read the records start to end (not included), counted from 0; a document that is an object is returned whole.",
        rest="ask again with start={next}; of a single object ask for a part with artifact_json_get",
        clamp=clamp_range,
        hidden={"max_chars": "max_chars"},
        none_is_absent=False,
    )
    async def slice(
        self, start: LineNumber = None, end: LineNumber = None, *, max_chars: int | None = None
    ) -> JsonValue:
        """Return the records `start` to `end`, as in a list slice; of any other document, the root.

        With `max_chars`, what follows the first `max_chars` characters of the answer is left out.
        """
        await self.json_type()

        def work(content: JsonContent) -> JsonValue:
            records = self._open_records(content)
            part = slice_records(records, start, end)
            if part is None:
                return self._load(records, max_chars)
            return load_items(part, self.max_document_bytes) if max_chars is None else load_beginning(part, max_chars)

        return await self._run(work)

    async def _collect(
        self,
        path: str,
        find: "Callable[[PathQuery, object], Iterator[object]]",
        limit: int | None,
        max_chars: int | None,
    ) -> list[JsonValue]:
        await self.json_type()

        def work(content: JsonContent) -> list[JsonValue]:
            asked = _build_path_query(path, self.path_limits, content.check)
            records = self._open_records(content.guarded_by(asked.check))
            return [self._load(value, max_chars) for value in islice(find(asked, records), limit)]

        return await self._run(work, is_slow=True)

    def _load(self, value: object, max_chars: int | None) -> JsonValue:
        return load_value(value, self.max_document_bytes) if max_chars is None else load_beginning(value, max_chars)

    def _open_records(self, content: JsonContent) -> object:
        """Return the lines, or the root of the document."""
        if self._format in ("jsonl", "ndjson"):
            return JsonLines(content.read, content.byte_length)
        if not self._root:
            is_json5 = self._format == "json5"
            self._root = [parse_json5(content.decode_all()) if is_json5 else self._load_document(content)]
        root = self._root[0]
        if isinstance(root, LargeArray | LargeObject):
            return root.over(JsonDocument(content.read, content.byte_length, self._known_places))
        return root

    def _load_document(self, content: JsonContent) -> object:
        if content.byte_length <= BLOCK_BYTES:
            return parse_document(content.decode_all())
        return JsonDocument(content.read, content.byte_length, self._known_places).load()

    def _detect_strict_format(self, content: JsonContent) -> JsonFormat | InvalidArtifactError:
        """Return the format, or why the content is neither a strict document nor strict lines."""
        lines = JsonLines(content.read, content.byte_length)
        sample = take_sample(lines)
        # A complete value followed by another is never one document, so the first lines are enough to decide.
        if len(sample) > 1 and is_json(decode_text(sample[0][2])):
            return _check_lines(lines, sample)
        try:
            self._root = [self._load_document(content)]
        except InvalidArtifactError as error:
            has_long_lines = len(sample) == 1 and len(sample[0][2]) >= BLOCK_BYTES
            return _check_lines(lines, list(islice(lines.lines(), 2))) if has_long_lines else error
        return "json"

    async def _detect_json5(self, strict_error: InvalidArtifactError) -> JsonFormat:
        if await self.byte_length() > MAX_JSON5_CHARS:
            raise strict_error
        self._root = [await self._run(lambda content: _try_json5(content, strict_error), is_slow=True)]
        return "json5"

    async def _run(self, work: "Callable[[JsonContent], T]", *, is_slow: bool = False) -> T:
        """Run blocking work on the content in a thread, which ends soon after a cancellation."""
        size = await self.byte_length()
        read: ReadBytes | None = getattr(self.reader, "read_range", None)
        content = JsonContent(read, size) if read else JsonContent.of_bytes(await self.as_bytes())
        # Parsing little text takes less time than a thread switch; JSON5 and paths are slow at any size.
        if size <= _INLINE_BYTES and not is_slow and self._format != "json5":
            return work(content)
        try:
            return await spool_threads.run_abandonable(work, content)
        finally:
            content.is_closed = True


def _try_json5(content: JsonContent, strict_error: InvalidArtifactError) -> JsonValue:
    try:
        return parse_json5(content.decode_all())
    except InvalidArtifactError as error:
        raise InvalidArtifactError(f"{error}; as strict JSON: {strict_error}") from strict_error


def _check_lines(lines: JsonLines, sample: list[Line]) -> JsonFormat | InvalidArtifactError:
    try:
        for line in sample:
            lines.parse(*line)
    except InvalidArtifactError as error:
        return error
    return "jsonl"


def _build_path_query(path: str, limits: "PathLimits | None", interrupt: Callable[[], None]) -> "PathQuery":
    with needs_extra("json"):
        from spindle.artifacts.json_path import PathQuery  # noqa: PLC0415 - an extra
    return PathQuery(path, limits, interrupt=interrupt)


def _find_values(asked: "PathQuery", records: object) -> Iterator[object]:
    return asked.find_values(records.records() if isinstance(records, JsonLines) else (records,))


def _find_records(asked: "PathQuery", records: object) -> Iterator[object]:
    if isinstance(records, LargeArray) or is_array(records):
        return asked.find_items(records)
    return asked.find_records(records.records() if isinstance(records, JsonLines) else (records,))
