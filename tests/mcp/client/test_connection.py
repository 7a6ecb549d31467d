"""One task owns one server: started when needed, watched, started again, ended with all it started."""

import os
import signal
from pathlib import Path

import anyio
import pytest
from anyio import from_thread, wait_all_tasks_blocked

from spindle import Err, Ok, ToolContext
from spindle.errors import UnknownServerError, UpstreamError, UpstreamRequiredError
from spindle.mcp.client import connection
from spindle.mcp.client.servers import McpServers
from spindle.mcp.spec import ServerSpec
from tests.mcp.upstreams import IN_TIME, EventLog, HandClock, call, calls, changed_to, connected, hostile, is_alive

pytestmark = pytest.mark.anyio


def starts(log: Path) -> int:
    return log.read_text().split().count("start") if log.exists() else 0


async def test_a_server_is_not_started_before_it_is_needed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with McpServers([hostile(log=log)]) as servers:
        assert servers.status()[0].state == "idle"
        assert servers.registry.all() == []
    assert starts(log) == 0
    assert servers.status()[0].state == "stopped"


async def test_a_required_server_is_started_at_once() -> None:
    async with McpServers([hostile(required=True)]) as servers:
        await changed_to(servers, lambda: servers.status()[0].state == "ready")
        assert servers.registry.has("mcp__h__ok")


async def test_a_server_that_is_not_enabled_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with connected(hostile(log=log, enabled=False, required=True)) as servers:
        assert servers.status()[0].state == "stopped"
        with pytest.raises(UnknownServerError):
            await servers.restart("h")
    assert starts(log) == 0


async def test_a_required_server_that_is_dead_is_named_and_the_others_are_up() -> None:
    with anyio.fail_after(IN_TIME):
        async with McpServers(
            [hostile("--fail", required=True, name="dead"), hostile()], events=EventLog().events
        ) as s:
            with pytest.raises(UpstreamRequiredError) as caught:
                await s.ready()
            assert s.registry.has("mcp__h__ok")

    assert caught.value.server == "dead"
    assert "no such table" in str(caught.value)


async def test_an_optional_server_that_is_dead_is_warned_of_with_its_last_words() -> None:
    received = EventLog()
    async with connected(hostile("--fail", name="dead"), hostile(), events=received.events) as servers:
        status = {each.name: each for each in servers.status()}
        assert status["dead"].state == "starting"
        assert status["h"].state == "ready"
        assert isinstance((await call(servers, "mcp__h__ok")).result, Ok)

    assert received.warned_of("'dead'", "exit code 2", "no such table")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (ServerSpec(name="h", command="no-such-program-anywhere"), "no-such-program-anywhere"),
        (ServerSpec(name="h", command="/"), "/"),
        (ServerSpec(name="h", command="sh", args=("-c", "true"), cwd="/no/such/folder"), "/no/such/folder"),
        (
            ServerSpec(
                name="h",
                command="sh",
                args=("-c", "echo hello; while read line; do :; done"),
                start_timeout_seconds=0.3,
            ),
            "0.3",
        ),
        (hostile("--mute", start_timeout_seconds=0.3), "0.3 s"),
    ],
    ids=["unknown program", "a folder", "no folder", "no server", "mute"],
)
async def test_a_server_that_cannot_be_started_says_why(spec: ServerSpec, words: str) -> None:
    async with connected(spec) as servers:
        assert words in (servers.status()[0].error or "")


async def test_a_server_that_keeps_failing_is_retried_without_end_at_growing_capped_intervals(tmp_path: Path) -> None:
    log, clock, received = tmp_path / "log", HandClock(), EventLog()
    waits = [1, 2, 4, 8, 16, 30, 30, 30]
    async with connected(hostile("--fail", log=log), clock=clock, events=received.events) as servers:
        for failures, seconds in enumerate(waits, 1):
            await clock.asleep(seconds)
            assert servers.status()[0].state == ("starting" if failures <= 5 else "failed")
            clock.advance(seconds)
        await clock.asleep(30)

    assert starts(log) == len(waits) + 1
    assert len(received.warnings) == 2  # the first failure, and that it has failed often


