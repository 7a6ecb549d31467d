"""The API of calls: the list, one call, its replay, the difference of two, and what is sent while calls run."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from spindle import Call, Executor, Journal, Spool, ToolContext, ToolFilter, ToolRegistry, tool
from spindle.execution import StateKey, TicketSettings, open_office
from spindle.inspector import InspectorApp, PageLogins, Workbench
from spindle.inspector.api.calls import ENDPOINTS
from spindle.inspector.call_feed import CallFeed, watch_calls
from spindle.inspector.call_rows import is_visible
from spindle.inspector.command_login import COMMAND_HEADER, sign_command
from spindle.inspector.endpoints import PageUser
from tests.journal.sample_calls import finished, intent

pytestmark = pytest.mark.anyio
KEY = "a state key for tests"


@tool
def echo(text: str, times: int = 1) -> str:
    """Return a text."""
    return "\n".join([text] * times)


@tool(secret_fields=["token"])
def log_in(user: str, token: str) -> str:
    """Log in."""
    return f"{user} with {token}"


@tool(requires_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("broken")


def build_bench(journal: Journal | None = None, **more: Any) -> Workbench:
    journal = Journal.memory() if journal is None else journal
    registry, spool = ToolRegistry([echo, log_in, pay, fail]), Spool.memory()
    settings = TicketSettings.build(journal, KEY, 60, None)
    return Workbench(
        registry=registry,
        executor=Executor(registry, journal=journal, spool=spool, state_key=KEY),
        journal=journal,
        spool=spool,
        tickets=None if settings is None else open_office(settings),
        **more,
    )


class Api:
    """The API of a bench, as its operator."""

    def __init__(self, bench: Workbench, http: httpx.AsyncClient) -> None:
        self.bench, self.http = bench, http

    async def read(self, path: str, **query: Any) -> Any:
        response = await self.http.get(path, params=query)
        assert response.status_code == 200, response.text
        return response.json()

    async def run(self, id: str, name: str, turn_id: str = "turn", **args: Any) -> str:
        """Make a call; return its key."""
        context = ToolContext("session", turn_id=turn_id)
        await self.bench.executor.execute_parallel([Call(id, name, args)], context)
        entry = await self.bench.journal.get(id)
        assert entry is not None
        return entry.idempotency_key


@asynccontextmanager
async def open_api(bench: Workbench | None = None) -> AsyncGenerator[Api]:
    bench = build_bench() if bench is None else bench
    key = StateKey(KEY)
    app: Any = InspectorApp(bench, PageLogins(key=key, states=bench.journal.states))
    headers = {COMMAND_HEADER: sign_command(key, "tester")}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1", headers=headers) as http:
        yield Api(bench, http)


async def test_calls_are_listed_by_filters_and_in_pages() -> None:
    async with open_api() as api:
        for number in range(4):
            await api.run(f"c{number}", "echo", text=f"word {number}")
        await api.run("bad", "fail")
        first = await api.read("/calls", tool="echo", limit=3)
        rest = await api.read("/calls", tool="echo", limit=3, cursor=first["next_cursor"])
        assert [row["tool_call_id"] for row in (*first["calls"], *rest["calls"])] == ["c3", "c2", "c1", "c0"]
        assert (rest["next_cursor"], rest["is_complete"]) == (None, True)
        failed = await api.read("/calls", outcome="error")
        assert [(row["tool"], row["code"], row["state"]) for row in failed["calls"]] == [
            ("fail", "execution_failed", "finished")
        ]
        found = await api.read("/calls", text="WORD 2", session="session", turn="turn", since="2020-01-01T00:00:00Z")
        assert [(row["tool_call_id"], row["args"]) for row in found["calls"]] == [("c2", '{"text":"word 2"}')]
        newer = await api.read("/calls", order="oldest_first", cursor=first["calls"][0]["cursor"])
        assert [row["tool"] for row in newer["calls"]] == ["fail"]
        for query in ({"state": "x"}, {"limit": 0}, {"cursor": "?"}, {"since": "today"}, {"other": 1}):
            assert (await api.http.get("/calls", params=query)).status_code == 400
        filters = await api.read("/calls/filters")
        assert filters["tools"] == ["echo", "fail", "log_in", "pay"]
        assert "timed_out" in filters["codes"]


async def test_a_call_has_its_arguments_outcome_and_identity() -> None:
    async with open_api() as api:
        before = await api.run("c1", "echo", text="one")
        key = await api.run("c2", "echo", text="two\ud800", times=2)
        detail = await api.read("/call", key=key)
        by_id = await api.read("/call", key="c1")
        missing = await api.http.get("/call", params={"key": "none"})
        failed = await api.read("/call", key=await api.run("bad", "fail"))

    assert (detail["args"], detail["result"]["chars"]) == ({"text": "two?", "times": 2}, 9)
    assert (detail["call"]["key"], detail["previous"]["key"], by_id["call"]["key"]) == (key, before, before)
    assert (detail["label"], detail["is_tool_known"], detail["replay_problem"]) == ("third-party-private", True, None)
    assert len(detail["checksum"]) > 10
    assert missing.status_code == 404
    assert (failed["call"]["code"], failed["error_by"], failed["result"]) == ("execution_failed", "spindle", None)


async def test_large_parts_of_a_call_are_cut() -> None:
    async with open_api() as api:
        await api.bench.journal.begin([intent("big", args={"text": "x" * 200_000})])
        await api.bench.journal.finish([finished("big", result={"value": "y" * 300_000, "timing": ["z" * 300_000]})])
        detail = await api.read("/call", key="big")

    assert (detail["args"], detail["timing"]) == (None, None)
    assert detail["args_text"]["is_cut"]
    assert (len(detail["result"]["text"]), detail["result"]["chars"]) == (100_000, 300_000)


async def test_a_call_is_replayed_as_a_new_one_in_its_session() -> None:
    async with open_api() as api:
        key = await api.run("c1", "echo", text="again")
        response = await api.http.post("/call/replay", params={"key": key}, json={})
        made = response.json()
        detail = await api.read("/call", key=made["key"])

    assert response.status_code == 200, response.text
    assert (made["is_finished"], made["code"], made["approval_id"]) == (True, None, None)
    assert made["key"] != key
    assert (detail["call"]["session_id"], detail["result"]["text"]) == ("session", "again")
    assert key in detail["caller"]["text"]
    assert [each.role for each in ENDPOINTS if each.method == "POST"] == ["operator"]


async def test_a_call_that_cannot_be_repeated_as_it_was_is_not_replayed() -> None:
    async with open_api() as api:
        masked = await api.run("c1", "log_in", user="ada", token="secret")
        unknown = await api.run("c2", "gone")
        for key in (masked, unknown):
            response = await api.http.post("/call/replay", params={"key": key}, json={})
            detail = await api.read("/call", key=key)
            assert (response.status_code, response.json()["error"]["message"]) == (409, detail["replay_problem"])
        calls = await api.read("/calls")

    assert len(calls["calls"]) == 2
    assert "secret" not in str(calls)


async def test_a_replay_that_needs_approval_waits_for_it() -> None:
    async with open_api() as api:
        key = await api.run("c1", "pay", amount=5)
        made = (await api.http.post("/call/replay", params={"key": key}, json={})).json()
        detail = await api.read("/call", key=made["key"])

    assert made["code"] == "needs_approval"
    assert [(each["id"], each["status"]) for each in detail["approvals"]] == [(made["approval_id"], "pending")]


async def test_two_calls_are_compared_by_lines() -> None:
    async with open_api() as api:
        left = await api.run("c1", "echo", text="one")
        right = await api.run("c2", "echo", text="two")
        comparison = await api.read("/calls/compare", left=left, right=right)
        same = await api.read("/calls/compare", left=left, right=left)
        missing = await api.http.get("/calls/compare", params={"left": left, "right": "none"})

    arguments, result = comparison["parts"]
    assert [(line["kind"], line["text"]) for line in arguments["lines"]] == [
        ("same", "{"),
        ("removed", '  "text": "one"'),
        ("added", '  "text": "two"'),
        ("same", "}"),
    ]
    assert [(line["kind"], line["text"]) for line in result["lines"]] == [("removed", "one"), ("added", "two")]
    assert all(part["is_same"] for part in same["parts"])
    assert missing.status_code == 404


async def test_large_results_are_compared_as_a_whole() -> None:
    lines = "\n".join(f"line {number}" for number in range(9_000))
    async with open_api() as api:
        left = await api.run("c1", "echo", text=lines)
        right = await api.run("c2", "echo", text=f"{lines}\nthe last line")
        again = await api.run("c3", "echo", text=lines)
        [_, result] = (await api.read("/calls/compare", left=left, right=right))["parts"]
        [_, same] = (await api.read("/calls/compare", left=left, right=again))["parts"]
        entry = await api.bench.journal.find(again)
        assert entry is not None
        assert entry.artifact_id is not None
        await api.bench.spool.delete(entry.artifact_id)
        [_, unknown] = (await api.read("/calls/compare", left=again, right=again))["parts"]

    assert [(line["text"], line["right"]) for line in result["lines"] if line["kind"] == "added"] == [
        ("the last line", 9_001)
    ]
    assert (result["is_same"], result["is_cut"]) == (False, False)
    assert (same["is_same"], same["is_cut"]) == (True, False)
    assert (unknown["is_same"], unknown["is_cut"]) == (False, True)


def allow_echo(_profile: str | None) -> ToolFilter:
    return ToolFilter(allowed_tools=["echo"])


def test_a_profile_sees_the_calls_of_its_tools() -> None:
    bench = build_bench(get_filter=allow_echo)
    owner, guest = (PageUser(session="s", role="viewer", by="me", profile=profile) for profile in (None, "guest"))

    assert [is_visible(bench, guest, name) for name in ("echo", "pay", "gone")] == [True, False, False]
    assert is_visible(bench, owner, "gone")


async def test_the_feed_sends_calls_that_begin_and_end_in_any_process() -> None:
    bench = build_bench()
    await bench.journal.begin([intent("old", tool="echo")])
    sent: list[Any] = []
    changed = anyio.Event()

    def publish(value: Any, *, key: str | None = None) -> None:
        nonlocal changed
        sent.append(value)
        changed.set()
        changed = anyio.Event()

    def collect() -> list[tuple[str, str]]:
        return [(row["tool_call_id"], row["state"]) for message in sent for row in message["calls"]]

    async def wait_for(*expected: tuple[str, str]) -> None:
        with anyio.fail_after(30):
            while not set(expected) <= set(collect()):
                await changed.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_calls, bench, publish)
        await anyio.wait_all_tasks_blocked()
        other = Journal(bench.journal._store)  # pyright: ignore[reportPrivateUsage] - another process of the journal
        await other.begin([intent("new", tool="echo")])
        await wait_for(("new", "started"))
        await other.finish([finished("new"), finished("old")])
        await wait_for(("new", "finished"), ("old", "finished"))
        tasks.cancel_scope.cancel()

    assert [message["number"] for message in sent] == list(range(1, len(sent) + 1))
    assert len(collect()) == len(set(collect()))


async def test_the_feed_tells_that_calls_were_skipped() -> None:
    journal = Journal.memory()
    feed = CallFeed(journal)
    since, _, _ = await feed.read(None)
    await journal.begin([intent(f"{number}") for number in range(2_500)])
    is_lost = False
    with anyio.fail_after(30):
        while not is_lost:
            await anyio.sleep(0.05)
            since, _, is_lost = await feed.read(since)
