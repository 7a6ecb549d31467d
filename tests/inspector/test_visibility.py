"""A login with a profile sees and answers nothing of tools that its profile may not use."""

import json
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle import Call, ToolContext, ToolFilter, tool
from spindle.inspector import InspectorApp, Workbench
from spindle.inspector.api.health import watch_health
from spindle.inspector.endpoints import PageUser
from spindle.inspector.visibility import allows_withheld
from spindle.journal import FinishedCall, Intent
from spindle.mcp import McpServers, ServerSpec
from spindle.mcp.client import ServerStatus
from spindle.mcp.lock import DefinitionKind, WithheldDefinition
from tests.inspector.benching import TOKEN, Bench, PageClient

pytestmark = pytest.mark.anyio

SECRET = "only for the other profile"


@tool
async def look(topic: str) -> str:
    """Look something up."""
    return f"{topic} is known"


@tool
async def peek(topic: str) -> str:
    """Look something up that not everybody may see."""
    return f"{topic}: {SECRET}"


async def run(bench: Bench, name: str, session: str, **args: Any) -> None:
    context = ToolContext(session, turn_id=f"turn of {session}")
    await bench.executor.execute_parallel([Call(f"call {name}", name, args)], context)


def build() -> Bench:
    filters = {"reader": ToolFilter(allowed_tools=["look"])}
    return Bench(roles={"reader": "operator"}, filters=filters, tools=[look, peek])


async def ask(client: PageClient, path: str, /, **query: Any) -> tuple[int, str]:
    answer = await client.http.get(f"/api/v1{path}", params=query, headers={"Authorization": f"Bearer {TOKEN}"})
    return answer.status_code, answer.text


async def test_a_profile_reads_no_calls_of_other_tools_by_any_endpoint() -> None:
    bench = build()
    await run(bench, "look", "open", topic="rain")
    await run(bench, "peek", "closed", topic=SECRET)
    await run(bench, "look", "closed", topic="snow")
    keys = {call.tool: call.idempotency_key for call in (await bench.journal.search(limit=10)).calls}
    paths: list[tuple[str, dict[str, str]]] = [
        (f"/calls/{keys['peek']}/batch", {}),
        ("/tools/recorded", {"key": keys["peek"]}),
        ("/flow/call", {"key": keys["peek"]}),
        ("/flow/session", {"id": "closed"}),
        ("/call", {"key": keys["peek"]}),
        ("/calls/compare", {"left": keys["look"], "right": keys["peek"]}),
    ]
    async with bench.connect(bench.build_server()) as client:
        answers = [await ask(client, path, **query) for path, query in paths]
        lists = [await ask(client, path) for path in ("/calls", "/flow/sessions", "/turns")]
        own = await ask(client, "/flow/session", id="open")

    assert [status for status, _ in answers] == [404] * len(paths)
    assert [status for status, _ in (*lists, own)] == [200] * 4
    assert SECRET not in str([answers, lists])
    assert keys["peek"] not in str(lists)


async def test_a_search_of_a_profile_does_not_tell_whether_hidden_calls_match() -> None:
    bench = build()
    await run(bench, "look", "open", topic="rain")
    for number in range(3):
        await run(bench, "peek", f"closed {number}", topic="the password is 1234")
    filters = [
        ("text", "password is 1", "password is 2"),
        ("session", "closed 1", "closed 4"),
        ("id", "call p", "call q"),
    ]
    async with bench.connect(bench.build_server()) as client, bench.log_in() as owner:
        for name, right, wrong in filters:
            hit, miss = [await ask(client, "/calls", limit=1, **{name: text}) for text in (right, wrong)]
            assert hit == miss
            assert json.loads(hit[1]) == {"calls": [], "next_cursor": None, "scanned": None, "is_complete": True}
        own = json.loads((await ask(client, "/calls", limit=1))[1])
        everything = (await owner.get("/calls", text="password")).json()

    assert [call["tool"] for call in own["calls"]] == ["look"]
    assert (len(everything["calls"]), everything["scanned"]) == (3, 4)


async def test_a_profile_does_not_learn_whether_hidden_artifacts_exist_or_match() -> None:
    bench = build()
    for number in range(3):
        await bench.bench.spool.write(f"closed/t/{number}", SECRET.encode(), turn_id="t")
    async with bench.connect(bench.build_server()) as client, bench.log_in() as owner:
        hidden, unknown = [await ask(client, "/artifacts/lines", id=f"closed/t/{name}") for name in ("1", "none")]
        hit, miss = [await ask(client, "/artifacts", text=text, limit=1) for text in ("closed/t/0", "none")]
        everything = (await owner.get("/artifacts", text="closed/t/0", limit=1)).json()

    assert hidden == unknown
    assert hit == miss
    assert [each["id"] for each in everything["artifacts"]] == ["closed/t/0"]