async def test_a_call_for_a_failed_server_starts_it_and_is_answered_once_it_is_up(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", HandClock()
    async with connected(hostile("--fail-while", log=log), clock=clock) as servers:
        (tmp_path / "log.down").touch()
        await call(servers, "mcp__h__crash")
        for seconds in (1, 2, 4, 8, 16):
            await clock.asleep(seconds)
            clock.advance(seconds)
        await changed_to(servers, lambda: servers.status()[0].state == "failed")

        refused = await call(servers, "mcp__h__ok")
        assert isinstance(refused.result, Err)
        assert (refused.result.code, refused.result.retryable) == ("not_available", True)
        assert "MCP server 'h' is not connected" in refused.result.error
        assert starts(log) == 7  # the first, five retries, and the one of the call

        (tmp_path / "log.down").unlink()
        assert isinstance((await call(servers, "mcp__h__ok")).result, Ok)
        assert servers.status()[0].state == "ready"
        assert starts(log) == 8


async def test_calls_at_the_same_time_share_one_attempt(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", HandClock()
    async with connected(hostile("--fail-while", log=log), clock=clock) as servers:
        (tmp_path / "log.down").touch()
        await call(servers, "mcp__h__crash")
        await clock.asleep(1)
        before = starts(log)

        outcomes = await calls(servers, *[("mcp__h__ok", {"say": "hi"})] * 5)

    assert {outcome.result.code for outcome in outcomes if isinstance(outcome.result, Err)} == {"not_available"}
    assert starts(log) == before + 1


async def test_a_call_waits_for_a_server_that_starts_slowly_only_until_its_deadline(tmp_path: Path) -> None:
    spec = hostile("--mute-later", log=tmp_path / "log", start_timeout_seconds=3600, timeout_seconds=0.5)
    async with connected(spec, clock=HandClock()) as servers:
        await call(servers, "mcp__h__crash")
        await changed_to(servers, lambda: servers.status()[0].state != "ready")

        outcome = await call(servers, "mcp__h__ok")

    assert isinstance(outcome.result, Err)
    assert outcome.result.code == "timed_out"


async def test_a_failed_server_is_retried_when_it_is_requested(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", HandClock()
    async with connected(hostile("--fail", log=log), clock=clock) as servers:
        for seconds in (1, 2, 4, 8, 16):
            await clock.asleep(seconds)
            clock.advance(seconds)
        await changed_to(servers, lambda: servers.status()[0].state == "failed")

        with pytest.raises(UpstreamError) as caught:
            await servers.restart("h")

    assert caught.value.server == "h"
    assert starts(log) == 7


async def test_a_server_that_falls_when_it_is_up_is_started_again_and_its_tools_stay(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with connected(hostile(log=log)) as servers:
        tool = servers.registry.get("mcp__h__ok")
        outcome = await call(servers, "mcp__h__child")
        assert isinstance(outcome.result, Ok)
        server, _ = map(int, outcome.result.value.split())

        os.kill(server, signal.SIGKILL)
        await changed_to(servers, lambda: servers.status()[0].restarts == 1 and servers.status()[0].state == "ready")

        assert servers.registry.get("mcp__h__ok") is tool
        assert isinstance((await call(servers, "mcp__h__ok")).result, Ok)
        assert servers.status()[0].error is None
    assert starts(log) == 2


async def test_a_server_that_falls_without_having_served_waits_its_time(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", HandClock()
    async with connected(hostile(log=log), clock=clock) as servers:
        crashed = await call(servers, "mcp__h__crash")
        assert isinstance(crashed.result, Err)
        await clock.asleep(1)

        assert servers.status()[0].state == "starting"
        clock.advance(1)
        await changed_to(servers, lambda: servers.status()[0].state == "ready")
        assert isinstance((await call(servers, "mcp__h__ok")).result, Ok)


async def test_an_explicit_restart_does_not_wait(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", HandClock()
    async with connected(hostile(log=log), clock=clock) as servers:
        await call(servers, "mcp__h__crash")
        await clock.asleep(1)

        await servers.restart("h")
        await servers.restart("h")
        assert servers.status()[0].state == "ready"
    assert starts(log) == 3


@pytest.mark.slow
async def test_a_latency_is_measured_without_starting_or_losing_a_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with McpServers([hostile(log=log)]) as idle:
        assert await idle.measure_latency("h") is None
    assert starts(log) == 0
    async with connected(hostile(), hostile("--no-ping", name="hangs", start_timeout_seconds=3)) as servers:
        latency = await servers.measure_latency("h")
        with pytest.raises(UpstreamError):
            await servers.measure_latency("hangs")
        with pytest.raises(UnknownServerError):
            await servers.measure_latency("nobody")
        assert [(each.state, each.restarts) for each in servers.status()] == [("ready", 0), ("ready", 0)]
    assert latency is not None
    assert latency > 0


@pytest.mark.slow
async def test_a_ping_returns_its_duration_and_detects_a_hanging_server() -> None:
    async with connected(hostile(), hostile("--no-ping", name="hangs", start_timeout_seconds=3)) as servers:
        assert 0 < await servers.ping("h") < IN_TIME
        with pytest.raises(UpstreamError):
            await servers.ping("hangs")
        with pytest.raises(UnknownServerError):
            await servers.ping("nobody")


@pytest.mark.slow
async def test_a_server_that_is_silent_between_calls_is_found_by_the_health_check() -> None:
    clock = HandClock()
    async with connected(hostile("--no-ping", start_timeout_seconds=3), clock=clock) as servers:
        await clock.asleep(60)
        clock.advance(60)
        await changed_to(servers, lambda: servers.status()[0].restarts == 1 and servers.status()[0].state == "ready")
        outcome = await call(servers, "mcp__h__ok")

    assert isinstance(outcome.result, Ok)


async def test_an_older_server_that_dies_of_the_newer_way_to_connect_is_spoken_to_in_the_older(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", HandClock()
    async with connected(hostile("--touchy", log=log), clock=clock) as servers:
        await clock.asleep(1)
        clock.advance(1)
        await changed_to(servers, lambda: servers.status()[0].state == "ready")
        assert servers.status()[0].protocol_version == "2025-11-25"


DEAF = pytest.param(("--deaf",), id="deaf", marks=pytest.mark.slow)


@pytest.mark.parametrize("flags", [pytest.param((), id="polite"), DEAF])
async def test_nothing_a_server_started_outlives_the_client(flags: tuple[str, ...]) -> None:
    async with connected(hostile(*flags)) as servers:
        outcome = await call(servers, "mcp__h__child")
        assert isinstance(outcome.result, Ok)
        pids = [int(word) for word in outcome.result.value.split()]
        assert all(is_alive(pid) for pid in pids)

    with anyio.fail_after(30):
        while any(is_alive(pid) for pid in pids):
            await anyio.lowlevel.checkpoint()


async def test_a_cancelled_client_leaves_no_process_behind() -> None:
    pids: list[int] = []
    with anyio.CancelScope() as scope:
        async with connected(hostile()) as servers:
            outcome = await call(servers, "mcp__h__child")
            assert isinstance(outcome.result, Ok)
            pids += [int(word) for word in outcome.result.value.split()]
            scope.cancel()
            await anyio.sleep_forever()

    assert scope.cancelled_caught
    with anyio.fail_after(30):
        while any(is_alive(pid) for pid in pids):
            await anyio.lowlevel.checkpoint()


async def test_an_exception_of_the_caller_propagates_unchanged() -> None:
    with pytest.raises(KeyError):
        async with connected(hostile()):
            raise KeyError("mine")


async def test_a_call_that_waits_when_the_client_is_closed_has_its_outcome() -> None:
    outcomes: list[object] = []
    async with anyio.create_task_group() as group, connected(hostile(timeout_seconds=60)) as servers:
        tool = servers.registry.get("mcp__h__hang")
        assert tool is not None
        begun = anyio.Event()

        async def hang() -> None:
            begun.set()
            outcomes.append((await call(servers, "mcp__h__hang")).result)

        group.start_soon(hang)
        await begun.wait()
        await call(servers, "mcp__h__ok")
    assert isinstance(outcomes[0], Err)


async def test_a_tool_of_a_closed_client_says_that_it_is_not_connected() -> None:
    async with connected(hostile()) as servers:
        tool = servers.registry.get("mcp__h__ok")
        assert tool is not None

    assert servers.registry.get_available() == []
    result = await tool.executor(ToolContext())({})
    assert isinstance(result, Err)
    assert result.code == "not_available"
    assert "MCP server 'h' is not connected" in result.error


async def test_closing_does_not_wait_for_a_server_that_is_still_starting(tmp_path: Path) -> None:
    log, received = tmp_path / "log", EventLog()
    mute = hostile("--mute", log=log, required=True, start_timeout_seconds=3600)
    with anyio.fail_after(IN_TIME):
        async with McpServers([mute], events=received.events):
            while not starts(log):  # noqa: ASYNC110 - the process notes it
                await anyio.sleep(0.01)

    assert received.warnings == []


async def test_closing_while_the_protocol_is_loaded_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading, go_on = anyio.Event(), anyio.Event()
    load_session_factory = connection.load_session_factory

    def load() -> object:
        from_thread.run_sync(loading.set)
        from_thread.run(go_on.wait)
        return load_session_factory()

    async def release() -> None:
        await wait_all_tasks_blocked()  # by now it is being closed
        go_on.set()

    monkeypatch.setattr(connection, "load_session_factory", load)
    log = tmp_path / "log"
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks, McpServers([hostile(log=log, required=True)]):
            await loading.wait()
            tasks.start_soon(release)

    assert starts(log) == 0


async def test_a_storm_of_changes_is_listed_once_for_each_pause(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", HandClock()
    async with connected(hostile("--note-lists", log=log), clock=clock) as servers:
        await call(servers, "mcp__h__storm", {"times": 500})
        await changed_to(servers, lambda: servers.status()[0].tools > 0 and "new" in str(servers.registry.all()))
        await clock.asleep(connection.LISTING_SECONDS)
        await call(servers, "mcp__h__storm", {"times": 500})
        await call(servers, "mcp__h__ok")
        before = log.read_text(encoding="utf-8").split().count("list")
        clock.advance(connection.LISTING_SECONDS)
        await clock.asleep(connection.LISTING_SECONDS)
        after = log.read_text(encoding="utf-8").split().count("list")

    assert before <= 3  # at the start, after the first change, and once more for those that came meanwhile
    assert after == before + 1
    assert servers.registry.has("mcp__h__new499")
