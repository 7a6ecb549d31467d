"""Clients of the older HTTP+SSE transport have the same tools, sessions and limits as others."""

import anyio
import httpx
import pytest
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.server.sse import SseServerTransport
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from spindle.errors import UsageError
from spindle.mcp.server.http import HttpSettings
from spindle.mcp.server.http_callers import SSE_SESSION
from tests.mcp.gateways import text_of
from tests.mcp.server.test_http import READER, TOKENS, WRITER, lines, served

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn supports only asyncio


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def sse_address(address: str) -> str:
    return address.removesuffix("/mcp") + "/sse"


async def open_stream(client: httpx.AsyncClient, address: str) -> tuple[httpx.Response, str]:
    """Connect, and return the response and the path to which the client is to post."""
    response = await client.send(client.build_request("GET", sse_address(address)), stream=True)
    if not response.is_success:
        return response, ""
    async for line in response.aiter_lines():
        if line.startswith("data:"):
            return response, line.removeprefix("data:").strip()
    raise AssertionError("the stream has no endpoint event")


async def test_a_client_lists_and_calls_tools() -> None:
    async with served(sse_path="/sse") as address, Client(sse_client(sse_address(address)), mode="legacy") as client:
        listed = await client.list_tools()
        result = await client.call_tool("lines", {"count": 2})

    assert lines.name in [each.name for each in listed.tools]
    assert "line 1" in text_of(result)


@pytest.mark.slow
async def test_there_is_no_such_endpoint_unless_configured() -> None:
    async with served() as address, httpx.AsyncClient() as client:
        response = await client.get(sse_address(address))

    assert response.status_code == httpx.codes.NOT_FOUND


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Origin": "https://evil.example"}])
async def test_the_same_checks_are_made(headers: dict[str, str]) -> None:
    async with served(sse_path="/sse", tokens=TOKENS) as address, httpx.AsyncClient(headers=headers) as client:
        stream = await client.get(sse_address(address))
        posted = await client.post(sse_address(address) + "/messages?session_id=" + "0" * 32, json={})

    expected = httpx.codes.FORBIDDEN if "Origin" in headers else httpx.codes.UNAUTHORIZED
    assert (stream.status_code, posted.status_code) == (expected, expected)


@pytest.mark.slow
async def test_a_profile_applies() -> None:
    async with served(sse_path="/sse", tokens=TOKENS) as address:
        stream = sse_client(sse_address(address), headers=bearer(READER))
        async with Client(stream, mode="legacy") as client:
            names = [each.name for each in (await client.list_tools()).tools]

    assert "lines" in names
    assert "write" not in names


async def test_a_session_belongs_to_its_token() -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with served(sse_path="/sse", tokens=TOKENS) as address, httpx.AsyncClient() as client:
        client.headers.update(bearer(WRITER))
        stream, path = await open_stream(client, address)
        url = httpx.URL(address).join(path)
        stolen = await client.post(url, json=ping, headers=bearer(READER))
        own = await client.post(url, json=ping)
        await stream.aclose()

    assert (stolen.status_code, own.status_code) == (httpx.codes.NOT_FOUND, httpx.codes.ACCEPTED)


async def test_a_session_has_one_key_however_its_id_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each spelling would be a client of its own, with its own limits and without its taint."""
    seen: list[str] = []

    async def take(_self: object, scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope[SSE_SESSION])
        await Response("taken")(scope, receive, send)

    monkeypatch.setattr(SseServerTransport, "handle_post_message", take)
    own = "0123456789abcdef0123456789abcdef"
    async with served(sse_path="/sse") as address, httpx.AsyncClient() as client:
        for each in (own, own.upper(), f"{{{own[:8]}-{own[8:]}}}", f"urn:uuid:{own}"):
            await client.post(sse_address(address) + "/messages", params={"session_id": each}, json={})

    assert seen == [own] * 4


@pytest.mark.slow
async def test_artifacts_belong_to_a_session() -> None:
    async with served(sse_path="/sse") as address:
        where = sse_address(address)
        async with Client(sse_client(where), mode="legacy") as one, Client(sse_client(where), mode="legacy") as other:
            shown = text_of(await one.call_tool("lines", {"count": 50_000}))
            call_id = shown.split('call_id "')[1].split('"')[0]
            found = await one.call_tool("artifact_head", {"call_id": call_id})
            stolen = await other.call_tool("artifact_head", {"call_id": call_id})

    assert (found.is_error, stolen.is_error) == (False, True)


@pytest.mark.slow
async def test_streams_are_limited_and_freed() -> None:
    async with served(sse_path="/sse", max_sessions=1) as address, httpx.AsyncClient() as client:
        first, _ = await open_stream(client, address)
        second, _ = await open_stream(client, address)
        await second.aclose()
        await first.aclose()
        with anyio.fail_after(20):
            while not (again := (await open_stream(client, address))[0]).is_success:
                await again.aclose()
        await again.aclose()

    assert second.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert "retry-after" in second.headers


@pytest.mark.slow
async def test_a_message_that_is_too_large_is_refused() -> None:
    async with served(sse_path="/sse") as address, httpx.AsyncClient() as client:
        stream, path = await open_stream(client, address)
        response = await client.post(httpx.URL(address).join(path), content=b" " * (5 << 20))
        await stream.aclose()

    assert response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE


@pytest.mark.parametrize("path", ["sse", "/health", "/mcp"])
def test_a_path_that_is_taken_is_refused(path: str) -> None:
    with pytest.raises(UsageError) as caught:
        HttpSettings(sse_path=path)

    assert caught.value.field == "sse_path"
