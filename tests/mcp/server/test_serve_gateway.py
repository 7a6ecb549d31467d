"""The gateway in front of real upstream processes: what its clients see of them, and when they are notified."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.client import Client

from spindle import Executor, ToolRegistry, tool
from spindle.mcp.server.serve import Gateway, propagate_changes
from spindle.mcp.server.tool_server import Caller, ToolServer
from tests.mcp.gateways import LEGACY, MODERN, SERVERS, code_of, hostile, inside, names_of, text_of

pytestmark = pytest.mark.anyio

both_revisions = pytest.mark.parametrize("mode", [LEGACY, MODERN])
NOTHING: dict[str, Any] = {}
ALONE = '[profiles.alone]\nallowed_mcp_servers = ["one"]\n'


@tool
def local() -> str:
    """Run here."""
    return "here"


@tool
def later() -> str:
    """Come later."""
    return "it came"


def known_as(key: str, profile: str | None = None) -> Callable[[Any], Caller]:
    return lambda _ctx: Caller(key=key, profile=profile)


@pytest.mark.slow
@both_revisions
async def test_tools_of_each_server_have_its_name_as_a_prefix(mode: str, tmp_path: Path) -> None:
    async with inside(tmp_path, hostile("one") + hostile("two")) as gateway, gateway.client(mode) as client:
        names = await names_of(client)
        said = await client.call_tool("mcp__two__ok", {"say": "from two"})

    assert {"mcp__one__ok", "mcp__two__ok", "artifact_head"} <= set(names)
    assert text_of(said) == "from two"


@pytest.mark.slow
@both_revisions
async def test_a_profile_sees_and_reaches_only_its_servers(mode: str, tmp_path: Path) -> None:
    config = hostile("one") + hostile("two") + ALONE
    async with inside(tmp_path, config, identify=known_as("me", "alone")) as gateway, gateway.client(mode) as client:
        names = await names_of(client)
        refused = await client.call_tool("mcp__two__ok", {})

    assert not any(name.startswith("mcp__two__") for name in names)
    assert code_of(refused) == "not_available"


@pytest.mark.slow
async def test_an_upstream_tool_that_is_added_or_removed_is_notified_listed_and_callable(tmp_path: Path) -> None:
    reported = anyio.Event()

    async def received(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            reported.set()

    async with inside(tmp_path, hostile("up")) as gateway, gateway.client(LEGACY, message_handler=received) as client:
        before = await names_of(client)
        await client.call_tool("mcp__up__grow", {"name": "fresh"})
        await reported.wait()
        grown = await names_of(client)
        ran = await client.call_tool("mcp__up__fresh", {})
        reported = anyio.Event()
        await client.call_tool("mcp__up__grow", {})
        await reported.wait()
        after = await names_of(client)
        gone = await client.call_tool("mcp__up__fresh", {})

    assert set(grown) - set(before) == {"mcp__up__fresh"}
    assert code_of(ran) is None
    assert after == before
    assert code_of(gone) == "not_available"


async def test_the_newer_revision_notifies_subscribers_of_changes(tmp_path: Path) -> None:
    async with inside(tmp_path, hostile("up")) as gateway, gateway.client(MODERN) as client:
        before = await names_of(client)
        async with client.listen(tools_list_changed=True) as news:
            await client.call_tool("mcp__up__grow", {"name": "fresh"})
            await anext(aiter(news))
        after = await names_of(client)

    assert set(after) - set(before) == {"mcp__up__fresh"}


async def test_many_changes_at_once_are_notified_once() -> None:
    registry = ToolRegistry([local])
    server = ToolServer(Executor(registry), registry)
    reported: list[str] = []

    async def report() -> None:
        reported.append("changed")

    server.tools_changed = report
    with anyio.fail_after(30):
        async with propagate_changes(server, lambda listener: lambda: None) as gateway:
            for _ in range(100):
                gateway.changed()
            await anyio.wait_all_tasks_blocked()

    assert isinstance(gateway, Gateway)
    assert reported == ["changed"]


@both_revisions
async def test_a_list_and_an_unknown_tool_wait_for_tools_that_are_about_to_come(mode: str) -> None:
    ready, registry = anyio.Event(), ToolRegistry([local])
    server = ToolServer(Executor(registry), registry, tools_ready=ready)
    done: list[Any] = []
    with anyio.fail_after(30):
        async with Client(server.sdk, mode=mode) as client, anyio.create_task_group() as tasks:

            async def ask_for(what: Callable[[], Any]) -> None:
                done.append(await what())

            tasks.start_soon(ask_for, client.list_tools)
            tasks.start_soon(ask_for, lambda: client.call_tool("later", {}))
            await anyio.wait_all_tasks_blocked()
            assert done == []
            registry.register(later)
            await server.tools_changed()
            ready.set()

    listed = next(each for each in done if isinstance(each, types.ListToolsResult))
    called = next(each for each in done if isinstance(each, types.CallToolResult))
    assert "later" in [each.name for each in listed.tools]
    assert code_of(called) is None


async def test_a_question_without_a_call_is_declined_while_two_clients_call(tmp_path: Path) -> None:
    asked: list[str] = []
    said: list[str] = []

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with inside(tmp_path, hostile("up"), identify=known_as("first")) as gateway:
        other = ToolServer(gateway.runtime.executor, gateway.runtime.registry, identify=known_as("second"))
        async with (
            gateway.client(LEGACY, elicitation_callback=answer) as first,
            Client(other.sdk, mode=LEGACY, elicitation_callback=answer) as second,
            anyio.create_task_group() as tasks,
        ):
            said.append(text_of(await first.call_tool("mcp__up__ask", {})))
            tasks.start_soon(second.call_tool, "mcp__up__hang", NOTHING)
            await _are_running(other, 1)
            said.append(text_of(await first.call_tool("mcp__up__ask", {})))
            tasks.cancel_scope.cancel()

    alone, beside = map(json.loads, said)
    assert alone == {"action": "accept", "content": {"name": "Ada"}}
    assert beside == {"action": "decline"}
    assert len(asked) == 1


async def _are_running(server: ToolServer, count: int) -> None:
    while server.load.running != count:
        await anyio.wait_all_tasks_blocked()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["stdio", "http"])
@both_revisions
async def test_one_trace_spans_client_gateway_and_upstream(mode: str, way: str, anyio_backend_name: str) -> None:
    if anyio_backend_name == "trio":
        pytest.skip("the program under test has a loop of its own")
    done = await anyio.run_process([sys.executable, str(SERVERS / "traced.py"), mode, way], stderr=subprocess.PIPE)
    report = json.loads(done.stdout)
    spans = {span["id"]: span for span in report["spans"]}

    _, trace, innermost, _ = report["trace"].split("-")
    chain: list[str] = []
    span = spans[innermost]
    while span is not None:
        assert span["trace"] == trace
        chain.append(span["name"])
        span = spans.get(span["parent"])
    assert chain[:3] == ["MCP send tools/call trace", "execute_tool mcp__up__trace", "tools/call mcp__up__trace"]
    assert chain[-1] == "the user's own"
