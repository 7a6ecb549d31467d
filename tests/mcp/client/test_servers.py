"""The client against real servers, written with the official SDK: over stdio, and over loopback HTTP in both eras."""

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle import Call as SpindleCall
from spindle import DispatchContext, Err, Events, Ok, ToolContext, TurnRunner
from spindle.errors import InvalidServerSpecError, UsageError
from spindle.mcp.client.servers import McpServers
from spindle.mcp.spec import ServerSpec
from tests.mcp.upstreams import EventLog, call, calls, changed_to, connected, everything, hostile, serving_everything

pytestmark = [
    pytest.mark.anyio,
    # The SDK leaves a stream of events when its last one came; trio would have it read to the end.
    pytest.mark.filterwarnings("ignore:Async generator '(httpx2|httpcore2|spindle.mcp.client.http):ResourceWarning"),
]


@pytest.fixture(scope="module")
def newer() -> Generator[str]:
    with serving_everything() as url:
        yield url


@pytest.fixture(scope="module")
def older() -> Generator[str]:
    with serving_everything(is_older=True) as url:
        yield url


@pytest.fixture(params=["newer", "older"])
def url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(request.param)


def web(url: str, **more: Any) -> ServerSpec:
    return ServerSpec(name="e", url=url, **more)


def text_of(outcome: Any) -> str:
    assert isinstance(outcome.result, Ok), outcome.result
    return outcome.result.value


@pytest.mark.slow
async def test_a_real_server_over_stdio_serves_calls_side_by_side() -> None:
    async with connected(everything()) as servers:
        assert servers.status()[0].protocol_version == "2026-07-28"
        outcomes = await calls(servers, *[("mcp__e__add", {"a": n, "b": 1}) for n in range(20)])
        names = text_of(await call(servers, "mcp__e__variables")).split()
        home = text_of(await call(servers, "mcp__e__variable", {"name": "HOME"}))
        assert await anyio.Path(home).is_dir()

        await call(servers, "mcp__e__grow")
        await changed_to(servers, lambda: servers.registry.has("mcp__e__extra"))

    assert [text_of(outcome) for outcome in outcomes] == [str(n + 1) for n in range(20)]
    assert {"PATH", "HOME", "TMPDIR"} <= set(names)
    assert "PYTEST_CURRENT_TEST" not in names
    assert not await anyio.Path(home).exists()


async def test_both_revisions_of_the_protocol_are_spoken(newer: str, older: str) -> None:
    async with connected(web(newer), ServerSpec(name="o", url=older)) as servers:
        versions = [status.protocol_version for status in servers.status()]
        texts = [text_of(outcome) for outcome in await calls(servers, ("mcp__e__point", {}), ("mcp__o__point", {}))]

    assert versions == ["2026-07-28", "2025-11-25"]
    assert texts[0] == texts[1]


async def test_results_come_in_all_their_kinds(url: str) -> None:
    async with connected(web(url)) as servers:
        rich, point, nothing, failed, bare = await calls(
            servers,
            ("mcp__e__rich", {}),
            ("mcp__e__point", {}),
            ("mcp__e__nothing", {}),
            ("mcp__e__broken", {"text": "out of paper"}),
            ("mcp__e__broken", {}),
        )

    assert isinstance(rich.result, Ok)
    assert [media.kind for media in rich.result.media] == ["image", "document", "document"]
    assert {media.trust_tier for media in rich.result.media} == {"third-party-public"}
    assert isinstance(point.result, Ok)
    assert point.result.structured == {"x": 1, "y": 2}
    assert "Structured Data" not in point.result.value
    assert text_of(nothing) == "(no output)"
    assert failed.result == Err("execution_failed", "out of paper")
    assert bare.result == Err("execution_failed", "Tool returned an error")


async def test_progress_reaches_the_observers_of_the_call(url: str) -> None:
    reported: list[Any] = []
    events = Events()
    events.on("tool_progress", reported.append)
    async with connected(web(url)) as servers:
        await call(servers, "mcp__e__count", {"steps": 3}, ctx=ToolContext(events=events))

    assert sorted(each.message for each in reported) == ["step 1", "step 2", "step 3"]
    assert {each.tool_name for each in reported} == {"mcp__e__count"}


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")  # the server is in this process
async def test_a_log_message_of_a_server_becomes_an_event(url: str) -> None:
    received = EventLog()
    async with connected(web(url), events=received.events) as servers:
        await call(servers, "mcp__e__say", {"text": "out of coffee"})
        await received.until(lambda: any("out of coffee" in each.message for each in received.logs))

    assert received.logs[0].level == "info"
    assert received.logs[0].payload["server"] == "e"


