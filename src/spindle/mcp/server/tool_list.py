"""The answers to `tools/list`: built once for each view and filter of the tools, and kept page by page."""

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast
from weakref import WeakKeyDictionary, ref

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import X_MCP_HEADER_KEY, validate_mcp_param_headers
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from spindle.bridges import mcp as dialect
from spindle.bridges.definitions import Definitions
from spindle.json_types import JsonObject
from spindle.tools.entry import Entry
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

PAGE_SIZE: Final = 200
"""Number of tools on one page of the list."""
MAX_CURSOR_CHARS: Final = 9
MAX_FILTERS: Final = 32
"""Lists that are kept of one view; a list of 2,000 tools takes some megabytes."""

Context: TypeAlias = ServerRequestContext[Any, Any]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ToolList:
    """The tools that a client was shown, and the pages of that list as they were sent."""

    view: ref[ToolRegistry]
    """Weak, so that a list does not keep its view alive, with which it is dropped."""
    entries: list[Entry]
    definitions: Definitions
    pages: dict[tuple[str, int], HandlerResult] = field(default_factory=dict[tuple[str, int], HandlerResult])
    """The answers by revision of the protocol and position; a page never changes."""

    def find_position(self, cursor: str | None) -> int:
        """Return the position of the first tool of a page.

        Raises:
            MCPError: The cursor is invalid.
        """
        if cursor is None:
            return 0
        # Python refuses to convert thousands of digits.
        is_number = cursor.isascii() and cursor.isdigit() and len(cursor) <= MAX_CURSOR_CHARS
        if not (is_number and 0 < int(cursor) <= len(self.definitions)):
            raise MCPError(
                types.INVALID_PARAMS, "Invalid cursor: it was not issued by this server, or the list has changed."
            )
        return int(cursor)

    def name_tools_of(self, server: str) -> dict[str, str]:
        """Return the tools of an upstream server that a client sees: its own names → those of the client."""
        names = self.definitions.names
        return {
            each.mcp_tool or "": names.to_wire(each.tool.name) for each in self.entries if each.mcp_server == server
        }

    def check_headers(self, ctx: Context, params: types.CallToolRequestParams) -> None:
        """Check that the headers of a call repeat the arguments that its tool's schema names for them.

        Raises:
            MCPError: They do not, or one of them is missing.
        """
        request: object = ctx.request
        if not isinstance(request, Request) or ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        definition = self.definitions.get(self.definitions.names.to_own(params.name))
        schema = None if definition is None else _read_annotated_schema(definition.json)
        if schema is None:
            return
        headers = cast("Request[Any]", request).headers
        problem = validate_mcp_param_headers(schema, params.arguments or {}, headers)
        if problem is not None:
            raise MCPError(problem.code, problem.message, problem.data)

    def build_page(self, start: int, *, is_modern: bool = True) -> types.ListToolsResult:
        """Build the page that starts at a position, for one of the two protocols."""
        listed = self.definitions.entries
        plain = [json.loads(each.json) for each in listed[start : start + PAGE_SIZE]]
        page = [types.Tool.model_validate(each if is_modern else dialect.narrow_definition(each)) for each in plain]
        end = start + len(page)
        return types.ListToolsResult(tools=page, next_cursor=str(end) if end < len(listed) else None)


@lru_cache(maxsize=4096)
def _read_annotated_schema(definition: bytes) -> JsonObject | None:
    """Return the input schema of a definition if it names headers for arguments."""
    return json.loads(definition)["inputSchema"] if X_MCP_HEADER_KEY.encode() in definition else None


def _order(entry: Entry) -> tuple[str, str]:
    """Return the place of a tool: own tools as registered, then those of each server, whichever connected first."""
    return entry.mcp_server or "", entry.mcp_tool or ""


class ToolLists:
    """The lists of the views that clients see now; those of a view are dropped with it."""

    def __init__(self, *, structured: bool) -> None:
        self._structured = structured
        self._lists: WeakKeyDictionary[ToolRegistry, OrderedDict[ToolFilter | None, ToolList]] = WeakKeyDictionary()

    def get(self, view: ToolRegistry, filter: ToolFilter | None) -> ToolList:
        """Return the list of the tools that are available now; the same list until one of them changes."""
        kept = self._lists.setdefault(view, OrderedDict[ToolFilter | None, ToolList]())
        entries = view.visible_entries(filter)
        known = kept.pop(filter, None)
        if known is None or known.entries != entries:
            ordered = [entry.tool for entry in sorted(entries, key=_order)]
            definitions = dialect.definitions(ordered, structured=self._structured)
            known = ToolList(view=ref(view), entries=entries, definitions=definitions)
        kept[filter] = known
        if len(kept) > MAX_FILTERS:
            kept.popitem(last=False)
        return known


_requested_page: ContextVar[tuple[ToolList, int] | None] = ContextVar("spindle_requested_page", default=None)


class ListPages:
    """Handles `tools/list`, as the SDK's handler and as the middleware around it that keeps the finished answers.

    The SDK validates and copies each tool of a page twice, which takes more time than everything else.
    `find_list` returns the list of a client; its second argument says whether the client asks for the first page.
    """

    def __init__(self, find_list: Callable[[Context, bool], Awaitable[ToolList]]) -> None:
        self._find_list = find_list

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer with the page that was sent before, if there is one."""
        if ctx.method != "tools/list" or not _is_plain(ctx):
            return await call_next(ctx)
        cursor = (ctx.params or {}).get("cursor")
        listed = await self._find_list(ctx, cursor is None)
        start = listed.find_position(cursor)
        key = (ctx.protocol_version, start)
        answer = listed.pages.get(key)
        if answer is None:
            token = _requested_page.set((listed, start))
            try:
                answer = listed.pages[key] = await call_next(ctx)
            finally:
                _requested_page.reset(token)
        return answer

    async def handle(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Build the requested page."""
        requested = _requested_page.get()
        if requested is None:
            cursor = None if params is None else params.cursor
            listed = await self._find_list(ctx, cursor is None)
            requested = listed, listed.find_position(cursor)
        listed, start = requested
        return listed.build_page(start, is_modern=ctx.protocol_version in MODERN_PROTOCOL_VERSIONS)


def _is_plain(ctx: Context) -> bool:
    """Return whether a request is valid and asks for nothing but a page; any other is left to the SDK's validation."""
    params = ctx.params or {}
    is_valid = (
        params.keys() <= {"_meta", "cursor"}
        and isinstance(params.get("cursor", ""), str)
        and ("_meta" not in params or ctx.meta is not None)
    )
    return is_valid and (ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.client_params is not None)
