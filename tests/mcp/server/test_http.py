"""The server over real HTTP on loopback: who may come in, what each sees, and the health page."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import anyio
import httpx
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic import Field

from spindle import Executor, ToolFilter, ToolRegistry, tool
from spindle.errors import UsageError
from spindle.mcp.server.http import (
    HttpSettings,
    http_app,
    is_loopback,
)
from spindle.mcp.server.http_callers import identify_caller, token_hash
from spindle.mcp.server.serve import IdleTimeoutProtocol, serve_http
from spindle.mcp.server.tool_server import ToolServer

pytestmark = pytest.mark.anyio

both_revisions = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
READER, WRITER = "token-of-the-reader", "token-of-the-writer"
TOKENS = {token_hash(READER): "reader", token_hash(WRITER): "writer"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn supports only asyncio


@tool
def lines(count: int) -> str:
    """Give many lines."""
    return "\n".join(f"line {n}" for n in range(count))


@tool
def write(text: str) -> str:
    """Write something."""
    return f"wrote {text}"


def filter_of(profile: str | None) -> ToolFilter | None:
    return ToolFilter(allowed_tools=["lines"]) if profile == "reader" else None


@asynccontextmanager
async def served(*tools: Any, concurrency: int = 64, max_calls: int = 256, **door: Any) -> AsyncGenerator[str]:
    registry = ToolRegistry([lines, write, *tools])
    server = ToolServer(
        Executor(registry, concurrency=concurrency),
        registry,
        identify=identify_caller,
        filter_of=filter_of,
        max_calls_per_session=max_calls,
    )
    where = HttpSettings(port=0, **door)
    app = http_app(server, where, health=lambda: {"tools": len(registry)})
    address: list[str] = []
    ready = anyio.Event()

    def is_ready(reported: str) -> None:
        address.append(reported)
        ready.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                await serve_http(server, app, where, on_ready=is_ready)

            tasks.start_soon(run)
            await ready.wait()
            yield address[0]
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def at_the_door(**door: Any) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the application alone, for those who do not come in."""
    registry = ToolRegistry([lines, write])
    app = http_app(ToolServer(Executor(registry), registry, identify=identify_caller), HttpSettings(**door))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
        yield http


@asynccontextmanager
async def client_of(address: str, mode: str, token: str | None = None) -> AsyncGenerator[Client]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        mcp_http_client(headers) as http,
        Client(streamable_http_client(address, http_client=http), mode=mode) as client,
    ):
        yield client


def mcp_http_client(headers: dict[str, str]) -> Any:
    from mcp.shared._httpx_utils import create_mcp_http_client

    return create_mcp_http_client(headers=headers)


def text_of(result: Any) -> str:
    first = result.content[0]
    assert isinstance(first, types.TextContent)
    return first.text


@both_revisions
async def test_a_client_lists_and_calls_over_http(mode: str) -> None:
    async with served() as address, client_of(address, mode) as client:
        names = [each.name for each in (await client.list_tools()).tools]
        result = await client.call_tool("write", {"text": "hello"})

    assert {"lines", "write"} <= set(names)
    assert "wrote hello" in text_of(result)


@both_revisions
async def test_a_token_decides_what_is_seen_and_run(mode: str) -> None:
    async with served(tokens=TOKENS) as address:
        async with client_of(address, mode, READER) as reader:
            seen = [each.name for each in (await reader.list_tools()).tools]
            refused = await reader.call_tool("write", {"text": "no"})
        async with client_of(address, mode, WRITER) as writer:
            done = await writer.call_tool("write", {"text": "yes"})

    assert "write" not in seen
    assert refused.is_error
    assert "wrote yes" in text_of(done)


@pytest.mark.slow
@both_revisions
async def test_clients_cannot_read_each_others_artifacts(mode: str) -> None:
    async with served(tokens=TOKENS) as address, client_of(address, mode, READER) as first:
        shown = text_of(await first.call_tool("lines", {"count": 50_000}))
        call_id = shown.split('call_id "')[1].split('"')[0]
        async with client_of(address, mode, WRITER) as second:
            stolen = await second.call_tool("artifact_head", {"call_id": call_id})
        own = await first.call_tool("artifact_head", {"call_id": call_id})

    assert stolen.is_error
    assert "line 0" in text_of(own)