@pytest.mark.slow
async def test_a_call_that_is_given_up_is_cancelled_at_the_server(url: str, tmp_path: Path) -> None:
    left = tmp_path / "left"
    async with connected(web(url, timeout_seconds=1)) as servers:
        outcome = await call(servers, "mcp__e__wait", {"seconds": 3600, "path": str(left)})
        with anyio.fail_after(30):
            while not left.exists():  # noqa: ASYNC110  the server leaves a file, not an event
                await anyio.sleep(0.01)

    assert isinstance(outcome.result, Err)
    assert outcome.result.code == "timed_out"


async def test_a_question_is_put_as_a_gate_and_its_answer_goes_back(url: str) -> None:
    async with connected(web(url)) as servers:

        async def callback(ctx: DispatchContext) -> Any:
            return "done" if ctx.tool_calls else [SpindleCall("c1", "mcp__e__greet", {})]

        runner = TurnRunner(executor_callback=callback, tools=servers.registry)
        runner.on("turn_gate_open", lambda gate: runner.gates.resolve(gate.id, {"name": "Ada"}))
        report = await runner.run()

    assert report.tool_calls[0].results == "hello Ada"


@pytest.mark.slow
async def test_tools_that_come_and_go_are_followed(url: str) -> None:
    async with connected(web(url)) as servers:
        await call(servers, "mcp__e__grow")
        await changed_to(servers, lambda: servers.registry.has("mcp__e__extra"))
        await call(servers, "mcp__e__shrink")
        await changed_to(servers, lambda: not servers.registry.has("mcp__e__extra"))
        assert servers.registry.has("mcp__e__grow")
        assert servers.status()[0].restarts == 0


async def test_credentials_are_looked_up_by_name_for_each_request_and_never_shown(newer: str) -> None:
    asked: list[str] = []

    async def secrets(name: str) -> str:
        asked.append(name)
        return f"value-of-{name}-{len(asked)}"

    spec = web(newer, headers={"X-Team": "blue"}, header_secrets={"Authorization": "TOKEN"})
    async with connected(spec, secrets=secrets) as servers:
        before = len(asked)
        outcome = await call(servers, "mcp__e__headers")

    assert len(asked) > before
    assert isinstance(outcome.result, Ok)
    assert outcome.result.structured["x-team"] == "blue"
    assert outcome.result.structured["authorization"] == "Bearer ***"


async def test_a_refused_connection_is_reported_as_an_error() -> None:
    async with connected(web("http://127.0.0.1:9/mcp")) as servers:
        assert "cannot be reached" in (servers.status()[0].error or "")


async def test_a_lost_secret_is_an_error_that_names_it(newer: str) -> None:
    async with connected(web(newer, header_secrets={"Authorization": "TOKEN"}), hostile()) as servers:
        assert "'TOKEN'" in (servers.status()[0].error or "")
        assert servers.status()[1].state == "ready"


def test_two_servers_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidServerSpecError) as caught:
        McpServers([hostile(), hostile()])

    assert (caught.value.server, caught.value.field) == ("h", "name")


async def test_servers_are_used_inside_their_block() -> None:
    with pytest.raises(UsageError):
        await McpServers([hostile()]).ready()


async def test_a_failing_listener_does_not_affect_others() -> None:
    received = EventLog()
    async with McpServers([hostile()], events=received.events) as servers:
        servers.on_change(lambda: 1 / 0)  # pyright: ignore[reportArgumentType] - what it gives does not matter
        await servers.ready()

        assert servers.status()[0].state == "ready"
    assert received.warned_of("on_change")


def test_the_sdk_is_imported_only_when_a_server_starts() -> None:
    code = """
import sys
sys.modules["mcp"] = sys.modules["mcp_types"] = None  # as if the extra were not installed
import spindle.cli.commands.doctor
from spindle.mcp import McpServers, ServerSpec
print(McpServers([ServerSpec(name="h", command="true")]).status()[0].state)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("idle\n", "")
