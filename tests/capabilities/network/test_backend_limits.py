"""Servers that are slow, huge, broken or not who they say they are."""

import gzip
import socket
import ssl
import zlib
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest
import trustme

from spindle.capabilities.declare import CallScope
from spindle.capabilities.network.backend import HttpNetwork, NetworkBackend
from spindle.errors import NetworkError
from tests.capabilities.loopback import Answer, Request, answer, serving

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

SCOPE = CallScope(tool="fetch", session_id="s1")


def handle(
    *,
    max_response_bytes: int = 100_000,
    timeout_seconds: float = 5,
    ssl_context: ssl.SSLContext | None = None,
) -> HttpNetwork:
    async def local(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    backend = NetworkBackend(
        ["*"],
        private_addresses=["127.0.0.0/8"],
        max_response_bytes=max_response_bytes,
        timeout_seconds=timeout_seconds,
        resolver=local,
        ssl_context=ssl_context,
    )
    return backend.open(("*",), SCOPE)


async def failure(respond: Answer, **options: Any) -> str:
    """Why reading the answer of such a server fails; its connection is closed afterwards."""
    with serving(respond) as server:
        with anyio.fail_after(30), pytest.raises(NetworkError) as caught:
            await (await handle(**options).get(server.url)).bytes()
        assert await anyio.to_thread.run_sync(server.left.wait, 30)
    assert caught.value.host == "127.0.0.1"
    return caught.value.reason


def raw(data: bytes) -> Answer:
    return lambda request, connection: data


def silent(request: Request, connection: socket.socket) -> bytes:
    connection.recv(1)  # until the client gives up
    return b""


def dripping(piece: bytes, head: bytes = b"") -> Answer:
    def drip(request: Request, connection: socket.socket) -> bytes:
        connection.sendall(head)
        connection.settimeout(0.01)
        while True:
            connection.sendall(piece)
            try:
                if not connection.recv(1):
                    return b""
            except TimeoutError:
                continue

    return drip


async def test_a_server_that_never_answers_is_given_up() -> None:
    assert await failure(silent, timeout_seconds=0.2) == "timeout"


async def test_headers_that_drip_in_do_not_hold_up_the_clock() -> None:
    assert await failure(dripping(b"x", b"HTTP/1.1 200 OK\r\nx-slow: "), timeout_seconds=0.3) == "timeout"


async def test_interim_answers_do_not_hold_up_the_clock() -> None:
    assert await failure(dripping(b"HTTP/1.1 102 Processing\r\n\r\n"), timeout_seconds=0.3) == "timeout"


async def test_a_body_that_drips_in_does_not_hold_up_the_clock() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 90000\r\n\r\n"
    assert await failure(dripping(b"x", head), timeout_seconds=0.3) == "timeout"


async def test_redirects_share_one_clock() -> None:
    def again(request: Request, connection: socket.socket) -> bytes:
        if request.path == "/":
            return answer("302 Found", location="/next")
        connection.recv(1)
        return b""

    assert await failure(again, timeout_seconds=0.3) == "timeout"


async def test_a_body_of_just_the_limit_is_read() -> None:
    with serving(raw(answer(body=bytes(1000)))) as server:
        assert len(await (await handle(max_response_bytes=1000).get(server.url)).bytes()) == 1000


async def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    assert await failure(raw(answer(content_length="100001")), max_response_bytes=100_000) == "too_large"


async def test_a_body_that_does_not_say_how_large_it_is_is_counted() -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    assert await failure(dripping(b"1000\r\n" + bytes(4096) + b"\r\n", chunked)) == "too_large"


async def test_a_body_without_end_is_counted() -> None:
    assert await failure(dripping(bytes(4096), b"HTTP/1.1 200 OK\r\n\r\n")) == "too_large"


def twice(data: bytes) -> bytes:
    return gzip.compress(gzip.compress(data))


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", bare),
        ("gzip, gzip", twice),
    ],
)
async def test_a_bomb_is_counted_after_decoding(coding: str, pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(bytes(50_000_000))
    assert len(bomb) < 100_000

    assert await failure(raw(answer(body=bomb, content_encoding=coding))) == "too_large"


async def test_a_bomb_gives_no_more_than_the_limit_to_a_stream() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    with serving(raw(answer(body=bomb, content_encoding="gzip"))) as server:
        response = await handle(max_response_bytes=200_000).get(server.url)
        given: list[int] = []

        async def take() -> None:
            async for chunk in response.stream():
                given.append(len(chunk))

        with pytest.raises(NetworkError) as caught:
            await take()

    assert caught.value.reason == "too_large"
    assert 0 < sum(given) <= 200_000


@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "gzip, gzip, gzip", "gzip, br"])
async def test_a_coding_that_was_not_asked_for_is_not_decoded(coding: str) -> None:
    assert await failure(raw(answer(body=b"x", content_encoding=coding))) == "decoding"