async def test_two_sessions_of_one_token_do_not_share_either() -> None:
    async with served(tokens=TOKENS) as address, client_of(address, "legacy", READER) as first:
        shown = text_of(await first.call_tool("lines", {"count": 50_000}))
        call_id = shown.split('call_id "')[1].split('"')[0]
        async with client_of(address, "legacy", READER) as second:
            stolen = await second.call_tool("artifact_head", {"call_id": call_id})

    assert stolen.is_error


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer", "Basic dG9rZW4=", READER])
async def test_a_request_without_a_known_token_is_rejected(header: str | None) -> None:
    async with at_the_door(tokens=TOKENS) as http:
        headers = {} if header is None else {"Authorization": header}
        answer = await http.post("/mcp", headers=headers, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert READER not in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
    ],
    ids=["origin", "null origin", "host", "host that begins well"],
)
@pytest.mark.parametrize("path", ["/mcp", "/health"])
async def test_a_page_in_a_browser_cannot_reach_the_server(headers: dict[str, str], status: int, path: str) -> None:
    async with at_the_door() as http:
        answer = await http.request("POST" if path == "/mcp" else "GET", path, headers=headers, json={})

    assert answer.status_code == status


async def test_an_allowed_origin_comes_in() -> None:
    async with served(allowed_origins=["https://page.example"]) as address, httpx.AsyncClient(timeout=60) as http:
        where = address.removesuffix("/mcp") + "/health"
        answer = await http.get(where, headers={"Origin": "https://page.example"})

    assert answer.status_code == 200


async def test_the_health_page_says_more_to_who_has_a_token() -> None:
    async with served(tokens=TOKENS) as address, httpx.AsyncClient(timeout=60) as http:
        where = address.removesuffix("/mcp") + "/health"
        anonymous = (await http.get(where)).json()
        known = (await http.get(where, headers={"Authorization": f"Bearer {READER}"})).json()

    assert anonymous == {"status": "ok"}
    assert known == {"status": "ok", "tools": 2, "sessions": 0, "running_calls": 0}


async def test_a_request_that_is_too_large_is_refused() -> None:
    async with served() as address, httpx.AsyncClient(timeout=60) as http:
        answer = await http.post(address, content=b"x" * (5 << 20), headers={"content-type": "application/json"})

    assert answer.status_code == 413


async def test_a_port_that_is_taken_is_said_in_one_sentence() -> None:
    async with served() as address:
        port = int(address.split(":")[2].split("/")[0])
        registry = ToolRegistry([lines])
        server = ToolServer(Executor(registry), registry)
        door = HttpSettings(port=port)
        with pytest.raises(UsageError) as caught:
            await serve_http(server, http_app(server, door), door)

    assert caught.value.field == "port"


def test_other_machines_need_a_token() -> None:
    with pytest.raises(UsageError) as caught:
        HttpSettings(host="0.0.0.0")

    assert caught.value.field == "tokens"
    assert HttpSettings(host="0.0.0.0", tokens=TOKENS).host == "0.0.0.0"


