"""What a profile may not see has no effect on what it sees: pages, cursors, counts, prices, and live updates."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from spindle import Call, ToolContext, ToolFilter, tool
from spindle.inspector import InspectorApp, Workbench
from spindle.inspector.api.tools import watch_tools
from spindle.inspector.approval_feeds import watch_approvals, watch_waiting
from spindle.inspector.endpoints import PageUser
from spindle.inspector.visibility import may_see_turn
from spindle.journal import FinishedCall, Intent
from spindle.turns import ContextPart, StoryIteration, TurnStory
from tests.inspector.benching import TOKEN, Bench, PageClient

pytestmark = pytest.mark.anyio

READER = PageUser(session="s", role="viewer", by="x", profile="reader")
OWNER = PageUser(session="s", role="viewer", by="x")


@tool(requires_approval=True)
async def look(amount: int = 0) -> str:
    """Look something up."""
    return "known"


@tool
async def read(amount: int = 0) -> str:
    """Read something."""
    return "read"


@tool
async def reed(amount: int = 0) -> str:
    """Read something that not everybody may see."""
    return "hidden"


def build() -> Bench:
    filters = {"reader": ToolFilter(allowed_tools=["look", "read"])}
    return Bench(roles={"reader": "viewer"}, filters=filters, tools=[look, read, reed])


async def ask(client: PageClient, path: str, /, **query: Any) -> Any:
    answer = await client.http.get(f"/api/v1{path}", params=query, headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text)


async def walk(client: PageClient, path: str, name: str) -> list[list[str]]:
    """Read a list page by page, two items each; return the ids of each page, and the cursors between them."""
    pages: list[list[str]] = []
    cursor = None
    while True:
        page = await ask(client, path, limit=2, **({} if cursor is None else {"cursor": cursor}))
        pages.append([each.get("id") or each.get("session_id") for each in page[name]])
        cursor = page["next_cursor"]
        if cursor is None:
            return pages


async def test_pages_of_approvals_end_at_what_a_profile_may_see() -> None:
    bench = build()
    own = [await bench.ask(number, name="look") for number in range(3)]
    for number in range(10, 20):
        await bench.ask(number)
    async with bench.connect(bench.build_server()) as client:
        pages = await walk(client, "/approvals", "approvals")

    assert pages == [own[:0:-1], own[:1]]


async def test_a_profile_counts_its_waiting_calls_behind_many_of_others() -> None:
    bench = build()
    await bench.ask(1, name="look")
    for number in range(10, 130):
        await bench.ask(number)
    async with bench.connect(bench.build_server()) as client:
        found = await ask(client, "/approvals")

    assert (len(found["approvals"]), found["waiting"], found["next_cursor"]) == (1, 1, None)


async def test_waiting_calls_of_a_profile_are_counted_without_reading_their_tickets_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, read_ids = build(), list[str]()
    office: Any = type(bench.bench.tickets)
    for number in range(5):
        await bench.ask(number, name="look")
    find = office.get

    async def get(self: Any, id: str) -> Any:
        read_ids.append(id)
        return await find(self, id)

    monkeypatch.setattr(office, "get", get)
    async with bench.connect(bench.build_server()) as client:
        counts = [(await ask(client, "/health"))["waiting_approvals"] for _ in range(3)]

    assert (counts, len(read_ids)) == ([5, 5, 5], 5)


async def test_pages_of_artifacts_end_at_what_a_profile_may_see() -> None:
    bench, now = build(), datetime.now(UTC)
    for number, name in enumerate(["read", "reed", "read", "reed", "reed", "read", "reed"]):
        place, key = f"{name}/t/{number}", f"k{number}"
        await bench.bench.spool.write(place, b"x", turn_id="t")
        begun = Intent(
            tool_call_id=key, tool=name, checksum="s", idempotency_key=key, args={}, turn_id="t", started_at=now
        )
        await bench.journal.begin([begun])
        await bench.journal.finish([FinishedCall(idempotency_key=key, ended_at=now, artifact_id=place)])
    async with bench.connect(bench.build_server()) as client:
        pages = await walk(client, "/artifacts", "artifacts")

    assert sorted(map(sorted, pages)) == [["read/t/0"], ["read/t/2", "read/t/5"]]


async def run(bench: Bench, name: str, session: str) -> None:
    await bench.executor.execute_parallel([Call("c", name, {})], ToolContext(session, turn_id=session))


async def test_sessions_of_a_profile_are_described_by_its_own_calls() -> None:
    bench = build()
    for name, session in (("read", "a"), ("reed", "b"), ("read", "c"), ("reed", "c"), ("reed", "d")):
        await run(bench, name, session)
    async with bench.connect(bench.build_server()) as client:
        found = await ask(client, "/flow/sessions")
        pages = await walk(client, "/flow/sessions", "sessions")

    assert [(each["session_id"], each["last_tool"]) for each in found["sessions"]] == [("c", "read"), ("a", "read")]
    assert [each for each in pages if each] == [["c", "a"]]


async def test_a_batch_of_a_profile_has_its_own_calls_only() -> None:
    bench = build()
    calls = [Call(f"c{number}", name, {}) for number, name in enumerate(["reed", "read", "reed", "reed"])]
    await bench.executor.execute_parallel(calls, ToolContext("s", turn_id="t"))
    [key] = [each.idempotency_key for each in (await bench.journal.search(limit=10)).calls if each.tool == "read"]
    async with bench.connect(bench.build_server()) as client, bench.log_in() as owner:
        own = await ask(client, f"/calls/{key}/batch")
        detail = await ask(client, "/call", key=key)
        whole = (await owner.get(f"/calls/{key}/batch")).json()

    assert (own["call_count"], [each["position"] for each in own["calls"]]) == (1, [0])
    assert own["duration_ms"] == own["calls"][0]["end_ms"]
    assert detail["timing"] is None
    assert (whole["call_count"], len(whole["calls"])) == (4, 4)


async def test_a_profile_learns_nothing_of_other_tools_from_prices_and_findings() -> None:
    bench = build()
    bench.bench = replace(bench.bench, profiles=("reader", "payroll"))
    bench.app = InspectorApp(bench.bench, bench.logins)
    async with bench.connect(bench.build_server()) as client, bench.log_in() as owner:
        with anyio.fail_after(60):
            await ask(client, "/tools")
            await bench.bench.checks.wait()
            found = await ask(client, "/tools")
        whole = (await owner.get("/tools")).json()
        details = [await ask(client, "/tools/detail", name=name) for name in ("read", "look")]
        seen = (await owner.get("/tools/detail", name="read")).json()

    prices = [each["prices"] for each in found["tools"]]
    assert found["totals"] == {name: sum(each[name] for each in prices) for name in found["dialects"]}
    assert whole["totals"]["mcp"] > found["totals"]["mcp"]
    assert "reed" not in json.dumps([found, details])
    assert [each["visible_to"] for each in details] == [["reader"], ["reader"]]
    assert seen["visible_to"] == ["reader", "payroll"]


@dataclass
class Polls:
    """Counts the rounds of feeds, and what they send."""

    sent: list[Any] = field(default_factory=list[Any])
    count: int = 0

    def publish(self, value: Any, *, key: str | None = None) -> None:
        self.sent.append(value)

    async def sleep(self, _seconds: float) -> None:
        self.count += 1
        await anyio.sleep(0.001)

    async def pass_rounds(self) -> int:
        """Return how much was sent after some more rounds."""
        until = self.count + 10
        while self.count < until:  # noqa: ASYNC110 - the feed itself polls
            await anyio.sleep(0.001)
        return len(self.sent)


async def watch(feed: Callable[..., Any], bench: Bench, patch: pytest.MonkeyPatch, *changes: Any) -> list[int]:
    """Return how much a feed of the reader has sent at first, and after each change."""
    polls = Polls()
    patch.setattr(f"{feed.__module__}.anyio", polls)
    patch.setattr(f"{feed.__module__}.get_listener", lambda: READER)
    counts: list[int] = []
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed, bench.bench, polls.publish)
            for change in (None, *changes):
                if change is not None:
                    await change()
                counts.append(await polls.pass_rounds())
            tasks.cancel_scope.cancel()
    assert len(bench.registry) not in [each.get("total") for each in polls.sent]
    return counts


@pytest.mark.parametrize("feed", [watch_approvals, watch_waiting])
async def test_a_feed_of_approvals_is_silent_about_calls_that_a_profile_may_not_see(
    feed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = build()

    async def hide() -> None:
        await bench.ask(1)

    async def show() -> None:
        await bench.ask(2, name="look")

    assert await watch(feed, bench, monkeypatch, hide, show) == [1, 1, 2]


async def test_the_feed_of_tools_is_silent_about_tools_that_a_profile_may_not_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = build()

    @tool
    async def another() -> str:
        """Be hidden, too."""
        return ""

    async def hide() -> None:
        bench.registry.register(another)

    async def show() -> None:
        bench.registry.unregister("read")

    def refresh(_bench: Workbench) -> None:
        """Compute no prices, which would be another change."""

    monkeypatch.setattr("spindle.inspector.api.tools.refresh_checks", refresh)
    assert await watch(watch_tools, bench, monkeypatch, hide, show) == [1, 1, 2]


def test_a_turn_that_does_not_name_all_its_tools_is_hidden_from_a_profile() -> None:
    bench, now = build(), datetime.now(UTC)
    step = StoryIteration(number=0, started_at=now)
    whole = TurnStory(turn_id="t", session_id="s", status="running", started_at=now, updated_at=now, iterations=(step,))
    part = ContextPart(kind="results", name=None, chars=1, tokens=1, count=1)
    cut = [
        replace(whole, iterations_omitted=1),
        replace(whole, iterations=(replace(step, calls_omitted=1),)),
        replace(whole, context=(part,)),
    ]

    assert may_see_turn(bench.bench, READER, whole)
    assert not any(may_see_turn(bench.bench, READER, each) for each in cut)
    assert all(may_see_turn(bench.bench, OWNER, each) for each in cut)
