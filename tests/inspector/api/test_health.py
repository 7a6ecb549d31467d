"""The endpoints and the feed of health, over a real executor, journal and upstream servers in this process."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from starlette.responses import Response

from spindle import Executor, Journal, Spool, ToolContext, ToolRegistry, tool
from spindle.errors import UpstreamError
from spindle.execution import StateKey
from spindle.inspector import InspectorApp, PageLogins, Workbench
from spindle.inspector.api.health import watch_health
from spindle.inspector.command_login import COMMAND_HEADER, sign_command
from spindle.inspector.endpoints import PageUser
from spindle.inspector.latencies import Latencies
from spindle.inspector.logins import PAGE_HEADER
from spindle.mcp import McpServers, ServerReach, ServerSpec
from spindle.mcp.client import ServerStatus
from tests.execution.calling import call
from tests.mcp.memory_upstreams import Upstream, memory_servers

pytestmark = pytest.mark.anyio
KEY = StateKey("a key of the test")
IN_TIME = 30


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def build_bench(**more: Any) -> Workbench:
    registry = ToolRegistry([add])
    journal, spool = Journal.memory(), Spool.memory()
    executor = Executor(registry, journal=journal, spool=spool)
    return Workbench(registry=registry, executor=executor, journal=journal, spool=spool, version="1.2.3", **more)


@asynccontextmanager
async def open_api(bench: Workbench) -> AsyncGenerator[httpx.AsyncClient]:
    app = InspectorApp(bench, PageLogins(key=KEY, states=bench.journal.states))
    headers = {COMMAND_HEADER: sign_command(KEY, "tester")}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as http:
        yield http


async def test_the_report_has_load_stores_and_sandbox() -> None:
    async def measure() -> dict[str, Any]:
        return {"spool_bytes": 5, "spool_artifacts": 1, "journal_bytes": 7}

    def find_sandbox() -> dict[str, Any]:
        return {"sandbox": "landlock", "enforced": ["files"], "missing": {"network": "not here"}, "mode": "auto"}

    bench = build_bench(
        measure_stores=measure,
        find_sandbox=find_sandbox,
        retention={"max_bytes": 100, "max_age_days": 30},
        get_health=lambda: {"status": "ok", "replicas": 3, "spool": {"status": "failing", "error": "disk full"}},
        count_running=lambda: 4,
        count_sessions=lambda: 2,
    )
    async with open_api(bench) as http:
        report = (await http.get("/api/v1/health")).json()

    assert (report["status"], report["version"], report["replicas"], report["tools"]) == ("ok", "1.2.3", 3, 1)
    assert (report["running_calls"], report["sessions"], report["waiting_approvals"]) == (4, 2, None)
    assert report["stores"] == {
        "spool_bytes": 5,
        "spool_artifacts": 1,
        "spool_max_bytes": 100,
        "spool_max_age_days": 30.0,
        "spool_problem": "disk full",
        "journal_bytes": 7,
        "journal_file": None,
    }
    assert (report["sandbox"]["kind"], report["sandbox"]["missing"]) == ("landlock", {"network": "not here"})
    assert report["servers"] == []


async def test_what_takes_long_or_fails_is_left_out() -> None:
    started, is_done = anyio.Event(), anyio.Event()
    samples = 0

    async def measure() -> dict[str, Any]:
        nonlocal samples
        samples += 1
        started.set()
        await is_done.wait()
        return {"spool_bytes": 5}

    def find_sandbox() -> dict[str, Any]:
        raise OSError("no such program")

    bench = build_bench(measure_stores=measure, find_sandbox=find_sandbox)
    async with open_api(bench) as http:
        with anyio.fail_after(IN_TIME):
            early = (await http.get("/api/v1/health")).json()
            await started.wait()
            is_done.set()
            while (late := (await http.get("/api/v1/health")).json())["stores"]["spool_bytes"] is None:
                pass

    assert (early["stores"]["spool_bytes"], early["sandbox"]) == (None, None)
    assert (late["stores"]["spool_bytes"], samples) == (5, 1)


async def test_activity_counts_the_calls_of_the_executor() -> None:
    bench = build_bench()
    await bench.executor.execute_parallel(
        [call("add", {"a": 1, "b": 2}), call("add", {"a": 1, "b": "no"}), call("invented", {})], ToolContext()
    )
    async with open_api(bench) as http:
        found = (await http.get("/api/v1/health/activity?window=15m")).json()
        refused = await http.get("/api/v1/health/activity?window=1y")

    assert refused.status_code == 400
    assert (found["total"]["calls"], found["total"]["errors"], len(found["points"])) == (3, 2, 60)
    assert {row["tool"]: row["calls"] for row in found["tools"]} == {"add": 2, "invented": 1}
    assert {(row["tool"], row["count"]) for row in found["errors"]} == {("add", 1), ("invented", 1)}
    assert found["progress"]["is_complete"]
    assert sum(point["calls"] for point in found["points"]) == 3


async def test_servers_are_listed_and_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = Upstream()
    async with memory_servers(monkeypatch, {"fs": upstream}) as (servers, _):
        bench = build_bench(servers=servers)
        async with open_api(bench) as http:
            before = (await http.get("/api/v1/health")).json()["servers"]
            restarted = await http.post("/api/v1/health/servers/fs/restart", json={})
            unknown = await http.post("/api/v1/health/servers/none/restart", json={})
            without = await http.post("/api/v1/health/servers/fs/restart", json={}, headers={COMMAND_HEADER: "nobody"})

    assert [(each["name"], each["state"], each["transport"]) for each in before] == [("fs", "ready", "stdio")]
    assert (restarted.status_code, restarted.json()["restarts"], upstream.starts) == (200, 1, 2)
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "E_UNKNOWN_MCP_SERVER")
    assert without.status_code == 401


async def test_a_viewer_sees_servers_and_cannot_restart_one() -> None:
    async with McpServers([ServerSpec(name="fs", command="x")]) as servers:
        bench = build_bench(servers=servers)
        logins = PageLogins(key=KEY, states=None)
        user, response = PageUser(session="s", role="viewer", by="someone"), Response()
        token = logins.log_in(response, user)
        cookie = response.headers["set-cookie"].partition(";")[0]
        headers = {"Cookie": cookie, PAGE_HEADER: token}
        transport = httpx.ASGITransport(app=InspectorApp(bench, logins))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as http:
            seen = await http.get("/api/v1/health")
            refused = await http.post("/api/v1/health/servers/fs/restart", json={})

    assert (seen.status_code, refused.status_code) == (200, 403)
    assert servers.status()[0].restarts == 0


async def test_a_server_is_described_without_values_of_secrets() -> None:
    spec = ServerSpec(
        name="web",
        url="https://example.org:8443/secret-path?key=hidden",
        header_secrets={"X-Key": "WEB_KEY"},
        headers={"X-Team": "hidden"},
    )
    local = ServerSpec(name="local", command="/data/tools/server", args=("--token", "hidden"), env={"A": "hidden"})
    async with McpServers([spec, local]) as servers, open_api(build_bench(servers=servers)) as http:
        answer = await http.get("/api/v1/health")

    web, program = answer.json()["servers"]
    assert (web["transport"], web["place"], web["secrets"], web["state"]) == (
        "http",
        "example.org:8443",
        ["WEB_KEY"],
        "idle",
    )
    assert (program["transport"], program["place"]) == ("stdio", "server")
    assert "hidden" not in answer.text


async def test_hostile_words_of_a_server_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    reach = ServerReach(
        sandbox="landlock",
        enforced=frozenset({"files"}),
        home="/data/own",
        read=tuple(f"/data/{n}" for n in range(1_000)),
        limits={"processes": 3},
        notes=("x" * 10_000,),
    )
    status = ServerStatus(
        name="fs", state="failed", required=True, tools=0, error="\x1b[31m" + "e" * 10_000, reach=reach
    )
    async with McpServers([ServerSpec(name="fs", command="x")]) as servers:
        monkeypatch.setattr(servers, "status", lambda: [status] * 500)
        async with open_api(build_bench(servers=servers)) as http:
            answer = await http.get("/api/v1/health")

    report = answer.json()
    assert (len(report["servers"]), report["more_servers"]) == (200, 300)
    first = report["servers"][0]
    assert "\x1b" not in first["error"]
    assert (first["reach"]["is_confined"], len(first["reach"]["read"]), first["reach"]["write"]) == (
        True,
        50,
        ["/data/own"],
    )
    assert len(answer.content) < 200 * 5_000


async def test_the_feed_sends_a_summary_counts_calls_and_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Mapping[str, Any]] = []
    has_latency = anyio.Event()

    def publish(value: Any, *, key: str | None = None) -> None:
        assert key == "health"
        sent.append(value)
        if value["servers"][0]["latency_ms"] is not None:
            has_latency.set()

    monkeypatch.setattr("spindle.inspector.api.health.FEED_SECONDS", 0.01)
    async with memory_servers(monkeypatch, {"fs": Upstream()}) as (servers, _):
        bench = build_bench(servers=servers)
        await bench.executor.execute_parallel([call("add", {"a": 1, "b": 2})], ToolContext())
        with anyio.fail_after(IN_TIME):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch_health, bench, publish)
                await has_latency.wait()
                tasks.cancel_scope.cancel()

    assert sent[0]["revision"] == 1
    assert sent[-1]["servers"][0]["answers_pings"] is True
    assert sent[-1]["is_reading"] is False


class PingedServers:
    """What `Latencies` needs of servers, with answers of the test's choice."""

    def __init__(self, answer: float | UpstreamError | None) -> None:
        self.answer = answer
        self.restarts, self.state, self.pings = 0, "ready", 0

    def status(self) -> list[ServerStatus]:
        state: Any = self.state
        return [ServerStatus(name="fs", state=state, required=False, tools=0, restarts=self.restarts)]

    async def measure_latency(self, _name: str) -> float | None:
        self.pings += 1
        if isinstance(self.answer, UpstreamError):
            raise self.answer
        return self.answer


async def test_a_server_that_does_not_answer_is_not_pinged_until_it_was_restarted() -> None:
    now = [0.0]
    latencies = Latencies(lambda: now[0])
    servers: Any = PingedServers(UpstreamError("it is silent", server="fs"))
    for _ in range(3):
        now[0] += 60
        await latencies.measure(servers)
    silent = latencies.get("fs")
    pings = servers.pings
    servers.restarts, servers.answer = 1, 0.25
    for _ in range(3):
        now[0] += 10
        await latencies.measure(servers)
    servers.state = "starting"
    now[0] += 60
    await latencies.measure(servers)

    assert silent is not None
    assert (silent.is_silent, pings) == (True, 1)
    answering = latencies.get("fs")
    assert answering is not None
    assert (list(answering.recent_ms), answering.is_silent, servers.pings) == ([250, 250], False, 3)
