"""Upstream servers that misbehave, behind the gateway: every call has its one outcome, and all else goes on."""

import os
import random
import signal
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.mcp.gateways import IN_TIME, LEGACY, MODERN, PLAIN, code_of, entry, hostile, inside, names_of, text_of
from tests.mcp.serving import serving
from tests.mcp.upstreams import wait_for_ends

pytestmark = pytest.mark.anyio

MISDEEDS: dict[str, str | None] = {
    "chatter": None,
    "crash": "execution_failed",
    "hang": "timed_out",
    "stderr": None,
    "twice": None,
    "no_result": "execution_failed",
    "lie": "execution_failed",
    "silent": "execution_failed",
    "bomb": None,
    "own_error": "execution_failed",
    "forged": "execution_failed",
    "ask": None,
}
"""The tools of the hostile server, and the code that a call of each has to end with."""
HEAVY = {"freeze": "timed_out", "flood": "execution_failed", "flood_id_last": "execution_failed"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn supports only asyncio


@pytest.mark.parametrize("mode", [MODERN, pytest.param(LEGACY, marks=pytest.mark.slow)])
async def test_every_misdeed_ends_its_own_call_and_harms_no_other(mode: str, tmp_path: Path) -> None:
    config = hostile("bad", timeout_seconds=3) + hostile("good")
    codes: dict[str, str | None] = {}
    beside: list[str | None] = []
    async with inside(tmp_path, config) as gateway, gateway.client(mode) as client:
        for misdeed in MISDEEDS:
            codes[misdeed] = code_of(await client.call_tool(f"mcp__bad__{misdeed}", {}))
            beside.append(code_of(await client.call_tool("mcp__good__ok", {})))

    assert codes == MISDEEDS
    assert beside == [None] * len(MISDEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("misdeed", HEAVY)
async def test_a_heavy_misdeed_ends_its_own_call_and_harms_no_other(misdeed: str, tmp_path: Path) -> None:
    config = hostile("bad", timeout_seconds=1 if misdeed == "freeze" else 30) + hostile("good")
    beside: list[str | None] = []
    outcome: list[str | None] = []
    async with inside(tmp_path, config) as gateway, gateway.client(LEGACY) as client:
        async with anyio.create_task_group() as tasks:

            async def err() -> None:
                outcome.append(code_of(await client.call_tool(f"mcp__bad__{misdeed}", {})))
                tasks.cancel_scope.cancel()

            tasks.start_soon(err)
            while True:
                beside.append(code_of(await client.call_tool("mcp__good__ok", {})))
        again = await client.call_tool("mcp__bad__ok", {})

    assert outcome == [HEAVY[misdeed]]
    assert set(beside) == {None}
    assert code_of(again) in {None, "not_available", "timed_out"}  # it may be starting still


@pytest.mark.slow
async def test_calls_beside_a_crash_have_one_outcome_each_and_the_server_works_again(tmp_path: Path) -> None:
    outcomes: Counter[str | None] = Counter()
    async with inside(tmp_path, hostile("bad", timeout_seconds=30)) as gateway, gateway.client(MODERN) as client:
        first = await client.call_tool("mcp__bad__ok", {})

        async def call(tool: str) -> None:
            outcomes[code_of(await client.call_tool(f"mcp__bad__{tool}", {}))] += 1

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(call, "hang")
            while gateway.server.load.running < 20:
                await anyio.wait_all_tasks_blocked()
            tasks.start_soon(call, "crash")
        again = await client.call_tool("mcp__bad__ok", {})
        restarts = gateway.restarts("bad")

    assert code_of(first) is None
    assert outcomes == {"execution_failed": 21}
    assert code_of(again) is None
    assert restarts == 1


async def test_answers_out_of_order_reach_the_clients_that_asked(tmp_path: Path) -> None:
    said: dict[int, str] = {}
    async with inside(tmp_path, hostile("up")) as gateway, gateway.client(LEGACY) as one, gateway.client(MODERN) as two:

        async def call(n: int) -> None:
            client = one if n % 2 else two
            said[n] = text_of(await client.call_tool("mcp__up__backwards", {"n": n, "calls": 10}))

        async with anyio.create_task_group() as tasks:
            for n in range(10):
                tasks.start_soon(call, n)

    assert said == {n: f"answer {n}" for n in range(10)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "dead",
    [hostile("dead", "--fail"), entry("dead", ["no-such-program-at-all"])],
    ids=["dies at start", "is not there"],
)
async def test_an_optional_server_that_is_dead_takes_nothing_but_its_own_tools_away(dead: str, tmp_path: Path) -> None:
    async with inside(tmp_path, dead + hostile("good")) as gateway, gateway.client(LEGACY) as client:
        names = await names_of(client)
        refused = await client.call_tool("mcp__dead__ok", {})
        beside = await client.call_tool("mcp__good__ok", {})

    assert not any(name.startswith("mcp__dead__") for name in names)
    assert code_of(refused) == "not_available"
    assert code_of(beside) is None


# --- with a real process


async def health(address: str) -> tuple[int, dict[str, Any]]:
    async with httpx.AsyncClient(timeout=60) as http:
        answer = await http.get(address.removesuffix("/mcp") + "/health")
    return answer.status_code, answer.json()


async def until_health(address: str, wanted: int, *, restarts: int | None = None) -> dict[str, Any]:
    """Wait until the page has a status, and its server was started again so often, and give what it says then."""
    with anyio.fail_after(IN_TIME):
        while True:
            status, reported = await health(address)
            if status == wanted and restarts in {None, reported["servers"][0]["restarts"]}:
                return reported
            await anyio.sleep(0.05)


@pytest.mark.slow
async def test_a_required_server_that_is_dead_shows_on_the_health_page_and_the_rest_is_served(tmp_path: Path) -> None:
    config = PLAIN + hostile("dead", "--fail", required=True) + hostile("good")
    with serving(tmp_path, config=config) as (process, address):
        reported = await until_health(address, 503)
        async with Client(streamable_http_client(address), mode=LEGACY) as client:
            beside = await client.call_tool("mcp__good__ok", {})
        process.send_signal(signal.SIGTERM)
        assert process.wait(IN_TIME) == 0

    [dead] = [each for each in reported["servers"] if each["name"] == "dead"]
    assert reported["status"] == "failing"
    assert dead["required"] is True
    assert "cannot read the config" in dead["error"]
    assert code_of(beside) is None
    assert "'dead'" in (tmp_path / "stderr.txt").read_text()


@pytest.mark.slow
async def test_a_required_server_that_falls_fails_the_health_page_until_it_is_up_again(tmp_path: Path) -> None:
    config = PLAIN + hostile("up", required=True, timeout_seconds=10)
    with serving(tmp_path, config=config) as (process, address):
        async with Client(streamable_http_client(address), mode=MODERN) as client:
            pids = text_of(await client.call_tool("mcp__up__child", {})).split()
            before, _ = await health(address)
            os.kill(int(pids[0]), signal.SIGKILL)
            again = await client.call_tool("mcp__up__ok", {})
            reported = await until_health(address, 200, restarts=1)  # a server that starts again fails no health check
        process.send_signal(signal.SIGTERM)
        assert process.wait(IN_TIME) == 0

    assert before == 200
    assert code_of(again) in (None, "not_available", "execution_failed")
    [up] = reported["servers"]
    assert (up["state"], up["restarts"]) == ("ready", 1)
    wait_for_ends(pids)


@pytest.mark.slow
async def test_a_server_that_never_starts_does_not_delay_the_others(tmp_path: Path) -> None:
    config = PLAIN + hostile("mute", "--mute", start_timeout_seconds=3600) + hostile("good")
    with anyio.fail_after(IN_TIME), serving(tmp_path, config=config) as (process, address):
        async with Client(streamable_http_client(address), mode=LEGACY) as client:
            names = await names_of(client)
            beside = await client.call_tool("mcp__good__ok", {})
        process.send_signal(signal.SIGTERM)
        assert process.wait(IN_TIME) == 0

    assert "mcp__good__ok" in names
    assert code_of(beside) is None


STORM_SECONDS = 20
STORM_CLIENTS = 16
STORM_CALLS = 12
"""At least, of each client, also where the machine is busy with other things."""
CALM = ("ok", "chatter", "twice", "bomb", "own_error", "lie", "no_result")
WILD = (*CALM, "crash", "hang", "flood", "grow", "stderr", "forged")


async def _storm(address: str, mode: str, until: float, chance: random.Random, outcomes: Counter[Any]) -> None:
    """One client that calls and calls; each call has one outcome, within its time."""
    async with Client(streamable_http_client(address), mode=mode) as client:
        calls = count()
        while next(calls) < STORM_CALLS or anyio.current_time() < until:
            server = chance.choice(["good", "wild", "wild", "wild"])
            tool = chance.choice(CALM if server == "good" else WILD)
            arguments = {"name": f"tool_{chance.randrange(5)}"} if tool == "grow" else {}
            with anyio.fail_after(IN_TIME):
                outcome = await client.call_tool(f"mcp__{server}__{tool}", arguments)
            outcomes[server, tool, code_of(outcome)] += 1


@pytest.mark.slow
@pytest.mark.timeout(150)
async def test_a_storm_of_misdeeds_leaves_the_gateway_up_and_the_good_server_untouched(tmp_path: Path) -> None:
    outcomes: Counter[tuple[str, str, str | None]] = Counter()
    config = PLAIN + hostile("wild", timeout_seconds=1) + hostile("good", required=True)
    with serving(tmp_path, "--log-level", "error", config=config) as (process, address):
        until = anyio.current_time() + STORM_SECONDS
        async with anyio.create_task_group() as tasks:
            for n in range(STORM_CLIENTS):
                mode = LEGACY if n % 2 else MODERN
                tasks.start_soon(_storm, address, mode, until, random.Random(n), outcomes)
        with anyio.fail_after(IN_TIME):
            # A call is counted until its answer was sent.
            while (await health(address))[1]["running_calls"]:  # noqa: ASYNC110 - the page has no notification
                await anyio.sleep(0.05)
        status, _ = await health(address)
        async with Client(streamable_http_client(address), mode=MODERN) as client:
            pids = text_of(await client.call_tool("mcp__good__child", {})).split()
        process.send_signal(signal.SIGTERM)
        assert process.wait(IN_TIME) == 0

    allowed = {"own_error": "execution_failed", "lie": "execution_failed", "no_result": "execution_failed"}
    wrong = {key: count for key, count in outcomes.items() if key[0] == "good" and key[2] != allowed.get(key[1])}
    assert not wrong
    assert {code for _, _, code in outcomes} <= {None, "execution_failed", "timed_out", "not_available"}
    assert sum(outcomes.values()) >= STORM_CALLS * STORM_CLIENTS
    assert status == 200
    wait_for_ends(pids)