async def test_a_profile_reads_no_artifacts_of_other_tools_and_none_without_a_call() -> None:
    bench = build()
    hidden, shown, now = "closed/t/c", "open/t/c", datetime.now(UTC)
    for place, turn, name in (("nobody", None, None), (hidden, "t", "peek"), (shown, "t", "look")):
        await bench.bench.spool.write(place, SECRET.encode(), turn_id=turn)
        if name is not None:
            begun = Intent(
                tool_call_id=name, tool=name, checksum="s", idempotency_key=name, args={}, turn_id=turn, started_at=now
            )
            await bench.journal.begin([begun])
            await bench.journal.finish([FinishedCall(idempotency_key=name, ended_at=now, artifact_id=place)])
    async with bench.connect(bench.build_server()) as client, bench.log_in() as owner:
        listed = await ask(client, "/artifacts")
        answers = [
            await ask(client, f"/artifacts/{what}", id=place, **query)
            for place in ("nobody", hidden)
            for what, query in (
                ("facts", {}),
                ("lines", {}),
                ("piece", {}),
                ("bytes", {}),
                ("search", {"pattern": "only"}),
                ("json", {}),
                ("json/path", {"path": "$"}),
                ("outline", {}),
                ("markdown", {}),
                ("table", {}),
                ("address", {}),
                ("download", {}),
            )
        ]
        own = await ask(client, "/artifacts/lines", id=shown)
        everything = (await owner.get("/artifacts")).json()

    found = json.loads(listed[1])
    assert ([each["id"] for each in found["artifacts"]], found["count"]) == ([shown], None)
    assert (own[0], SECRET in own[1]) == (200, True)
    assert {status for status, _ in answers} == {404}
    assert SECRET not in str(answers)
    assert len(everything["artifacts"]) == everything["count"] == 3


async def test_an_operator_of_a_profile_runs_and_answers_nothing_of_other_tools() -> None:
    bench = build()
    await run(bench, "peek", "closed", topic="x")
    approval = await bench.ask()
    [call] = (await bench.journal.search(limit=10)).calls[-1:]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with bench.connect(bench.build_server(), **headers) as client:
        answers = [
            await client.post("/trials", {"tool": "peek", "args": {"topic": "x"}}),
            await client.http.post("/api/v1/call/replay", params={"key": call.idempotency_key}, json={}),
            await client.post(f"/approvals/{approval}/approve"),
            await client.post(f"/approvals/{approval}/deny"),
        ]

    assert [answer.status_code for answer in answers] == [404] * 4
    assert bench.runs == []


def hold(name: str, kind: DefinitionKind = "tool") -> WithheldDefinition:
    return WithheldDefinition(kind=kind, name=name, reason="changed")


async def open_two_servers(stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch) -> tuple[Bench, Workbench]:
    """Open a bench with upstream servers, of which the reader may use one tool of one."""
    specs = [ServerSpec(name="files", command="x"), ServerSpec(name="payroll", command="x")]
    servers = await stack.enter_async_context(McpServers(specs))
    states = [
        ServerStatus(
            name="files",
            state="ready",
            required=False,
            tools=7,
            quarantined=4,
            withheld=(hold("read"), hold("salaries"), hold("wipe"), hold("pay slip", "prompt")),
        ),
        ServerStatus(name="payroll", state="failed", required=True, tools=3, error="salaries are locked"),
    ]
    monkeypatch.setattr(servers, "status", lambda: states)
    rules = ToolFilter(
        allowed_tools=["look"],
        allowed_mcp_servers=["files"],
        allowed_mcp_tools={"files": ["read", "wipe"]},
        exclude_tools=["mcp__files__wipe"],
        allowed_prompts=[],
    )
    bench = Bench(roles={"reader": "operator"}, filters={"reader": rules}, tools=[look, peek])
    facts: dict[str, Any] = {
        "servers": servers,
        "count_running": lambda: 31,
        "count_sessions": lambda: 32,
        "retention": {"max_bytes": 33},
        "journal_file": Path("payroll.sqlite"),
        "get_health": lambda: {"replicas": 34},
        "find_sandbox": lambda: {"sandbox": "landlock", "mode": "auto", "commands": 35},
    }
    bench.bench = replace(bench.bench, **facts)
    bench.app = InspectorApp(bench.bench, bench.logins)
    return bench, bench.bench


