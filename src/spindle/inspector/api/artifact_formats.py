"""Endpoints of artifacts of a format: members of JSON, blocks of Markdown, rows of tables."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final

import anyio
from pydantic import Field, RootModel

from spindle.artifacts.browsing import JsonMembers, JsonPlace
from spindle.artifacts.browsing.markdown_pages import MarkdownOutline, MarkdownPage
from spindle.artifacts.table_artifact import TABLE_NAME
from spindle.concurrency import spool_threads
from spindle.errors import ArtifactQueryError, InvalidRequestError, UnknownItemError
from spindle.inspector.artifact_shelf import OpenArtifact
from spindle.inspector.endpoints import ApiModel, ApiRequest, Endpoint, NoInput, read
from spindle.inspector.reading_slots import queries, reads
from spindle.inspector.responses import run_while_connected
from spindle.inspector.visibility import may_see_artifact
from spindle.json_types import JsonValue
from spindle.text import to_encodable, unescape_surrogates

MAX_ID_CHARS: Final = 20_000
MAX_COPIED_TABLE_BYTES: Final = 256 << 20
"""A table that is not a file of this machine is copied for each query, up to this size."""
_PATH_SECONDS: Final = 20.0
_PATH_RESULTS: Final = 100
_PATH_CHARS: Final = 20_000

Byte = Annotated[int, Field(ge=0, le=1 << 53)]


class OneArtifact(ApiModel):
    """The id of an artifact."""

    id: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]


class TreeParams(OneArtifact):
    """Whose members: those of the value at a byte, or of the whole content."""

    byte: Annotated[int, Field(ge=-1, le=1 << 53)] = -1
    cursor: Annotated[str, Field(max_length=100)] = ""
    count: Annotated[int, Field(ge=1, le=500)] = 200


class TreeAnswer(ApiModel):
    """Members of a value; with `is_out_of_time` the cursor goes on inside of the last one."""

    members: JsonMembers
    next_cursor: str | None


class PathParams(OneArtifact):
    """A JSONPath of RFC 9535."""

    path: Annotated[str, Field(min_length=1, max_length=4000)]


class PathAnswer(ApiModel):
    """The first values at a path, each as JSON; the beginning of a long one."""

    values: tuple[str, ...]
    is_cut: bool


class MarkdownParams(OneArtifact):
    """The line at which a page begins."""

    line: Byte = 0


class OutlineAnswer(RootModel[MarkdownOutline]):
    """The headings."""


class MarkdownAnswer(RootModel[MarkdownPage]):
    """The blocks of a page."""


class TableParams(OneArtifact):
    """A SELECT in which the table is called `artifact`; without one, its first rows."""

    sql: Annotated[str, Field(max_length=8000)] = ""
    limit: Annotated[int, Field(ge=1, le=1000)] = 200


class TableAnswer(ApiModel):
    """Rows of a table."""

    columns: tuple[tuple[str, str], ...]
    """Names and types."""
    rows: tuple[tuple[JsonValue, ...], ...]
    is_cut: bool


async def list_members(request: ApiRequest[TreeParams, NoInput]) -> TreeAnswer:
    """List the members of a JSON value."""
    params, tree = request.params, (await open_artifact(request)).tree
    place = _parse_place(params.cursor)
    async with reads.get().take(request.user):
        members = await spool_threads.run(lambda: tree.list_members(params.byte, place=place, count=params.count))
    following = members.next
    cursor = None if following is None else f"{following.byte} {following.index} {int(following.is_after_value)}"
    return TreeAnswer(members=members, next_cursor=cursor)


def _parse_place(cursor: str) -> JsonPlace | None:
    if not cursor:
        return None
    try:
        byte, index, is_after_value = map(int, cursor.split(" "))
    except ValueError:
        raise InvalidRequestError("expected a cursor of the page before", field="cursor") from None
    if byte < 0 or index < 0:
        raise InvalidRequestError("expected a cursor of the page before", field="cursor")
    return JsonPlace(byte=byte, index=index, is_after_value=bool(is_after_value))


async def query_path(request: ApiRequest[PathParams, NoInput]) -> PathAnswer:
    """Find values by JSONPath; reads the whole content, within a time limit."""
    params, artifact = request.params, (await open_artifact(request)).json

    async def work() -> list[JsonValue]:
        async with queries.get().take(request.user):
            with anyio.move_on_after(_PATH_SECONDS):
                return await artifact.get(params.path, limit=_PATH_RESULTS + 1, max_chars=_PATH_CHARS)
        size = await artifact.byte_length()
        raise ArtifactQueryError(
            f"the path took longer than {_PATH_SECONDS:g} seconds on {size} bytes; browse the tree, or use the search",
            field="path",
        )

    found = await run_while_connected(request.http, work)
    texts: list[str] = []
    left = 4 * _PATH_CHARS
    for value in found[:_PATH_RESULTS]:
        text = to_encodable(json.dumps(value, ensure_ascii=False, indent=2))[:_PATH_CHARS]
        left -= len(text)
        if left < 0 and texts:
            break
        texts.append(text)
    return PathAnswer(values=tuple(texts), is_cut=len(texts) < len(found))


async def read_outline(request: ApiRequest[OneArtifact, NoInput]) -> OutlineAnswer:
    """Read the headings of a Markdown text."""
    pages = (await open_artifact(request)).pages
    async with reads.get().take(request.user):
        return OutlineAnswer(await spool_threads.run(pages.read_outline))


async def read_markdown(request: ApiRequest[MarkdownParams, NoInput]) -> MarkdownAnswer:
    """Read the blocks of a Markdown text from a line on."""
    pages = (await open_artifact(request)).pages
    async with reads.get().take(request.user):
        return MarkdownAnswer(await spool_threads.run(pages.read_page, request.params.line))


async def query_table(request: ApiRequest[TableParams, NoInput]) -> TableAnswer:
    """Read the first rows of a table, or those that a query selects."""
    params, artifact = request.params, await open_artifact(request)
    size = artifact.content.index.byte_length
    if artifact.content.stored_file is None and size > MAX_COPIED_TABLE_BYTES:
        raise ArtifactQueryError(
            f"this spool is not on the disk of the server, and {size} bytes are too many to copy for a query; download "
            "the artifact"
        )
    sql = params.sql.strip() or f"SELECT * FROM {TABLE_NAME}"  # noqa: S608 - not a statement of ours

    async def work() -> TableAnswer:
        if not size:
            return TableAnswer(columns=(), rows=(), is_cut=False)
        async with queries.get().take(request.user):
            answer = await artifact.table.sql(sql, max_rows=params.limit)
        return TableAnswer(columns=answer.columns, rows=answer.rows, is_cut=answer.is_cut)

    return await run_while_connected(request.http, work)


async def open_artifact(request: ApiRequest[Any, NoInput]) -> OpenArtifact:
    """Open the artifact that a request names, if its user may see it."""
    bench, user, shelf = request.bench, request.user, request.bench.artifacts
    if user.profile is not None:
        # Before anything is read: the answer must not tell whether the spool has it.
        entry = await shelf.listing.find(unescape_surrogates(request.params.id))
        if entry is None or not await may_see_artifact(bench, user, entry):
            raise UnknownItemError("the artifact does not exist, or this profile may not see it", field="id")
    async with reads.get().take(user):
        return await shelf.open(request.params.id)


FORMATS: Final[Sequence[Endpoint[Any, Any]]] = (
    read("/artifacts/json", list_members, summary="List members of JSON", params=TreeParams, answer=TreeAnswer),
    read("/artifacts/json/path", query_path, summary="Query JSON by a path", params=PathParams, answer=PathAnswer),
    read("/artifacts/outline", read_outline, summary="Read headings", params=OneArtifact, answer=OutlineAnswer),
    read("/artifacts/markdown", read_markdown, summary="Read Markdown", params=MarkdownParams, answer=MarkdownAnswer),
    read("/artifacts/table", query_table, summary="Query a table", params=TableParams, answer=TableAnswer),
)
