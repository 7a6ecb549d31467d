"""Endpoints of tools: the list, one tool, its definition in a dialect, and the arguments of a recorded call."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio
from anyio import to_thread
from pydantic import Field, JsonValue

from spindle.bridges.price import DIALECT_NAMES, define_tool
from spindle.errors import CannotLowerError, InvalidRequestError, SpindleError, UnknownItemError
from spindle.inspector.approval_feeds import may_see
from spindle.inspector.call_details import write_json
from spindle.inspector.endpoints import ApiModel, ApiRequest, Endpoint, NoInput, PageUser, read
from spindle.inspector.live import Feed, Publish, get_listener
from spindle.inspector.replays import leave_out_masked
from spindle.inspector.tool_checks import CheckReport
from spindle.inspector.tool_facts import (
    MAX_DESCRIPTION_CHARS,
    WithheldTool,
    describe_capabilities,
    find_output_schema,
    is_showable,
)
from spindle.inspector.tool_rows import (
    ToolFinding,
    ToolRow,
    build_findings,
    build_row,
    build_withheld_row,
    find_entries,
    find_entry,
    find_withheld,
    is_match,
    refresh_checks,
)
from spindle.inspector.workbench import Workbench
from spindle.json_types import JsonObject
from spindle.text import shorten, to_encodable
from spindle.tools.entry import Entry
from spindle.tools.filters import find_refusal

MAX_ROWS: Final = 500
_MAX_DEFINITION_CHARS: Final = 400_000
_MAX_EXAMPLES: Final = 10
_FIRST_CHECK_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 1.0


class ToolsQuery(ApiModel):
    """Which tools are listed."""

    q: str = Field("", max_length=200)
    """Only tools whose name, title or description contains this text."""
    cursor: str | None = Field(None, max_length=20)
    limit: int = Field(MAX_ROWS, ge=1, le=MAX_ROWS)


class ToolPage(ApiModel):
    """A page of the list."""

    tools: tuple[ToolRow, ...]
    next_cursor: str | None = None
    total: int
    dialects: tuple[str, ...] = DIALECT_NAMES
    totals: dict[str, int] | None = None
    """Dialect → tokens of all definitions that the user may see."""
    is_checked: bool
    """Whether prices and findings are known."""


class NamedTool(ApiModel):
    """The tool that is asked for."""

    name: str = Field(max_length=1_000)


class ToolDetail(ApiModel):
    """One tool in full."""

    tool: ToolRow
    description: str
    handler: str
    """Where it is defined; empty for tools of servers."""
    fingerprint: str
    input_schema: JsonValue
    """`None` if it is too large to show."""
    output_schema: JsonValue = None
    secret_fields: tuple[str, ...] = ()
    reach: tuple[str, ...] = ()
    """What it can reach, in sentences."""
    timeout_seconds: float | None = None
    max_result_chars: int | None = None
    visible_to: tuple[str, ...] | None = None
    """The profiles that may use it, for the login of one only that; `None` if no profiles are configured."""
    findings: tuple[ToolFinding, ...] = ()
    has_preview: bool = False
    """Whether it describes by itself what a call would do."""
    examples: tuple[JsonValue, ...] = ()
    """Arguments that work here."""


class DefinitionQuery(NamedTool):
    """A tool and a dialect."""

    dialect: str = Field(max_length=40)


class ToolDefinitionText(ApiModel):
    """The definition of a tool as a provider receives it."""

    dialect: str
    json_text: str
    tokens: int | None


class RecordedQuery(ApiModel):
    """A recorded call."""

    key: str = Field(max_length=200)


class RecordedArguments(ApiModel):
    """The arguments of a recorded call; secrets were masked when it was recorded, and are left out."""

    tool: str
    args: JsonValue
    args_text: str
    """The same as JSON text: a browser would change the digits of large numbers in `args`."""
    left_out: tuple[str, ...] = ()
    """Where values were left out, because they are masked: a mask is not what the tool shall get again."""


async def list_tools(request: ApiRequest[ToolsQuery, NoInput]) -> ToolPage:
    """List the tools that the user's profile may use, and those in quarantine."""
    bench, params = request.bench, request.params
    report = refresh_checks(bench)
    if report is None:
        with anyio.move_on_after(_FIRST_CHECK_SECONDS):
            await bench.checks.wait()
        report = bench.checks.report
    entries = find_entries(bench, request.user)
    withheld = find_withheld(bench, request.user.profile)
    wanted = params.q.casefold()
    found: list[Entry | WithheldTool] = [each for each in entries if is_match(each.tool, wanted)]
    found += [each for each in withheld if wanted in each.name.casefold()]
    start = int(params.cursor) if params.cursor and params.cursor.isdecimal() else 0
    chosen = found[start : start + params.limit]
    rows = tuple(
        build_row(each, bench, report, request.user) if isinstance(each, Entry) else build_withheld_row(each)
        for each in chosen
    )
    end = start + len(chosen)
    return ToolPage(
        tools=rows,
        next_cursor=str(end) if end < len(found) else None,
        total=len(found),
        totals=None if report is None else _sum_prices(report, entries, request.user),
        is_checked=report is not None,
    )


def _sum_prices(report: CheckReport, entries: Sequence[Entry], user: PageUser) -> dict[str, int]:
    if user.profile is None:
        return dict(report.totals)
    prices = [report.prices.get(each.tool.name, {}) for each in entries]
    return {dialect: sum(each.get(dialect, 0) for each in prices) for dialect in report.totals}