@pytest.mark.parametrize("path", ["mcp", "/health", ""])
def test_the_path_must_be_one(path: str) -> None:
    with pytest.raises(UsageError):
        HttpSettings(path=path)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.8.9.1", True), ("0.0.0.0", False), ("a.b", False)],
)
def test_loopback_addresses_are_recognized(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_a_door_shows_no_token() -> None:
    assert token_hash(READER) not in repr(HttpSettings(tokens=TOKENS))


async def test_a_small_answer_is_not_delayed_by_nagles_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    no_delay: list[int] = []
    connection_made = IdleTimeoutProtocol.connection_made

    def record_option(self: IdleTimeoutProtocol, transport: Any) -> None:
        connection: socket.socket = transport.get_extra_info("socket")
        no_delay.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        connection_made(self, transport)

    monkeypatch.setattr(IdleTimeoutProtocol, "connection_made", record_option)
    async with served() as address, client_of(address, "legacy") as client:
        await client.call_tool("write", {"text": "quick"})

    assert no_delay
    assert all(no_delay)


@pytest.mark.slow
@pytest.mark.parametrize("token", [None, READER], ids=["no tokens", "a token"])
async def test_nothing_is_kept_of_a_session_that_was_ended(token: str | None) -> None:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        served(tokens=TOKENS if token else {}) as address,
        httpx.AsyncClient(headers=headers, timeout=60) as http,
    ):
        where = address.removesuffix("/mcp") + "/health"
        async with client_of(address, "legacy", token) as client:
            await client.call_tool("lines", {"count": 1})
            during = (await http.get(where)).json()["sessions"]
        after = (await http.get(where)).json()["sessions"]

    assert (during, after) == (1, 0)


async def test_a_session_is_ended_by_its_own_client_alone() -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    accept = {"accept": "application/json, text/event-stream"}
    reader, writer = ({"Authorization": f"Bearer {each}"} for each in (READER, WRITER))
    async with served(tokens=TOKENS) as address, httpx.AsyncClient(headers=accept, timeout=60) as http:

        async def send(method: str, headers: dict[str, str], params: Any) -> httpx.Response:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return await http.post(address, json=body, headers=headers)

        async def sessions() -> int:
            return (await http.get(address.removesuffix("/mcp") + "/health", headers=reader)).json()["sessions"]

        session = {"mcp-session-id": (await send("initialize", reader, hello)).headers["mcp-session-id"]}
        await send("tools/list", {**reader, **session}, {})
        refused = await http.delete(address, headers={**writer, **session})
        kept = await sessions()
        ended = await http.delete(address, headers={**reader, **session})
        left = await sessions()

    assert refused.status_code >= 400
    assert ended.status_code == 200
    assert (kept, left) == (1, 0)


@tool
def store(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], text: str = "") -> str:
    """Store something in a region."""
    return f"stored in {region}"


async def test_a_call_lists_no_tools() -> None:
    """The SDK looks up the schema of each call in the list of tools, unless it is configured otherwise."""
    checks = 0

    def is_available() -> bool:
        nonlocal checks
        checks += 1
        return True

    @tool(is_available=is_available)
    def other() -> str:
        """Do nothing."""
        return ""

    async with served(other) as address, client_of(address, "2026-07-28") as client:
        await client.call_tool("lines", {"count": 1})
        before = checks
        for _ in range(5):
            await client.call_tool("lines", {"count": 1})

    assert checks == before


@pytest.mark.parametrize(
    ("header", "status"),
    [({"Mcp-Param-Region": "north"}, 200), ({"Mcp-Param-Region": "south"}, 400), ({}, 400)],
)
async def test_the_headers_of_a_call_must_repeat_its_arguments(header: dict[str, str], status: int) -> None:
    async with served(store, tokens=TOKENS) as address, httpx.AsyncClient(timeout=60) as http:
        answer = await store_north(http, address, WRITER, header)

    assert answer.status_code == status
    assert ("error" in answer.json()) == (status == 400)


async def test_the_headers_of_a_tool_that_a_client_does_not_see_are_not_revealed() -> None:
    async with served(store, tokens=TOKENS) as address, httpx.AsyncClient(timeout=60) as http:
        answer = await store_north(http, address, READER, {})

    assert answer.status_code == 200
    assert answer.json()["result"]["isError"]
    assert "Region" not in answer.text


async def store_north(http: httpx.AsyncClient, address: str, token: str, header: dict[str, str]) -> httpx.Response:
    """Send one call of the newer revision."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    params = {"name": "store", "arguments": {"region": "north"}, "_meta": meta}
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "store",
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return await http.post(address, json=message, headers=headers | header)
