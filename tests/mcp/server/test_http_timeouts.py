"""Connections that hold on without asking anything."""

import socket

import anyio
import anyio.to_thread
import pytest

from spindle.mcp.server import serve
from tests.mcp.server.test_http import served

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn supports only asyncio


@pytest.mark.slow
@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /health HT",
    ],
    ids=["nothing", "half a header", "half a body", "half a second request"],
)
async def test_a_request_that_never_comes_to_its_end_is_hung_up_on(
    begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "REQUEST_TIMEOUT_SECONDS", 0.4)  # enough to send what is begun

    def held(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(begun)
            said = b""
            while chunk := connection.recv(65_536):
                said += chunk
            return said

    async with served() as address:
        port = int(address.split(":")[2].split("/")[0])
        said = await anyio.to_thread.run_sync(held, port)

    assert said.count(b"HTTP/1.1 200") == begun.count(b"\r\n\r\nGET")


@pytest.mark.slow
async def test_a_connection_with_occasional_requests_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "REQUEST_TIMEOUT_SECONDS", 1)
    request = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

    def asking(port: int) -> int:
        """Return the number of requests that were answered before the server hung up."""
        answers = 0
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            for _ in range(20):
                connection.sendall(request)
                said = b""
                while not said.endswith(b"}"):
                    if not (chunk := connection.recv(65_536)):
                        return answers
                    said += chunk
                answers += b"200 OK" in said
                anyio.from_thread.run(anyio.sleep, 0.12)  # all of them: more than twice its patience
        return answers

    answers = 0
    async with served() as address:
        port = int(address.split(":")[2].split("/")[0])
        for _ in range(3):  # a busy machine may hold this thread longer than the server's patience, but not each time
            answers = await anyio.to_thread.run_sync(asking, port)
            if answers == 20:
                break

    assert answers == 20
