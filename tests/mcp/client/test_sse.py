"""Servers of the older HTTP+SSE transport are used if configured, or found out; hostile ones are not."""

import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from spindle import Err, Ok
from spindle.errors import InvalidServerSpecError
from spindle.mcp.client.sse import EventParser, resolve_endpoint
from spindle.mcp.spec import ServerSpec
from tests.mcp.server.test_http import served
from tests.mcp.upstreams import call, connected

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn supports only asyncio


def spec(address: str, **more: Any) -> ServerSpec:
    return ServerSpec(name="s", url=address, **more)


@pytest.mark.parametrize("sse", [True, None])
async def test_a_server_of_the_older_transport_is_used(sse: bool | None) -> None:
    async with served(sse_path="/sse") as address:
        where = address.removesuffix("/mcp") + "/sse"
        async with connected(spec(where, sse=sse)) as servers:
            [status] = servers.status()
            outcome = await call(servers, "mcp__s__write", {"text": "hello"})

    assert (status.state, status.restarts) == ("ready", 0)
    assert status.protocol_version == "2025-11-25"
    assert isinstance(outcome.result, Ok)
    assert "wrote hello" in outcome.result.value


@pytest.mark.slow
async def test_there_is_no_fallback_where_it_is_turned_off() -> None:
    async with served(sse_path="/sse") as address:
        where = address.removesuffix("/mcp") + "/sse"
        async with connected(spec(where, sse=False)) as servers:
            [status] = servers.status()

    assert status.state != "ready"


@pytest.mark.slow
async def test_a_token_is_sent_with_every_message() -> None:
    seen: list[str | None] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(dict(scope["headers"]).get(b"x-key", b"").decode())
        await respond(send, 500, b"no")

    async with listening(app) as address, connected(spec(address, sse=True, headers={"X-Key": "k"})):
        pass

    assert set(seen) == {"k"}


async def respond(send: Any, status: int, body: bytes, kind: bytes = b"text/plain", **headers: bytes) -> None:
    extra = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *extra]})
    await send({"type": "http.response.body", "body": body})


App = Callable[[Any, Any, Any], Awaitable[None]]


@asynccontextmanager
async def listening(app: App) -> AsyncGenerator[str]:
    """Serve an application on a free port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1))

    async def run() -> None:
        await server.serve(sockets=[listener])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/sse"
        server.should_exit = True


async def hostile_app(kind: str, scope: Any, send: Any) -> None:
    match kind:
        case "redirect":
            await respond(send, 302, b"", location=b"http://127.0.0.1:1/sse")
        case "page":
            await respond(send, 200, b"<html>", b"text/html")
        case "other origin":
            await respond(send, 200, b"event: endpoint\ndata: http://other.example/m\n\n", b"text/event-stream")
        case "no endpoint":
            await respond(send, 200, b"event: message\ndata: {}\n\n", b"text/event-stream")
        case "compressed":
            await respond(send, 200, b"x", b"text/event-stream", content_encoding=b"gzip")
        case _:
            raise AssertionError(scope)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["redirect", "page", "other origin", "no endpoint", "compressed"])
async def test_a_hostile_server_is_not_connected(kind: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["method"] == "GET"
        await hostile_app(kind, scope, send)

    async with listening(app) as address, connected(spec(address, sse=True, start_timeout_seconds=5)) as servers:
        [status] = servers.status()

    assert status.state != "ready"
    assert status.error


async def test_a_refused_message_fails_only_its_call() -> None:
    """The server accepts the connection and refuses every call."""
    opened = anyio.Event()
    out: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "GET":
            out.append(send)
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await push(b"event: endpoint\ndata: /messages?session_id=1\n\n")
            await opened.wait()
            return
        await answer_post(receive, send)

    async def push(data: bytes) -> None:
        await out[0]({"type": "http.response.body", "body": data, "more_body": True})

    async def answer_post(receive: Any, send: Any) -> None:
        message = json.loads((await receive())["body"])
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "x", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
            "ping": {},
        }
        found = results.get(message["method"])
        if "id" in message and found is None:
            await respond(send, 500, b"no")
            return
        await respond(send, 202, b"")
        if "id" in message:
            answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": found})
            await push(f"event: message\ndata: {answer}\n\n".encode())

    async with listening(app) as address, connected(spec(address, sse=True)) as servers:
        outcome = await call(servers, "mcp__s__t")
        [status] = servers.status()
        opened.set()

    assert isinstance(outcome.result, Err)
    assert "refused" in outcome.result.error
    assert status.state == "ready"


@given(
    data=st.lists(st.text(alphabet=st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1), max_size=5),
    sizes=st.lists(st.integers(min_value=1, max_value=7), min_size=1),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_events_are_parsed_however_they_are_cut(data: list[str], sizes: list[int], end: str) -> None:
    stream = "".join(f"event: e{end}: comment{end}data: {each}{end}{end}" for each in data).encode()
    parser, found = EventParser(10_000), list[tuple[str, str]]()
    place = number = 0
    while place < len(stream):
        size = sizes[number % len(sizes)]
        found += parser.feed(stream[place : place + size])
        place, number = place + size, number + 1

    assert found == [("e", each) for each in data]


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 200 + b"\n\n", b"data: xxxxxxxxxx\n" * 20])
def test_an_event_over_the_limit_is_refused(stream: bytes) -> None:
    with pytest.raises(ValueError, match="limit"):
        list(EventParser(100).feed(stream))


@pytest.mark.parametrize("given", ["//evil.example/m", "https://a.example/m", "http://a.example:81/m", "a\x00b"])
def test_an_address_of_another_origin_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="address"):
        resolve_endpoint("http://a.example/sse", given)


def test_an_address_is_relative_to_the_stream() -> None:
    assert resolve_endpoint("http://a.example/x/sse", "messages?s=1") == "http://a.example/x/messages?s=1"


def test_a_local_server_has_no_such_transport() -> None:
    with pytest.raises(InvalidServerSpecError) as caught:
        ServerSpec(name="s", command="x", sse=True)

    assert caught.value.field == "sse"