async def test_a_profile_sees_the_health_of_its_servers_and_nothing_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with AsyncExitStack() as stack:
        bench, _ = await open_two_servers(stack, monkeypatch)
        await bench.ask()
        client = await stack.enter_async_context(bench.connect(bench.build_server()))
        owner = await stack.enter_async_context(bench.log_in())
        status, text = await ask(client, "/health")
        all_of_it = (await owner.get("/health")).json()
        restart = await client.http.post(
            "/api/v1/health/servers/payroll/restart", json={}, headers={"Authorization": f"Bearer {TOKEN}"}
        )
    report = json.loads(text)

    assert status == 200
    assert [(each["name"], each["tools"], each["quarantined"]) for each in report["servers"]] == [("files", 0, 1)]
    assert [each["name"] for each in report["servers"][0]["withheld"]] == ["read"]
    assert (report["tools"], report["waiting_approvals"], report["more_servers"]) == (1, 0, 0)
    hidden = ("running_calls", "sessions", "abandoned_threads", "replicas", "stores")
    assert [report[name] for name in hidden] == [None] * len(hidden)
    assert (report["sandbox"]["kind"], report["sandbox"]["commands"]) == ("landlock", None)
    assert not any(word in text for word in ("payroll", "salaries", "slip"))
    assert restart.status_code == 403
    assert [each["name"] for each in all_of_it["servers"]] == ["files", "payroll"]
    assert (all_of_it["running_calls"], all_of_it["sessions"], all_of_it["replicas"]) == (31, 32, 34)
    assert (all_of_it["servers"][0]["quarantined"], all_of_it["tools"], all_of_it["waiting_approvals"]) == (4, 3, 1)
    assert all_of_it["stores"]["journal_file"] == "payroll.sqlite"


async def test_the_activity_of_a_profile_counts_the_calls_of_its_tools_only() -> None:
    bench = build()
    await run(bench, "look", "open", topic="rain")
    await run(bench, "look", "open", topics="snow")  # a wrong argument
    for number in range(5):
        await run(bench, "peek", f"closed {number}", topic=SECRET)
    await run(bench, "invented by a model", "closed")
    async with bench.connect(bench.build_server()) as client, bench.log_in() as owner:
        first = json.loads((await ask(client, "/health/activity", window="1h"))[1])
        await run(bench, "peek", "closed", topic="again")
        await bench.bench.monitor.get_follower(bench.bench).read_all()
        second = json.loads((await ask(client, "/health/activity", window="1h"))[1])
        await run(bench, "look", "open", topic="hail")
        await bench.bench.monitor.get_follower(bench.bench).read_all()
        third = json.loads((await ask(client, "/health/activity", window="1h"))[1])
        everything = (await owner.get("/health/activity", window="1h")).json()

    assert (first["total"]["calls"], first["total"]["errors"], first["progress"]["calls"]) == (2, 1, 2)
    assert sum(point["calls"] for point in first["points"]) == 2
    assert sum(point["result_chars"] for point in first["points"]) == first["total"]["result_chars"]
    assert [(row["tool"], row["calls"]) for row in first["tools"]] == [("look", 2)]
    assert [(row["tool"], row["count"]) for row in first["errors"]] == [("look", 1)]
    assert first["progress"]["counted_from"] is None
    # Calls of other tools change nothing, not even the number that says that something was counted.
    moving = ("started_from", "points")
    assert {**first, **dict.fromkeys(moving)} == {**second, **dict.fromkeys(moving)}
    assert third["revision"] != first["revision"]
    assert (third["total"]["calls"], everything["total"]["calls"]) == (3, 10)
    assert {row["tool"] for row in everything["tools"]} == {"look", "peek", "invented by a model"}


async def test_the_live_health_of_a_profile_is_that_of_its_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    async with AsyncExitStack() as stack:
        bench, opened = await open_two_servers(stack, monkeypatch)
        await run(bench, "peek", "closed", topic=SECRET)

        async def watch() -> None:
            with anyio.CancelScope() as scope:

                def publish(value: Any, *, key: str | None = None) -> None:
                    sent.append(value)
                    scope.cancel()

                await watch_health(opened, publish)

        for profile in ("reader", None):
            user = PageUser(session="s", role="viewer", by="x", profile=profile)
            monkeypatch.setattr("spindle.inspector.api.health.get_listener", lambda user=user: user)
            with anyio.fail_after(30):
                await watch()

    assert ([each["name"] for each in sent[0]["servers"]], sent[0]["revision"], sent[0]["sessions"]) == (
        ["files"],
        0,
        None,
    )
    assert ([each["name"] for each in sent[1]["servers"]], sent[1]["revision"]) == (["files", "payroll"], 1)
    assert sent[1]["sessions"] == 32


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (None, {"files tool", "mail tool", "files prompt"}),
        (ToolFilter(), {"files tool", "mail tool", "files prompt"}),
        (ToolFilter(allowed_mcp_servers=["files"]), {"files tool", "files prompt"}),
        (ToolFilter(allowed_mcp_tools={"files": []}), {"mail tool", "files prompt"}),
        (ToolFilter(exclude_tools=["mcp__mail__x"]), {"files tool", "files prompt"}),
        (ToolFilter(allowed_prompts=["mcp__files__x"]), {"files tool", "mail tool"}),
        (ToolFilter(allowed_resources=[]), {"files tool", "mail tool"}),
    ],
)
def test_a_definition_in_quarantine_is_seen_where_the_filter_allows_it(
    rules: ToolFilter | None, expected: set[str]
) -> None:
    definitions = [("files", "tool"), ("mail", "tool"), ("files", "prompt")]

    seen = {f"{server} {kind}" for server, kind in definitions if allows_withheld(rules, server, kind=kind, name="x")}
    assert seen == expected
