"""The scripted server answers real clients, and breaks off at a chosen point."""

import anyio
import httpx2
import pytest

from tests.bridges.wire.server import WireServer, json_answer, sse_answer

pytestmark = pytest.mark.anyio


async def test_requests_are_answered_in_order_and_kept() -> None:
    async with (
        WireServer.playing(
            json_answer({"n": 1}), json_answer({"n": 2}, status=429, headers={"retry-after": "1"})
        ) as server,
        httpx2.AsyncClient(timeout=60) as client,
    ):
        first = await client.post(f"{server.url}/v1/a", json={"x": 1})
        second = await client.get(f"{server.url}/v1/b")
        third = await client.get(f"{server.url}/v1/c")

    assert (first.json(), second.status_code, second.headers["retry-after"]) == ({"n": 1}, 429, "1")
    assert third.status_code == 418
    assert [(each.method, each.path) for each in server.requests[:2]] == [("POST", "/v1/a"), ("GET", "/v1/b")]
    assert server.requests[0].json == {"x": 1}


async def test_a_cut_stream_ends_without_its_end() -> None:
    whole = sse_answer([{"type": "a"}, "not json"], is_named=True, end="[DONE]")
    cut = sse_answer([{"type": "a"}, "not json"], is_named=True, end="[DONE]", cut_after=30)
    async with WireServer.playing(whole, cut) as server, httpx2.AsyncClient(timeout=60) as client:
        got = await client.get(server.url)
        assert got.text == 'event: a\ndata: {"type": "a"}\n\ndata: not json\n\ndata: [DONE]\n\n'
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get(server.url)


async def test_a_client_that_leaves_an_answer_that_holds_is_noticed() -> None:
    async with WireServer.playing(sse_answer(["x"], holds=True)) as server:
        async with await anyio.connect_tcp("127.0.0.1", server.port) as client:
            await client.send(b"GET / HTTP/1.1\r\n\r\n")
            with anyio.fail_after(30):
                await server.arrived.wait()
            assert not server.left.is_set()
        with anyio.fail_after(30):
            await server.left.wait()
