"""The API of turns: the list, one turn as a story, and what is sent while turns run."""

from typing import Any

import anyio
import pytest

from spindle import Budget, Call, Journal, Reply, TurnRunner, tool
from spindle.inspector.api.turns import watch_turns
from spindle.inspector.workbench import Workbench
from spindle.testing import ScriptedModel
from tests.inspector.api_client import open_api, read
from tests.turns.suspended_scene import LOOK, PAY, Shop

pytestmark = pytest.mark.anyio


@tool
def echo(text: str) -> str:
    """Return a text."""
    return text * 2


async def run_turn(journal: Journal, *script: Any, **arguments: Any) -> None:
    runner = TurnRunner(executor_callback=ScriptedModel(*script), tools=[echo], journal=journal, budget=Budget(1_000))
    await runner.run(messages=["go"], **arguments)


async def test_turns_are_listed_in_pages() -> None:
    journal = Journal.memory()
    for number in range(5):
        await run_turn(journal, "done", turn_id=f"t{number}", session_id=f"s{number % 2}")
    async with open_api(journal) as client:
        first = await read(client, "/turns", limit=3)
        assert [each["turn_id"] for each in first["turns"]] == ["t4", "t3", "t2"]
        rest = await read(client, "/turns", limit=3, cursor=first["next_cursor"])
        assert ([each["turn_id"] for each in rest["turns"]], rest["next_cursor"]) == (["t1", "t0"], None)
        found = await read(client, "/turns", session_id="s1", status="ok")
        assert [each["turn_id"] for each in found["turns"]] == ["t3", "t1"]
        for query in ({"status": "good"}, {"limit": 0}, {"limit": 9_999}, {"other": 1}):
            assert (await client.get("/turns", params=query)).status_code == 400


async def test_a_turn_is_read_with_its_calls_tokens_and_artifacts() -> None:
    journal = Journal.memory()
    large = Reply("look", [Call("c1", "echo", {"text": "word " * 900})], {"input_tokens": 7, "cost_usd": 0.5})
    await run_turn(journal, large, Reply("done", usage={"input_tokens": 9}), turn_id="a/b", session_id="s")
    async with open_api(journal) as client:
        turn = await read(client, "/turn", id="a/b")
        missing = await client.get("/turn", params={"id": "none"})
    assert (missing.status_code, missing.json()["error"]["field"]) == (404, "id")
    assert (turn["summary"]["status"], turn["summary"]["input_tokens"], turn["summary"]["cost_usd"]) == ("ok", 16, 0.5)
    assert (turn["request"], turn["text"]) == ("go", "done")
    [call] = turn["iterations"][0]["calls"]
    entry = await journal.get("c1")
    assert entry is not None
    assert (call["key"], call["artifact_id"]) == (entry.idempotency_key, entry.artifact_id)
    assert call["duration_ms"] >= 0
    assert [each["id"] for each in turn["artifacts"]] == ["s/a/b/c1"]
    assert {part["kind"] for part in turn["context"]} >= {"user", "assistant", "calls", "results"}


async def test_a_call_that_the_journal_does_not_have_has_no_link() -> None:
    journal = Journal.memory()
    await run_turn(journal, [Call("c1", "echo", {"text": "a"})], "done", turn_id="t", dry_run=True)
    async with open_api(journal) as client:
        turn = await read(client, "/turn", id="t")
    assert turn["summary"]["dry_run"] is True
    assert turn["iterations"][0]["calls"][0]["key"] is None


async def test_a_suspended_turn_shows_what_it_waits_for() -> None:
    shop = Shop(Journal.memory(), [PAY, LOOK], "done")
    report = await shop.run()
    async with open_api(shop.journal) as client:
        turn = await read(client, "/turn", id=report.turn_id)
    assert (turn["summary"]["status"], turn["summary"]["waiting_count"]) == ("suspended", 1)
    assert [(gate["kind"], gate["tool"], gate["closed_at"]) for gate in turn["gates"]] == [("approval", "pay", None)]


async def test_changes_of_turns_are_sent_while_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spindle.inspector.api.turns._POLL_SECONDS", 0.01)
    journal, sent = Journal.memory(), list[Any]()
    arrived = anyio.Event()

    def publish(value: Any, *, key: str | None = None) -> None:
        sent.append((key, value["status"]))
        if value["status"] == "ok":
            arrived.set()

    async with anyio.create_task_group() as tasks:
        parts: Any = {"registry": None, "executor": None, "spool": None}
        tasks.start_soon(watch_turns, Workbench(journal=journal, **parts), publish)
        with anyio.fail_after(30):
            await run_turn(journal, "done", turn_id="t")
            await arrived.wait()
        tasks.cancel_scope.cancel()
    assert ("t", "ok") in sent


async def test_a_login_is_needed() -> None:
    async with open_api(Journal.memory()) as client:
        client.headers.clear()
        assert (await client.get("/turns")).status_code == 401
