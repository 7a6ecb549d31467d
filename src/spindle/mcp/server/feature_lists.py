"""The lists of prompts and resources for clients: those of `offers` and of all upstream servers, page by page."""

import json
from collections import OrderedDict
from hashlib import sha256
from typing import Any, Final, TypeAlias

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from spindle.mcp.client.catalog import UpstreamCatalog
from spindle.mcp.client.feature_definitions import get_identity
from spindle.mcp.client.feature_requests import MAX_ENTRIES, Entry, ListingPage, read_pages
from spindle.mcp.client.features import ListKind
from spindle.mcp.server.peer import Context
from spindle.mcp.server.sessions import McpSession
from spindle.mcp.server.tool_list import MAX_CURSOR_CHARS, PAGE_SIZE
from spindle.tools.filters import ToolFilter, allows_feature

METHODS: Final[dict[ListKind, str]] = {
    "prompts": "prompts/list",
    "resources": "resources/list",
    "templates": "resources/templates/list",
}
_MAX_KEPT: Final = 64
_DIGEST_CHARS: Final = 16

_Key: TypeAlias = tuple[ListKind, str | None, ToolFilter | None, str]
"""A list of one user; the last part is its digest."""


class FeatureLists:
    """The lists that clients see; one of several pages is kept until they have read it."""

    def __init__(self, catalog: UpstreamCatalog | None, offers: Server[Any] | None) -> None:
        self._catalog, self._offers = catalog, offers
        self._kept: OrderedDict[_Key, list[Any]] = OrderedDict()

    async def get_page(
        self, ctx: Context, kind: ListKind, session: McpSession, cursor: str | None
    ) -> tuple[list[Any], str | None]:
        """Return a page of the entries that a client's filter and user allow, and the cursor of the next one.

        Raises:
            MCPError: The cursor is invalid, or the list has changed since it was issued.
        """
        if cursor is None:
            start, entries = 0, await self._build(ctx, kind, session)
            digest = self._keep(kind, session, entries) if len(entries) > PAGE_SIZE else ""
        else:
            start, digest = _parse_cursor(cursor)
            entries = self._kept.get((kind, session.user, session.filter, digest))
            if entries is None:  # of another replica, or too long ago
                entries = await self._build(ctx, kind, session)
                if self._keep(kind, session, entries) != digest:
                    raise _build_cursor_error()
            if start >= len(entries):
                raise _build_cursor_error()
        end = start + PAGE_SIZE
        return entries[start:end], f"{end}.{digest}" if end < len(entries) else None

    async def _build(self, ctx: Context, kind: ListKind, session: McpSession) -> list[Any]:
        own = [each for each in await self.list_offers(ctx, kind) if _is_allowed(each, session.filter)]
        taken = {get_identity(each)[1] for each in own}
        catalog = UpstreamCatalog() if self._catalog is None else self._catalog.for_user(session.user)
        upstream = await catalog.list(kind, session.filter)
        return [*own, *(each.shown for each in upstream if each.name not in taken)]

    def _keep(self, kind: ListKind, session: McpSession, entries: list[Any]) -> str:
        listed = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in entries]
        digest = sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()[:_DIGEST_CHARS]
        key = kind, session.user, session.filter, digest
        self._kept[key] = entries
        self._kept.move_to_end(key)
        if len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        return digest

    async def list_offers(self, ctx: Context, kind: ListKind) -> list[Entry]:
        """Return what the server given as `offers` lists."""
        entry = None if self._offers is None else self._offers.get_request_handler(METHODS[kind])
        if entry is None:
            return []
        handler = entry.handler

        async def turn(params: types.PaginatedRequestParams) -> ListingPage:
            page: Any = await handler(ctx, params)
            field = "resource_templates" if kind == "templates" else kind
            return ListingPage(getattr(page, field), page.next_cursor)

        found, _ = await read_pages(turn, kind)
        return found[:MAX_ENTRIES]


def _is_allowed(entry: Entry, filter: ToolFilter | None) -> bool:
    kind, name = get_identity(entry)
    return allows_feature(filter, "prompt" if kind == "prompt" else "resource", name, None)


def _parse_cursor(cursor: str) -> tuple[int, str]:
    start, _, digest = cursor.partition(".")
    is_number = start.isascii() and start.isdigit() and 0 < len(start) <= MAX_CURSOR_CHARS
    if not is_number or len(digest) != _DIGEST_CHARS or not int(start):
        raise _build_cursor_error()
    return int(start), digest


def _build_cursor_error() -> MCPError:
    return MCPError(types.INVALID_PARAMS, "Invalid cursor: it was not issued by this server, or the list has changed.")
