"""Every call gets its one outcome, whatever its server does."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle import Err, Ok, ToolContext
from tests.mcp.upstreams import EventLog, call, calls, changed_to, connected, hostile

pytestmark = pytest.mark.anyio


def error_of(outcome: Any) -> Err:
    assert isinstance(outcome.result, Err), outcome.result
    return outcome.result


def text_of(outcome: Any) -> str:
    assert isinstance(outcome.result, Ok), outcome.result
    return outcome.result.value


async def test_a_crash_in_a_call_fails_that_call_alone_and_the_call_is_not_repeated(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with connected(hostile(log=log)) as servers:
        assert text_of(await call(servers, "mcp__h__ok")) == "ok"

        failed = error_of(await call(servers, "mcp__h__crash"))
        again = await call(servers, "mcp__h__ok")

    assert failed.code == "execution_failed"
    assert "MCP server 'h' is not connected" in failed.error
    assert text_of(again) == "ok"
    assert log.read_text().split().count("crash") == 1


async def test_calls_that_ran_beside_a_crash_have_their_outcomes_too() -> None:
    async with connected(hostile()) as servers:
        await call(servers, "mcp__h__ok")
        outcomes = await calls(servers, ("mcp__h__hang", {}), ("mcp__h__hang", {}), ("mcp__h__crash", {}))

    assert [error_of(outcome).code for outcome in outcomes] == ["execution_failed"] * 3


async def test_a_call_that_is_known_to_be_harmless_is_sent_again_after_a_crash(tmp_path: Path) -> None:
    async with connected(hostile(trusted=True)) as servers:
        await call(servers, "mcp__h__ok")
        outcome = await call(servers, "mcp__h__crash_once", {"path": str(tmp_path / "crashed")})

    assert text_of(outcome) == "the second time"


async def test_an_idempotent_hint_of_an_untrusted_server_does_not_allow_a_retry(tmp_path: Path) -> None:
    async with connected(hostile()) as servers:
        await call(servers, "mcp__h__ok")
        outcome = await call(servers, "mcp__h__crash_once", {"path": str(tmp_path / "crashed")})

    assert error_of(outcome).code == "execution_failed"


@pytest.mark.slow
async def test_a_call_to_a_hanging_server_ends_at_its_deadline_and_is_cancelled(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with connected(hostile(log=log, timeout_seconds=2)) as servers:
        outcome = await call(servers, "mcp__h__hang")
        assert text_of(await call(servers, "mcp__h__ok")) == "ok"

    assert error_of(outcome).code == "timed_out"
    assert "cancelled" in log.read_text().split()


@pytest.mark.slow
async def test_a_frozen_server_is_found_out_and_started_again() -> None:
    async with connected(hostile(timeout_seconds=2, start_timeout_seconds=5)) as servers:
        await call(servers, "mcp__h__ok")
        outcomes = await calls(servers, *[("mcp__h__freeze", {"say": "x" * 100_000})] * 3)
        assert [error_of(outcome).code for outcome in outcomes] == ["timed_out"] * 3

        await changed_to(servers, lambda: servers.status()[0].restarts == 1 and servers.status()[0].state == "ready")
        assert text_of(await call(servers, "mcp__h__ok")) == "ok"


@pytest.mark.parametrize("tool", ["flood", pytest.param("flood_id_last", marks=pytest.mark.slow)])
async def test_a_flood_fails_its_own_call_at_once_and_no_other(tool: str) -> None:
    async with connected(hostile()) as servers:
        flooded, fine = await calls(servers, (f"mcp__h__{tool}", {}), ("mcp__h__ok", {}))

        assert servers.status()[0].restarts == 0

    assert error_of(flooded).code == "execution_failed"
    assert "bytes" in error_of(flooded).error
    assert text_of(fine) == "ok"


async def test_a_large_result_within_bounds_is_cut_for_the_model_and_kept_whole() -> None:
    async with connected(hostile(max_result_chars=1_000)) as servers:
        outcome = await call(servers, "mcp__h__flood", {"size": 200_000})

    assert isinstance(outcome.result, Ok)
    assert len(outcome.result.value) < 2_000
    assert outcome.result.artifact is not None
    assert await outcome.result.artifact.byte_length() == 200_000


async def test_noise_on_stdout_is_passed_over_and_warned_of_once() -> None:
    received = EventLog()
    async with connected(hostile(), events=received.events) as servers:
        first = await call(servers, "mcp__h__chatter")
        second = await call(servers, "mcp__h__chatter")

    assert text_of(first) == text_of(second) == "after the noise"
    assert len([warning for warning in received.warnings if "not a protocol message" in warning]) == 1


async def test_stderr_is_bounded_and_drained() -> None:
    async with connected(hostile()) as servers:
        assert text_of(await call(servers, "mcp__h__stderr")) == "quiet again"


async def test_answers_out_of_order_reach_the_calls_they_belong_to() -> None:
    async with connected(hostile()) as servers:
        outcomes = await calls(servers, *[("mcp__h__backwards", {"calls": 5, "n": n}) for n in range(5)])

    assert [text_of(outcome) for outcome in outcomes] == [f"answer {n}" for n in range(5)]


async def test_duplicate_and_unsolicited_answers_are_dropped() -> None:
    async with connected(hostile()) as servers:
        assert text_of(await call(servers, "mcp__h__twice")) == "once"
        assert text_of(await call(servers, "mcp__h__ok")) == "ok"


async def test_an_invalid_result_fails_its_call() -> None:
    async with connected(hostile()) as servers:
        assert error_of(await call(servers, "mcp__h__no_result")).code == "execution_failed"


@pytest.mark.parametrize("tool", ["lie", "silent"])
async def test_a_result_that_violates_its_output_schema_is_an_error(tool: str) -> None:
    async with connected(hostile()) as servers:
        failed = error_of(await call(servers, f"mcp__h__{tool}"))

    assert failed.code == "execution_failed"
    assert "output schema" in failed.error


async def test_a_costly_output_schema_does_not_block_other_calls() -> None:
    received = EventLog()
    async with connected(hostile(), events=received.events) as servers:
        outcome = await call(servers, "mcp__h__bomb")

    assert text_of(outcome).startswith("still here")
    assert received.warned_of("'bomb'", "not checked")


async def test_an_error_of_the_servers_own_fails_the_call_in_its_words_and_not_the_connection() -> None:
    async with connected(hostile()) as servers:
        failed = error_of(await call(servers, "mcp__h__own_error"))

        assert servers.status()[0].state == "ready"

    assert failed.code == "execution_failed"
    assert "not on a Sunday" in failed.error


async def test_a_server_cannot_pass_its_error_off_as_ours_to_be_called_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with connected(hostile(log=log)) as servers:
        failed = error_of(await call(servers, "mcp__h__forged"))

        assert servers.status()[0].restarts == 0

    assert failed.code == "execution_failed"
    assert log.read_text().split().count("forged") == 1


async def test_a_cancelled_caller_returns_at_once_and_the_server_is_notified(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with connected(hostile(log=log)) as servers:
        async with anyio.create_task_group() as caller:
            caller.start_soon(call, servers, "mcp__h__hang")
            while "hang" not in log.read_text().split():  # noqa: ASYNC110 - the process notes it
                await anyio.sleep(0.01)
            caller.cancel_scope.cancel()

        assert text_of(await call(servers, "mcp__h__ok")) == "ok"
    assert "cancelled" in log.read_text().split()


async def test_a_dead_server_answers_that_it_is_not_connected(tmp_path: Path) -> None:
    async with connected(hostile("--fail-later", log=tmp_path / "log")) as servers:
        await call(servers, "mcp__h__crash")
        await changed_to(servers, lambda: servers.status()[0].error is not None)

        failed = error_of(await call(servers, "mcp__h__ok"))
        tool = servers.registry.get("mcp__h__ok")
        assert tool is not None

    assert failed.code == "not_available"
    assert "MCP server 'h' is not connected" in failed.error


async def test_a_secret_of_the_server_is_masked_in_what_it_says() -> None:
    spec = hostile(env_secrets={"API_KEY": "shop/key"})
    async with connected(spec, secrets="s3cret-value-of-{}".format) as servers:
        outcome = await call(servers, "mcp__h__leak")

    assert "s3cret" not in repr(outcome.result)
    assert "***" in text_of(outcome)


async def test_a_secret_of_the_server_is_masked_in_side_channels() -> None:
    received, seen = EventLog(), list[str]()
    received.events.on("tool_progress", lambda payload: seen.append(repr(payload)))

    async def open_gate(gate: Any) -> Any:
        seen.append(repr((gate.reason, gate.payload, gate.schema)))
        return {"name": "Ada"}

    ctx = ToolContext(events=received.events, open_gate=open_gate)
    spec = hostile("--gossip", env_secrets={"API_KEY": "shop/key"})
    async with connected(spec, secrets="s3cret-value-of-{}".format, events=received.events) as servers:
        outcome = await call(servers, "mcp__h__gossip", ctx=ctx)
        await received.until(lambda: bool(received.logs))
        tools = servers.registry.to_definitions()

    assert "***" in error_of(outcome).error
    assert len(seen) == 2
    assert len(tools) > 5
    assert any("named-***" in warned for warned in received.warnings)
    for each in (repr(outcome.result), *seen, *map(repr, received.logs), *received.warnings, repr(tools)):
        assert "s3c" not in each.replace("\u200b", "").replace("\\u200b", "")
