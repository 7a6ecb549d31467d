"""The list of tools: each page is built once, and again only when the tools have changed."""

import gc
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from spindle import Executor, Tool, ToolFilter, ToolRegistry
from spindle.mcp.server.tool_server import Caller, ToolServer

pytestmark = pytest.mark.anyio

LEGACY, MODERN = "legacy", "2026-07-28"
both_revisions = pytest.mark.parametrize("mode", [LEGACY, MODERN])


def make_tools(count: int, checks: Counter[str] | None = None, absent: set[str] | None = None) -> list[Tool]:
    def make(name: str) -> Tool:
        def is_available() -> bool:
            if checks is not None:
                checks[name] += 1
            return name not in (absent or ())

        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        return Tool(name=name, description="d", input_schema=schema, handler=lambda *_: "", is_available=is_available)

    return [make(f"t{number:04}") for number in range(count)]


@asynccontextmanager
async def listed(tools: list[Tool], mode: str, **options: Any) -> AsyncGenerator[tuple[Client, ToolServer, list[str]]]:
    """A client of a server, and the cursors of the pages that were built."""
    registry = ToolRegistry(tools)
    server = ToolServer(Executor(registry), registry, **options)
    built: list[str] = []

    async def count(ctx: Any, call_next: Any) -> Any:
        if ctx.method == "tools/list":
            params: dict[str, str] = dict(ctx.params or {})
            built.append(params.get("cursor", ""))
        return await call_next(ctx)

    server.sdk.middleware.append(count)
    with anyio.fail_after(30):
        async with Client(server.sdk, mode=mode) as client:
            yield client, server, built


async def list_all(client: Client) -> list[types.Tool]:
    found: list[types.Tool] = []
    cursor: str | None = None
    while True:
        params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
        page = await client.session.list_tools(params=params)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found


@both_revisions
async def test_pages_are_built_once_and_sent_again_unchanged(mode: str) -> None:
    async with listed(make_tools(450), mode) as (client, _, built):
        first = await list_all(client)
        pages = list(built)
        again = await list_all(client)

    assert again == first
    assert pages == ["", "200", "400"]
    assert built == pages


@both_revisions
async def test_a_list_looks_at_each_tool_as_often_however_many_pages_it_has(mode: str) -> None:
    looks: dict[int, int] = {}
    for count in (150, 600):
        checks: Counter[str] = Counter()
        async with listed(make_tools(count, checks), mode) as (client, _, _):
            await list_all(client)
        looks[count] = max(checks.values())

    assert looks[600] == looks[150]


@both_revisions
async def test_a_tool_that_becomes_unavailable_is_no_longer_listed(mode: str) -> None:
    absent: set[str] = set()
    async with listed(make_tools(3, absent=absent), mode) as (client, _, built):
        before = [each.name for each in await list_all(client)]
        absent.add("t0001")
        after = [each.name for each in await list_all(client)]
        absent.clear()
        again = [each.name for each in await list_all(client)]

    assert before == again
    assert after == [name for name in before if name != "t0001"]
    assert len(built) == 3


@both_revisions
async def test_the_pages_of_one_list_fit_together_though_a_tool_disappears_meanwhile(mode: str) -> None:
    absent: set[str] = set()
    async with listed(make_tools(300, absent=absent), mode) as (client, _, _):
        first = await client.session.list_tools()
        absent.add("t0000")
        rest = await client.session.list_tools(params=types.PaginatedRequestParams(cursor=first.next_cursor))

    names = [each.name for each in [*first.tools, *rest.tools]]
    assert names[:300] == [f"t{number:04}" for number in range(300)]


@both_revisions
async def test_a_changed_registry_is_listed_anew(mode: str) -> None:
    registry = ToolRegistry(make_tools(2))
    server = ToolServer(Executor(registry), registry)
    with anyio.fail_after(30):
        async with Client(server.sdk, mode=mode) as client:
            await list_all(client)
            registry.unregister("t0000")
            registry.register(make_tools(3)[2])
            await server.tools_changed()
            names = [each.name for each in await list_all(client)]

    assert "t0000" not in names
    assert {"t0001", "t0002"} <= set(names)


@both_revisions
async def test_clients_with_other_profiles_have_other_lists(mode: str) -> None:
    profile = "all"
    filters = {"all": None, "one": ToolFilter(allowed_tools=["t0001"])}

    def filter_of(named: str | None) -> ToolFilter | None:
        return filters[named or "all"]

    def identify(_ctx: object) -> Caller:
        return Caller(key=profile, profile=profile)

    async with listed(make_tools(3), mode, filter_of=filter_of, identify=identify) as (client, _, _):
        everything = {each.name for each in await list_all(client)}
        profile = "one"
        one = {each.name for each in await list_all(client)}
        profile = "all"
        again = {each.name for each in await list_all(client)}

    assert everything == again
    assert {"t0000", "t0001", "t0002"} <= everything
    assert one & {"t0000", "t0001", "t0002"} == {"t0001"}


@both_revisions
async def test_an_invalid_cursor_is_refused_also_when_pages_are_kept(mode: str) -> None:
    async with listed(make_tools(3), mode) as (client, _, _):
        await list_all(client)
        for cursor in ("junk", "0", "-1", "451", "9" * 5_000, "\u0663"):
            with pytest.raises(MCPError) as caught:
                await client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            assert caught.value.error.code == types.INVALID_PARAMS


@both_revisions
async def test_requests_that_are_not_plain_are_validated_though_the_page_is_kept(mode: str) -> None:
    async with listed(make_tools(3), mode) as (client, _, built):
        await list_all(client)
        wrong = types.PaginatedRequestParams.model_construct(cursor=5)
        with pytest.raises(MCPError) as caught, pytest.warns(UserWarning, match="serializ"):
            await client.session.list_tools(params=wrong)

    assert caught.value.error.code == types.INVALID_PARAMS
    assert len(built) == 2


async def test_the_lists_of_a_former_version_are_freed() -> None:
    tools = make_tools(3)
    async with listed(tools, MODERN) as (client, server, _):
        await list_all(client)
        for _ in range(20):
            await server.tools_changed()
            await list_all(client)
        gc.collect()
        views = [each for each in gc.get_objects() if isinstance(each, ToolRegistry) and tools[0] in each.all()]

    assert len(views) <= 6
