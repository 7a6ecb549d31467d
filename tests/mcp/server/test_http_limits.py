"""Limits of the HTTP server: fair slots, calls of a session, sessions, and requests of a token."""

from typing import Any

import anyio
import httpx
import pytest
from mcp.shared.exceptions import MCPError

from spindle import Tool, tool
from tests.mcp.server.test_http import READER, TOKENS, WRITER, client_of, served, text_of
from tests.mcp.server.test_http_attacks import ABOUT, INITIALIZE, PLAIN

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn supports only asyncio


class Held:
    """A tool whose calls run until the test releases them."""

    def __init__(self) -> None:
        self.running = 0
        self.changed = anyio.Event()
        self.released = anyio.Event()

    async def run(self) -> str:
        self.running += 1
        self.changed.set()
        self.changed = anyio.Event()
        await self.released.wait()
        return "held"

    def tool(self) -> Tool:
        async def hold() -> str:
            """Hold."""
            return await self.run()

        return tool(hold)

    async def until(self, count: int) -> None:
        with anyio.fail_after(30):
            while self.running < count:
                await self.changed.wait()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_quick_call_does_not_wait_for_the_slow_calls_of_another_client(mode: str) -> None:
    held, answer, running = Held(), "", 0
    async with (
        served(held.tool(), concurrency=4, tokens=TOKENS) as address,
        client_of(address, mode, WRITER) as greedy,
        client_of(address, mode, READER) as other,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(20):
            tasks.start_soon(greedy.call_tool, "hold")
        await held.until(2)
        with anyio.fail_after(30):
            answer = text_of(await other.call_tool("lines", {"count": 1}))
        running = held.running
        held.released.set()

    assert "line 0" in answer
    assert running == 2  # half of the slots


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_calls_beyond_the_limit_of_a_session_are_refused_until_one_has_ended(mode: str) -> None:
    held, said, answers = Held(), "", list[Any]()
    async with (
        served(held.tool(), max_calls=2, tokens=TOKENS) as address,
        client_of(address, mode, WRITER) as client,
        client_of(address, mode, READER) as other,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(2):
            tasks.start_soon(client.call_tool, "hold")
        await held.until(2)
        with pytest.raises(MCPError) as caught:
            await client.call_tool("write", {"text": "x"})
        said = str(caught.value)
        answers += [await client.list_tools(), await other.call_tool("lines", {"count": 1})]
        held.released.set()

    assert "max_calls_per_session" in said
    assert answers[0].tools
    assert not answers[1].is_error


async def test_a_refused_call_has_the_status_429_and_says_when_to_come_back() -> None:
    held, answers = Held(), list[httpx.Response]()
    call: dict[str, Any] = {"name": "hold", "arguments": {}, "_meta": ABOUT}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}
    headers = PLAIN | {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "hold"}
    async with (
        served(held.tool(), max_calls=1) as address,
        httpx.AsyncClient(timeout=30) as http,
        anyio.create_task_group() as tasks,
    ):

        async def first() -> None:
            await http.post(address, json=message, headers=headers)

        tasks.start_soon(first)
        await held.until(1)
        answers.append(await http.post(address, json=message, headers=headers))
        held.released.set()

    [refused] = answers
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["id"] == 7
    assert "max_calls_per_session" in refused.json()["error"]["message"]


async def test_sessions_beyond_the_limit_are_refused_until_one_has_ended() -> None:
    async with served(max_sessions=2) as address, httpx.AsyncClient(timeout=30) as http:
        opened = [await http.post(address, json=INITIALIZE, headers=PLAIN) for _ in range(2)]
        refused = await http.post(address, json=INITIALIZE, headers=PLAIN)
        session = opened[0].headers["mcp-session-id"]
        await http.delete(address, headers=PLAIN | {"mcp-session-id": session})
        again = await http.post(address, json=INITIALIZE, headers=PLAIN)

    assert [each.status_code for each in opened] == [200, 200]
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert "max_sessions" in refused.json()["error"]["message"]
    assert again.status_code == 200


async def test_requests_of_a_token_beyond_its_rate_are_refused_and_those_of_others_are_not() -> None:
    async with served(max_requests_per_minute=3, tokens=TOKENS) as address, httpx.AsyncClient(timeout=30) as http:
        where = address.removesuffix("/mcp") + "/health"
        mine = [await http.get(where, headers={"Authorization": f"Bearer {READER}"}) for _ in range(4)]
        others = await http.get(where, headers={"Authorization": f"Bearer {WRITER}"})

    assert [each.status_code for each in mine] == [200, 200, 200, 429]
    assert 1 <= int(mine[-1].headers["retry-after"]) <= 20
    assert "max_requests_per_minute" in mine[-1].json()["error"]["message"]
    assert others.status_code == 200