@pytest.mark.parametrize("body", [b"not gzip", gzip.compress(b"cut short")[:-3]], ids=["none", "cut"])
async def test_a_damaged_body_is_reported(body: bytes) -> None:
    assert await failure(raw(answer(body=body, content_encoding="gzip"))) == "decoding"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_packed_body_is_unpacked(coding: str) -> None:
    body = gzip.compress(b"hello") if coding == "gzip" else zlib.compress(b"hello")
    with serving(raw(answer(body=body, content_encoding=coding))) as server:
        assert await (await handle().get(server.url)).text() == "hello"


async def test_large_headers_are_refused() -> None:
    assert await failure(raw(answer(x_large="x" * 70_000))) == "too_large"
    assert await failure(raw(answer(x_huge="x" * 1_000_000))) == "protocol"


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
    ],
)
async def test_a_response_that_is_not_http_is_reported(data: bytes) -> None:
    assert await failure(raw(data)) == "protocol"


async def test_a_broken_connection_is_reported() -> None:
    def cut(request: Request, connection: socket.socket) -> bytes:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc")
        connection.shutdown(socket.SHUT_RDWR)
        return b""

    assert await failure(cut) in {"protocol", "connect"}


async def test_a_closed_port_is_reported() -> None:
    with serving(raw(b"")) as server:
        pass

    with pytest.raises(NetworkError) as caught:
        await handle().get(server.url)
    assert caught.value.reason == "connect"


@pytest.mark.parametrize("stage", ["headers", "body"])
async def test_a_cancelled_request_closes_its_connection(stage: str) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n" if stage == "body" else b""

    def stalled(request: Request, connection: socket.socket) -> bytes:
        connection.sendall(head)
        connection.recv(1)
        return b""

    async def ask() -> None:
        await (await handle(timeout_seconds=60).get(server.url)).bytes()

    with serving(stalled) as server, anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            assert await anyio.to_thread.run_sync(server.asked.wait, 30)
            tasks.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(server.left.wait, 30)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def secured(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Its hints name a type of another TLS library.
    authority.issue_cert(*names).configure_cert(context)  # pyright: ignore[reportUnknownMemberType]
    return context


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]  as above
    return context


async def test_tls_is_verified_against_the_name_and_not_the_dialled_address(authority: trustme.CA) -> None:
    shown: list[str] = []
    tls = secured(authority, "api.example")
    tls.sni_callback = lambda stream, name, context: shown.append(name)
    with serving(raw(answer(body=b"safe")), tls=tls) as server:
        network = handle(ssl_context=trusting(authority))
        assert await (await network.get(f"https://api.example:{server.port}/")).text() == "safe"

    assert shown == ["api.example"]


async def test_an_address_is_verified_as_one(authority: trustme.CA) -> None:
    with serving(raw(answer(body=b"safe")), tls=secured(authority, "127.0.0.1")) as server:
        network = handle(ssl_context=trusting(authority))

        assert await (await network.get(f"https://127.0.0.1:{server.port}/")).text() == "safe"


@pytest.mark.parametrize("case", ["wrong host", "address only", "unknown authority"])
async def test_a_certificate_that_does_not_fit_is_refused(authority: trustme.CA, case: str) -> None:
    names = {"wrong host": "other.example", "address only": "127.0.0.1", "unknown authority": "api.example"}
    issuer = trustme.CA() if case == "unknown authority" else authority
    tls = secured(issuer, names[case])
    with serving(raw(answer(body=b"never")), tls=tls) as server, pytest.raises(NetworkError) as caught:
        await handle(ssl_context=trusting(authority)).get(f"https://api.example:{server.port}/")

    assert (caught.value.reason, caught.value.host) == ("tls", "api.example")
    assert server.requests == []


async def test_by_default_only_known_authorities_are_trusted(authority: trustme.CA) -> None:
    tls = secured(authority, "api.example")
    with serving(raw(answer()), tls=tls) as server, pytest.raises(NetworkError) as caught:
        await handle().get(f"https://api.example:{server.port}/")

    assert caught.value.reason == "tls"


@pytest.mark.slow
async def test_a_handshake_that_never_ends_is_given_up_and_its_connection_closed(authority: trustme.CA) -> None:
    network = handle(timeout_seconds=1, ssl_context=trusting(authority))
    with serving(raw(b"")) as server:  # it waits for a request, and TLS is none
        with pytest.raises(NetworkError) as caught:
            await network.get(f"https://api.example:{server.port}/")
        assert await anyio.to_thread.run_sync(server.left.wait, 30)

    assert caught.value.reason == "timeout"
