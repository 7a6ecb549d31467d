"""The network handle against real servers on loopback: what it sends, what it gives, how it keeps connections."""

import socket
import sys
import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest

from spindle.capabilities.declare import CallScope
from spindle.capabilities.network.backend import HttpNetwork, NetworkBackend
from spindle.capabilities.network.handle import Response
from spindle.errors import CapabilityError, HostNotAllowedError, MissingExtraError, NetworkError
from tests.capabilities.loopback import Request, Server, answer, serving

pytestmark = pytest.mark.anyio

SCOPE = CallScope(tool="fetch", session_id="s1", turn_id="t1")
LOOPBACK = ["127.0.0.0/8"]


def handle(need: tuple[str, ...] = ("*",), **options: Any) -> HttpNetwork:
    settings: dict[str, Any] = {"hosts": ["*"], "private_addresses": LOOPBACK, "timeout_seconds": 5, **options}
    return NetworkBackend(**settings).open(need, SCOPE)


def echo(request: Request, connection: socket.socket) -> bytes:
    return answer(body=request.body or request.path.encode(), content_type="text/plain; charset=utf-8", x_seen="yes")


async def until(event: threading.Event) -> None:
    """Wait for what a server's thread will set."""
    assert await anyio.to_thread.run_sync(event.wait, 30)


async def text_of(network: HttpNetwork, url: str) -> str:
    return await (await network.get(url)).text()


async def test_an_answer_has_status_headers_url_and_body() -> None:
    with serving(echo) as server:
        response = await handle().get(f"{server.url}/a?b=c#d")

        assert isinstance(response, Response)
        assert (response.status, response.url) == (200, f"{server.url}/a?b=c")
        assert response.headers["X-Seen"] == "yes"
        assert await response.text() == "/a?b=c"


async def test_a_request_carries_method_headers_and_body() -> None:
    with serving(echo) as server:
        response = await handle().request("put", server.url, headers={"X-Api-Key": "k"}, content=b"data")
        assert await response.bytes() == b"data"

    (seen,) = server.requests
    assert (seen.method, seen.body, seen.headers["x-api-key"]) == ("PUT", b"data", "k")
    assert seen.headers["host"] == f"127.0.0.1:{server.port}"


async def test_json_goes_out_and_comes_back() -> None:
    with serving(echo) as server:
        response = await handle().post(server.url, json={"name": "Ada"})
        assert await response.json() == {"name": "Ada"}

    assert server.requests[0].headers["content-type"] == "application/json"


async def test_an_error_status_is_an_answer_too() -> None:
    with serving(lambda request, connection: answer("404 Not Found", b"nothing here")) as server:
        response = await handle().get(server.url)

        assert (response.status, await response.text()) == (404, "nothing here")


async def test_the_body_of_a_head_request_is_empty() -> None:
    with serving(lambda request, connection: answer(content_length="999999999")) as server:
        response = await handle().request("HEAD", server.url)

        assert await response.bytes() == b""
        assert response.headers["content-length"] == "999999999"


async def test_a_body_streams_while_it_is_still_being_sent() -> None:
    def slowly(request: Request, connection: socket.socket) -> bytes:
        connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        taken.wait(30)
        return b"6\r\nsecond\r\n0\r\n\r\n"

    with serving(slowly) as server:
        taken = threading.Event()
        with anyio.fail_after(30):
            response = await handle().get(server.url)
            stream = response.stream()
            assert await anext(stream) == b"first"
            taken.set()
            assert [chunk async for chunk in stream] == [b"second"]


async def test_a_connection_is_closed_when_its_answer_has_been_read() -> None:
    with serving(echo) as server:
        await text_of(handle(), server.url)

        await until(server.left)


async def test_a_connection_is_closed_when_the_handle_is() -> None:
    with serving(echo) as server:
        network = handle()
        await network.get(server.url)
        assert not server.left.is_set()

        await network.aclose()

        await until(server.left)


async def test_a_response_can_be_left_unread() -> None:
    with serving(lambda request, connection: answer(body=bytes(5_000_000))) as server:
        async with await handle().get(server.url) as response:
            assert response.status == 200

        await until(server.left)