async def show_tool(request: ApiRequest[NamedTool, NoInput]) -> ToolDetail:
    """Return one tool in full."""
    bench = request.bench
    entry = find_entry(bench, request.user, request.params.name)
    report, tool = refresh_checks(bench), entry.tool
    try:
        schema: JsonObject | None = tool.describe()["input_schema"]
        fingerprint = tool.fingerprint
    except SpindleError:
        schema, fingerprint = None, ""
    profiles = bench.profiles if request.user.profile is None else (request.user.profile,)
    return ToolDetail(
        tool=build_row(entry, bench, report, request.user),
        description=shorten(to_encodable(tool.description), MAX_DESCRIPTION_CHARS),
        handler="" if entry.mcp_server is not None else to_encodable(tool.origin),
        fingerprint=fingerprint,
        input_schema=schema if schema is not None and is_showable(schema) else None,
        output_schema=find_output_schema(tool),
        secret_fields=tuple(sorted(tool.secret_fields)),
        reach=tuple(describe_capabilities(tool.capabilities)),
        timeout_seconds=tool.timeout_seconds,
        max_result_chars=tool.max_result_chars,
        visible_to=tuple(each for each in profiles if find_refusal(entry, bench.get_filter(each)) is None)
        if profiles
        else None,
        findings=tuple(build_findings(entry, report, request.user)),
        has_preview=tool.preview is not None,
        examples=tuple(bench.examples.get(tool.name, ()))[:_MAX_EXAMPLES],
    )


async def show_definition(request: ApiRequest[DefinitionQuery, NoInput]) -> ToolDefinitionText:
    """Return what a model reads about a tool, in a dialect."""
    dialect = request.params.dialect
    if dialect not in DIALECT_NAMES:
        raise InvalidRequestError(f"unknown dialect; choose from {', '.join(DIALECT_NAMES)}", field="dialect")
    entry = find_entry(request.bench, request.user, request.params.name)
    try:
        text = await to_thread.run_sync(_write_definition, entry, dialect)
    except CannotLowerError as error:
        raise InvalidRequestError(str(error), field="dialect") from error
    report = request.bench.checks.report
    prices: Mapping[str, int] = {} if report is None else report.prices.get(entry.tool.name, {})
    return ToolDefinitionText(dialect=dialect, json_text=text, tokens=prices.get(dialect))


def _write_definition(entry: Entry, dialect: str) -> str:
    """Return a definition as formatted JSON, or its beginning; that of a large schema takes a while."""
    text = json.dumps(json.loads(define_tool(entry.tool, dialect).json), indent=2, ensure_ascii=False)
    return shorten(to_encodable(text), _MAX_DEFINITION_CHARS)


async def show_recorded_arguments(request: ApiRequest[RecordedQuery, NoInput]) -> RecordedArguments:
    """Return the arguments of a recorded call, to make it again with changes."""
    entry = await request.bench.journal.find(request.params.key)
    if entry is None or not may_see(request.bench, request.user, entry.tool):
        raise UnknownItemError("the journal has no call with this key")
    if not is_showable(entry.args, max_chars=2_000_000):
        raise InvalidRequestError("the arguments of this call are too large for a form")
    args, left_out = leave_out_masked(entry.args)
    return RecordedArguments(
        tool=entry.tool, args=args, args_text=write_json(args), left_out=tuple(to_encodable(each) for each in left_out)
    )


async def watch_tools(bench: Workbench, publish: Publish) -> None:
    """Tell the page when tools, servers, prices or findings have changed."""
    bench.checks.watch(bench.servers)
    user = get_listener()
    seen: object = None
    shown: list[object] = []
    while True:
        report = refresh_checks(bench)
        current = bench.registry.version, bench.checks.changes, None if report is None else report.number
        if current != seen:
            is_first, seen = seen is None, current
            if user is None or user.profile is None:
                publish({"total": len(bench.registry)}, key="changed")
            else:
                found = _list_shown(bench, user, report)
                if is_first or found != shown:  # a change of tools that it may not use is not sent
                    publish({"total": len(find_entries(bench, user))}, key="changed")
                shown = found
        await anyio.sleep(_POLL_SECONDS)


def _list_shown(bench: Workbench, user: PageUser, report: CheckReport | None) -> list[object]:
    """Return what the list of a user shows, to be compared."""
    rows = [build_row(each, bench, report, user) for each in find_entries(bench, user)]
    return [*rows, *find_withheld(bench, user.profile)]


ENDPOINTS: Final[Sequence[Endpoint[Any, Any]]] = (
    read("/tools", list_tools, summary="List the tools.", params=ToolsQuery, answer=ToolPage),
    read("/tools/detail", show_tool, summary="Show one tool in full.", params=NamedTool, answer=ToolDetail),
    read(
        "/tools/definition",
        show_definition,
        summary="Show what a model reads about a tool.",
        params=DefinitionQuery,
        answer=ToolDefinitionText,
    ),
    read(
        "/tools/recorded",
        show_recorded_arguments,
        summary="Return the arguments of a recorded call.",
        params=RecordedQuery,
        answer=RecordedArguments,
    ),
)
FEEDS: Final[Mapping[str, Feed]] = {"tools": watch_tools}
