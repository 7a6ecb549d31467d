"""Endpoints of artifacts: the list, lines, bytes, search, JSON, Markdown, tables, and the download."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote, urlencode

from pydantic import AwareDatetime, Field, RootModel
from starlette.responses import Response, StreamingResponse

from spindle.artifacts.block_reader import BlockReader
from spindle.artifacts.browsing import (
    ContentFacts,
    LinePage,
    LinePiece,
    SearchPage,
    find_line,
    read_bytes,
    read_page,
    read_piece,
    search_page,
)
from spindle.artifacts.readers import Search
from spindle.artifacts.spool import NoteStamp, SpoolEntry
from spindle.concurrency import spool_threads
from spindle.errors import InvalidRequestError, UnknownItemError
from spindle.inspector.api.artifact_formats import FORMATS, MAX_ID_CHARS, Byte, OneArtifact, open_artifact
from spindle.inspector.approval_feeds import may_see
from spindle.inspector.endpoints import PREFIX, ApiModel, ApiRequest, Endpoint, NoInput, read
from spindle.inspector.live import Feed
from spindle.inspector.reading_slots import queries, reads
from spindle.inspector.responses import run_while_connected
from spindle.inspector.visibility import may_see_artifact
from spindle.journal.summaries import CallQuery
from spindle.json_types import JsonObject
from spindle.text import escape_surrogates, to_encodable, unescape_surrogates

_DOWNLOAD: Final = "/artifacts/download"
_DOWNLOAD_BYTES: Final = 1 << 20

Count = Annotated[int, Field(ge=1, le=1000)]


class ListParams(ApiModel):
    """Which artifacts to list."""

    text: Annotated[str, Field(max_length=500)] = ""
    """A part of the id, or of the id of its turn."""
    cursor: Annotated[str, Field(max_length=MAX_ID_CHARS)] = ""
    limit: Annotated[int, Field(ge=1, le=500)] = 100


class ArtifactEntry(ApiModel):
    """One artifact of the spool."""

    id: str
    turn_id: str | None
    byte_length: int
    created_at: AwareDatetime


class ArtifactList(ApiModel):
    """Artifacts, newest first; with a filter or a profile, a page may be empty and not be the last."""

    artifacts: tuple[ArtifactEntry, ...]
    next_cursor: str | None
    count: int | None
    """How many the spool has, whatever the filter; `None` for the login of a profile, which sees a part of them."""


class ArtifactFacts(ArtifactEntry):
    """One artifact, and what it holds."""

    facts: ContentFacts


class ArtifactCall(ApiModel):
    """A call whose result was stored as an artifact."""

    key: str
    """Identifies the call in the journal."""
    tool: str
    started_at: AwareDatetime


class ArtifactCalls(ApiModel):
    """The calls that stored an artifact, newest first, as far as the journal was read."""

    calls: tuple[ArtifactCall, ...]


class LineParams(OneArtifact):
    """Which lines: from a line, or from the line at a byte or at a percentage of the content."""

    line: Byte = 0
    byte: Byte | None = None
    percent: Annotated[float, Field(ge=0, le=100)] | None = None
    count: Count = 200


class LineAnswer(RootModel[LinePage]):
    """Lines in order."""


class PieceParams(OneArtifact):
    """Which part of a line, or which bytes."""

    byte: Byte = 0
    count: Annotated[int, Field(ge=16, le=1 << 16)] = 1 << 14


class PieceAnswer(RootModel[LinePiece]):
    """A part of one line."""


class HexPage(ApiModel):
    """Bytes as hexadecimal digits."""

    start: int
    data: str
    byte_length: int


class DownloadParams(OneArtifact):
    """Which artifact to download."""

    grant: Annotated[str, Field(max_length=200)] = ""
    """Of `/artifacts/address`; it must be the last parameter, and takes the place of the header."""


class DownloadAddress(ApiModel):
    """Where this login can download one artifact for a minute."""

    path: str


class SearchParams(OneArtifact):
    """What to find; `byte` is the `next_byte` of the page before."""

    pattern: Annotated[str, Field(min_length=1, max_length=2000)]
    flags: Literal["", "i"] = ""
    before: Annotated[int, Field(ge=0, le=20)] = 0
    after: Annotated[int, Field(ge=0, le=20)] = 0
    byte: Byte = 0


class SearchAnswer(RootModel[SearchPage]):
    """Hits, and where to go on."""


async def list_artifacts(request: ApiRequest[ListParams, NoInput]) -> ArtifactList:
    """List the artifacts of the spool."""
    params, text = request.params, request.params.text.lower()

    bench, user = request.bench, request.user

    async def is_wanted(entry: SpoolEntry) -> bool:
        is_match = text in entry.id.lower() or text in (entry.turn_id or "").lower()
        return is_match and await may_see_artifact(bench, user, entry)

    async with reads.get().take(user):
        page = await bench.artifacts.listing.read_page(
            after=_parse_stamp(params.cursor),
            count=params.limit,
            is_wanted=is_wanted if text or user.profile is not None else None,
        )
    return ArtifactList(
        artifacts=tuple(ArtifactEntry(**_describe(entry)) for entry in page.entries),
        next_cursor=None if page.next is None else f"{page.next.written_at!r} {escape_surrogates(page.next.name)}",
        count=page.count if user.profile is None else None,
    )


def _describe(entry: SpoolEntry) -> JsonObject:
    return {
        "id": escape_surrogates(entry.id),
        "turn_id": None if entry.turn_id is None else to_encodable(entry.turn_id),
        "byte_length": entry.byte_length,
        "created_at": _to_time(entry.created_at),
    }


def _to_time(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):  # whatever a note says
        return datetime.fromtimestamp(0, UTC)


def _parse_stamp(cursor: str) -> NoteStamp | None:
    if not cursor:
        return None
    written_at, _, name = cursor.partition(" ")
    try:
        return NoteStamp(float(written_at), unescape_surrogates(name))
    except ValueError:
        raise InvalidRequestError("expected a cursor of the page before", field="cursor") from None


async def describe(request: ApiRequest[OneArtifact, NoInput]) -> ArtifactFacts:
    """Describe an artifact."""
    artifact = await open_artifact(request)
    entry = await request.bench.artifacts.listing.find(artifact.id)
    if entry is None:
        raise UnknownItemError("the artifact was deleted", field="id")
    return ArtifactFacts(**_describe(entry), facts=artifact.facts)


async def find_calls(request: ApiRequest[OneArtifact, NoInput]) -> ArtifactCalls:
    """Find the calls that stored an artifact, in the journal."""
    query = CallQuery(artifact_id=unescape_surrogates(request.params.id))
    found = await request.bench.journal.search(query, limit=5)
    return ArtifactCalls(
        calls=tuple(
            ArtifactCall(key=escape_surrogates(call.idempotency_key), tool=call.tool, started_at=call.started_at)
            for call in found.calls
            if may_see(request.bench, request.user, call.tool)
        )
    )


async def read_lines(request: ApiRequest[LineParams, NoInput]) -> LineAnswer:
    """Read lines from a place on."""
    params, content = request.params, (await open_artifact(request)).content

    def work() -> LinePage:
        line = params.line
        if params.percent is not None:
            line = find_line(content, int(content.index.byte_length * params.percent / 100))
        elif params.byte is not None:
            line = find_line(content, params.byte)
        return read_page(content, line, params.count)

    async with reads.get().take(request.user):
        return LineAnswer(await spool_threads.run(work))


async def read_line_piece(request: ApiRequest[PieceParams, NoInput]) -> PieceAnswer:
    """Read a part of a long line."""
    params, content = request.params, (await open_artifact(request)).content
    async with reads.get().take(request.user):
        return PieceAnswer(await spool_threads.run(read_piece, content, params.byte, params.count))


async def read_hex(request: ApiRequest[PieceParams, NoInput]) -> HexPage:
    """Read bytes."""
    params, content = request.params, (await open_artifact(request)).content
    async with reads.get().take(request.user):
        page = await spool_threads.run(read_bytes, content, params.byte, params.count)
    return HexPage(start=page.start, data=page.data.hex(), byte_length=page.byte_length)


async def search(request: ApiRequest[SearchParams, NoInput]) -> SearchAnswer:
    """Search from a byte on, within limits."""
    params, content = request.params, (await open_artifact(request)).content
    query = Search(pattern=params.pattern, flags=params.flags, before=params.before, after=params.after)

    async def work() -> SearchPage:
        async with queries.get().take(request.user):
            return await search_page(content, query, start_byte=params.byte)

    return SearchAnswer(await run_while_connected(request.http, work))


async def find_address(request: ApiRequest[OneArtifact, NoInput]) -> DownloadAddress:
    """Return an address that a browser can open as a link, which sends no header; only this login may use it."""
    artifact = await open_artifact(request)
    query = urlencode({"id": escape_surrogates(artifact.id)})
    return DownloadAddress(path=request.grant(f"{PREFIX}{_DOWNLOAD}?{query}"))


async def download(request: ApiRequest[DownloadParams, NoInput]) -> Response:
    """Stream an artifact as a file, which no browser opens."""
    artifact = await open_artifact(request)
    name = _to_file_name(artifact.id)
    headers = {
        "Content-Disposition": f"attachment; filename=\"{name}\"; filename*=UTF-8''{quote(name, safe='')}",
        "Content-Length": str(artifact.content.index.byte_length),
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    return StreamingResponse(_stream(artifact.content), media_type="application/octet-stream", headers=headers)


async def _stream(content: BlockReader) -> AsyncGenerator[bytes]:
    size = content.index.byte_length
    for start in range(0, size, _DOWNLOAD_BYTES):
        yield await spool_threads.run(content.read_range, start, min(start + _DOWNLOAD_BYTES, size))


def _to_file_name(id: str) -> str:
    """Return a harmless file name from the end of an id."""
    last = id.rstrip("/").rpartition("/")[2]
    kept = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "_" for letter in last)
    return kept[-80:].lstrip(".") or "artifact"


ENDPOINTS: Final[Sequence[Endpoint[Any, Any]]] = (
    read("/artifacts", list_artifacts, summary="List artifacts", params=ListParams, answer=ArtifactList),
    read("/artifacts/facts", describe, summary="Describe an artifact", params=OneArtifact, answer=ArtifactFacts),
    read("/artifacts/calls", find_calls, summary="Find its calls", params=OneArtifact, answer=ArtifactCalls),
    read("/artifacts/lines", read_lines, summary="Read lines", params=LineParams, answer=LineAnswer),
    read("/artifacts/piece", read_line_piece, summary="Read a part of a line", params=PieceParams, answer=PieceAnswer),
    read("/artifacts/bytes", read_hex, summary="Read bytes", params=PieceParams, answer=HexPage),
    read("/artifacts/search", search, summary="Search an artifact", params=SearchParams, answer=SearchAnswer),
    *FORMATS,
    read(
        "/artifacts/address", find_address, summary="Address of a download", params=OneArtifact, answer=DownloadAddress
    ),
    read(_DOWNLOAD, download, summary="Download an artifact", params=DownloadParams, answer=None),
)
FEEDS: Final[Mapping[str, Feed]] = {}