async def test_inside_the_backends_block_connections_are_used_again_also_between_calls() -> None:
    with serving(echo) as server:
        async with NetworkBackend(["*"], private_addresses=LOOPBACK) as backend:
            for path in ("/a", "/b", "/c"):
                network = backend.open(("*",), SCOPE)
                assert await text_of(network, server.url + path) == path
                await network.aclose()
            assert server.connections == 1

        await until(server.left)


async def test_blocks_of_one_backend_may_overlap() -> None:
    with serving(echo) as server:
        backend = NetworkBackend(["*"], private_addresses=LOOPBACK)
        network = backend.open(("*",), SCOPE)
        async with backend:
            async with backend:
                await text_of(network, server.url)
            await text_of(network, server.url)
            assert server.connections == 1
        await text_of(network, server.url)
        assert server.connections == 2


async def test_a_kept_connection_serves_only_tools_that_may_reach_its_host() -> None:
    with serving(echo) as server:
        async with NetworkBackend(["*"], private_addresses=LOOPBACK) as backend:
            await text_of(backend.open(("127.0.0.1",), SCOPE), server.url)
            with pytest.raises(HostNotAllowedError):
                await backend.open(("other.example",), SCOPE).get(server.url)

    assert len(server.requests) == 1


async def test_cookies_are_never_kept() -> None:
    with serving(lambda request, connection: answer(set_cookie="a=b; Path=/")) as server:
        async with NetworkBackend(["*"], private_addresses=LOOPBACK) as backend:
            network = backend.open(("*",), SCOPE)
            await text_of(network, server.url)
            await text_of(network, server.url)

    assert [request.headers.get("cookie") for request in server.requests] == [None, None]


async def test_the_environment_does_not_steer_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(echo) as proxy, serving(echo) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert await text_of(handle(), f"{server.url}/direct") == "/direct"

    assert proxy.connections == 0


async def all_at_once(server: Server, network: HttpNetwork, count: int) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(text_of, network, f"{server.url}/{number}")


async def test_no_more_connections_than_granted_are_open_at_a_time() -> None:
    most = 0
    now: list[int] = []

    def counted(request: Request, connection: socket.socket) -> bytes:
        nonlocal most
        now.append(1)
        most = max(most, len(now))
        two_inside.set() if len(now) == 2 else None
        two_inside.wait(30)
        now.pop()
        return answer(connection="close")

    with serving(counted) as server:
        two_inside = threading.Event()
        with anyio.fail_after(30):
            await all_at_once(server, handle(max_connections=2), 6)

    assert (most, len(server.requests)) == (2, 6)


@pytest.mark.slow
async def test_a_wait_for_a_free_connection_ends_too() -> None:
    with serving(echo) as server:
        network = handle(max_connections=1, timeout_seconds=1)
        first = await network.get(server.url)

        with pytest.raises(NetworkError) as caught:
            await network.get(server.url)

        assert caught.value.reason == "timeout"
        await first.aclose()


async def test_an_error_names_the_tool_the_host_and_not_the_url() -> None:
    with pytest.raises(HostNotAllowedError) as caught:
        await handle(("api.example",)).get("https://other.example/?key=sesame")

    assert (caught.value.tool, caught.value.host) == ("fetch", "other.example")
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"max_response_bytes": 0},
        {"timeout_seconds": 0},
        {"timeout_seconds": float("nan")},
        {"max_redirects": -1},
        {"max_connections": 0},
        {"hosts": "a.example"},
        {"hosts": ["https://a.example"]},
        {"private_addresses": ["x"]},
    ],
)
async def test_a_backend_with_bad_settings_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(CapabilityError):
        handle(**options)


async def test_a_declared_host_that_is_not_a_pattern_is_refused() -> None:
    with pytest.raises(CapabilityError):
        handle(("https://api.example/",))


def test_one_backend_serves_one_event_loop_after_another() -> None:
    with serving(echo) as server:
        network = handle()
        for backend in ("asyncio", "trio", "asyncio"):
            assert anyio.run(text_of, network, f"{server.url}/x", backend=backend) == "/x"


def test_without_the_http_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("backend_dialer", "backend_exchange"):
        monkeypatch.delitem(sys.modules, f"spindle.capabilities.network.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "httpcore2", None)

    with pytest.raises(MissingExtraError) as caught:
        NetworkBackend()
    assert ".[network]" in str(caught.value)
