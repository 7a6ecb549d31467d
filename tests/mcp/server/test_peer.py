"""What a call sends to its client while it runs: at once, in bounds, and only what the client wants."""

from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from mcp.client.client import Client

from spindle import Backends, Capabilities, Events, Gate, ToolContext, tool
from spindle.mcp.server import peer
from spindle.mcp.server.sessions import McpSession
from tests.mcp.asking_clients import LEGACY, MODERN, Asked, connected

pytestmark = pytest.mark.anyio

both_revisions = pytest.mark.parametrize("mode", [LEGACY, MODERN])
AT_LEVEL: dict[str, dict[str, Any]] = {LEGACY: {}, MODERN: {"log_level": "info"}}


async def set_level(client: Client, mode: str, level: Any = "info") -> None:
    """As the older protocol has it; on the newer one each request says it."""
    if mode == LEGACY:
        wanted = types.SetLevelRequest(params=types.SetLevelRequestParams(level=level))
        await client.session.send_request(wanted, types.EmptyResult)


@tool
async def talk(lines: int = 1, *, ctx: ToolContext) -> str:
    """Log on every level."""
    for number in range(lines):
        ctx.log("debug", "not wanted")
        ctx.log("info", f"line {number}", number=number)
    ctx.log("error", "bad \ud800")
    return "done"


@both_revisions
async def test_a_client_gets_the_lines_of_the_levels_it_wants(mode: str) -> None:
    asked = Asked()
    async with connected(talk, mode=mode, asked=asked, **AT_LEVEL[mode]) as client:
        await set_level(client, mode)
        await client.call_tool("talk", {})
        while len(asked.lines) < 2:
            await anyio.lowlevel.checkpoint()

    assert [(each.level, each.logger, each.data) for each in asked.lines] == [
        ("info", "talk", {"message": "line 0", "number": 0}),
        ("error", "talk", "bad ?"),
    ]


@both_revisions
async def test_a_client_that_did_not_ask_for_lines_gets_none(mode: str) -> None:
    asked = Asked()
    async with connected(talk, mode=mode, asked=asked) as client:
        await client.call_tool("talk", {})
        await client.call_tool("talk", {})

    assert asked.lines == []


@both_revisions
async def test_a_line_arrives_while_the_call_runs(mode: str) -> None:
    go_on = anyio.Event()

    class Eager(Asked):
        async def log(self, params: types.LoggingMessageNotificationParams) -> None:
            go_on.set()

    @tool
    async def patient(*, ctx: ToolContext) -> str:
        """Continue once the client has received the line."""
        ctx.log("info", "heard?")
        await go_on.wait()
        return "done"

    async with connected(patient, mode=mode, asked=Eager(), **AT_LEVEL[mode]) as client:
        await set_level(client, mode)
        result = await client.call_tool("patient", {})

    assert not result.is_error


async def test_a_parked_call_notifies_the_request_that_waits_for_it_now() -> None:
    asked = Asked()

    @tool
    async def asking(*, ctx: ToolContext) -> str:
        """Talk before and after a question."""
        for number in range(3):
            ctx.log("info", f"line {number}")
            await ctx.wait_for(Gate("sure", timeout_seconds=60))
        ctx.log("info", "last line")
        return "done"

    async with connected(asking, mode=MODERN, asked=asked, log_level="info") as client:
        await client.call_tool("asking", {})

    assert [each.data for each in asked.lines] == ["line 0", "line 1", "line 2", "last line"]


@dataclass
class Waiting:
    """A request that waits for a call, and the progress it receives."""

    meta: dict[str, Any]
    received: list[tuple[float, float | None, str]] = field(default_factory=list[tuple[float, float | None, str]])
    protocol_version: str = MODERN

    @property
    def session(self) -> "Waiting":
        return self

    async def report_progress(self, *reported: Any) -> None:
        self.received.append(reported)


async def test_progress_goes_to_the_request_that_waits_now_if_it_wants_any() -> None:
    events = Events()
    ctx, lines = ToolContext(events=events), peer.ClientNotifier(events)
    session = McpSession("alice", None, lists_artifacts=True)
    first, second, third = Waiting({"progress_token": 1}), Waiting({}), Waiting({"progress_token": 2})
    for request, message in ((first, "one"), (second, "two"), (third, "three")):
        async with lines.send_to(cast("Any", request), session):
            ctx.progress(message, percent=10)

    assert first.received == [(10, 100, "one")]
    assert second.received == []
    assert third.received == [(10.001, 100, "three")]


async def test_a_tool_cannot_flood_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "MAX_LINES", 3)
    monkeypatch.setattr(peer, "MAX_LINE_CHARS", 10)
    asked = Asked()

    @tool
    async def flood(*, ctx: ToolContext) -> str:
        """Log without end, and long lines."""
        ctx.log("info", "x" * 1_000_000, facts=["y" * 1_000_000])
        for _ in range(1_000):
            ctx.log("error", "more")
        return "done"

    async with connected(flood, mode=MODERN, asked=asked, log_level="info") as client:
        await client.call_tool("flood", {})

    assert [each.level for each in asked.lines] == ["info", "error", "error", "error"]
    assert [each.data for each in asked.lines[1:3]] == ["more", "more"]
    assert all(len(str(each.data)) < 100 for each in asked.lines)


async def test_a_line_holds_no_secret() -> None:
    asked = Asked()

    @tool(capabilities=Capabilities(secrets=["KEY", "PIN"]))
    async def leaky(*, ctx: ToolContext) -> str:
        """Log too much."""
        key, pin = (await ctx.secrets.get("KEY")).reveal(), (await ctx.secrets.get("PIN")).reveal()
        ctx.log("info", f"my key is {key}", deep=[{"key": key}])
        ctx.log("info", "my pin", pin=int(pin))
        ctx.log("info", "neither", secret=await ctx.secrets.get("KEY"), itself=ctx)
        return "done"

    backends = Backends.local(".", secrets={"KEY": 'hunter2-"hunter2', "PIN": "83920174"})
    async with connected(leaky, mode=MODERN, asked=asked, log_level="debug", backends=backends) as client:
        await client.call_tool("leaky", {})

    shown = str([each.data for each in asked.lines])
    assert len(asked.lines) == 3
    assert "hunter2" not in shown
    assert "83920174" not in shown


@both_revisions
async def test_a_plain_function_in_its_thread_logs_too(mode: str) -> None:
    asked = Asked()

    @tool
    def plain(*, ctx: ToolContext) -> str:
        """Log from a thread."""
        ctx.log("warn", "by another name")
        ctx.log("loud", "no level at all")
        return "done"

    async with connected(plain, mode=mode, asked=asked, **AT_LEVEL[mode]) as client:
        await set_level(client, mode)
        await client.call_tool("plain", {})
        while len(asked.lines) < 2:
            await anyio.lowlevel.checkpoint()

    assert [each.level for each in asked.lines] == ["warning", "info"]


async def test_a_client_that_does_not_listen_holds_up_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "FLUSH_SECONDS", 0.01)

    async def stuck(*_: Any) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(peer.ClientNotifier, "_send", stuck)
    async with connected(talk, mode=MODERN, log_level="info") as client:
        result = await client.call_tool("talk", {"lines": 500})

    assert not result.is_error
