"""Calls that become tasks, on both revisions: their results, owners and questions, and a restart in between."""

from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from spindle import Err, Gate, Journal, Media, Ok, Spool, Tool, ToolContext, tool
from spindle.errors import JournalError
from spindle.mcp.server.sessions import Caller
from spindle.mcp.server.tasks.records import TaskRecords
from tests.mcp.task_clients import ENDED, LEGACY, MODERN, Asked, TaskGateway, text_in

pytestmark = pytest.mark.anyio
both_revisions = pytest.mark.parametrize("mode", [LEGACY, MODERN])


def held(**options: Any) -> tuple[Tool, anyio.Event, list[str]]:
    """A tool that waits until the test lets it go."""
    go, runs = anyio.Event(), list[str]()

    @tool(**options)
    async def work(what: str, *, ctx: ToolContext) -> str:
        """Work until the test lets it end."""
        runs.append(what)
        ctx.progress(f"working on {what}", percent=40)
        await go.wait()
        return f"done with {what}"

    return work, go, runs


@tool
def lines(count: int) -> str:
    """Give many lines."""
    return "\n".join(f"line {n}" for n in range(count))


@both_revisions
async def test_a_slow_call_becomes_a_task_and_its_result_is_read(mode: str) -> None:
    work, go, _ = held()
    async with TaskGateway(work, after_seconds=0.05).connect(mode) as client:
        created = await client.create("work", what="tea")
        await anyio.wait_all_tasks_blocked()
        working = await client.get(created["taskId"])
        go.set()
        result = await client.read(created["taskId"])
        ended = await client.get(created["taskId"])

    assert created["status"] == working["status"] == "working"
    assert working["statusMessage"] == "working on tea (40 %)"
    assert text_in(result) == "done with tea"
    assert ended["status"] == "completed"
    assert created["ttlMs" if client.is_modern else "ttl"] == 3_600_000
    assert created["pollIntervalMs" if client.is_modern else "pollInterval"] > 0
    related = result.get("_meta", dict[str, Any]()).get("io.modelcontextprotocol/related-task")
    assert related == (None if client.is_modern else {"taskId": created["taskId"]})


async def test_a_quick_call_of_the_newer_revision_is_answered_at_once() -> None:
    work, go, _ = held()
    go.set()
    async with TaskGateway(work, after_seconds=20).connect(MODERN) as client:
        answer = await client.call("work", what="tea")
    assert (answer["resultType"], text_in(answer)) == ("complete", "done with tea")


@both_revisions
async def test_nothing_changes_for_a_client_that_does_not_use_tasks(mode: str) -> None:
    work, go, _ = held()
    go.set()
    async with TaskGateway(work, after_seconds=0).connect(mode, has_tasks=False) as client:
        answer = await client.send("tools/call", name="work", arguments={"what": "tea"})
        with pytest.raises(MCPError) as refused:
            await client.send("tasks/get", taskId="unknown")
    assert text_in(answer) == "done with tea"
    assert refused.value.code == (-32021 if client.is_modern else -32602)


@both_revisions
async def test_a_task_of_another_client_and_an_unknown_one_are_answered_alike(mode: str) -> None:
    work, _, _ = held()
    gateway = TaskGateway(work)
    errors: list[MCPError] = []
    async with gateway.connect(mode) as client:
        created = await client.create("work", what="tea")
        gateway.caller = Caller(key="eve")
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            more: dict[str, Any] = {"inputResponses": {}} if method == "tasks/update" else {}
            if more and not client.is_modern:
                continue
            for task in (created["taskId"], "nobody-knows-this", "\N{SNOWMAN}" * 10_000):
                with pytest.raises(MCPError) as refused:
                    await client.send(method, taskId=task, **more)
                errors.append(refused.value)
        gateway.caller = Caller(key="alice")
        assert (await client.get(created["taskId"]))["status"] == "working"
    assert {(error.code, error.message) for error in errors} == {(-32602, errors[0].message)}


@both_revisions
async def test_a_cancelled_task_stays_cancelled_and_its_call_is_cancelled(mode: str) -> None:
    stopped = anyio.Event()

    @tool
    async def wait() -> str:
        """Wait for ever."""
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()
        return ""

    async with TaskGateway(wait).connect(mode) as client:
        created = await client.create("wait")
        await anyio.wait_all_tasks_blocked()
        answer = await client.send("tasks/cancel", taskId=created["taskId"])
        await stopped.wait()
        shown = await client.get(created["taskId"])
        again: Any = None
        try:
            again = await client.send("tasks/cancel", taskId=created["taskId"])
        except MCPError as error:
            again = error.code
    assert answer.get("status") == (None if client.is_modern else "cancelled")
    assert shown["status"] == "cancelled"
    assert again == -32602 if not client.is_modern else again["resultType"] == "complete"


@both_revisions
async def test_the_error_of_a_tool_is_its_result(mode: str) -> None:
    @tool
    def fail() -> Err:
        """Fail."""
        return Err("execution_failed", "no luck")

    async with TaskGateway(fail).connect(mode) as client:
        created = await client.create("fail")
        result = await client.read(created["taskId"])
        shown = await client.get(created["taskId"])
    assert result["isError"] is True
    assert "no luck" in text_in(result)
    assert shown["status"] == ("completed" if client.is_modern else "failed")


@both_revisions
async def test_the_questions_of_a_task_are_answered_and_no_key_is_used_twice(mode: str) -> None:
    @tool
    async def ask(*, ctx: ToolContext) -> str:
        """Ask twice."""
        gates = [
            Gate("colour", {"question": f"Which {n}?"}, schema={"type": "string"}, timeout_seconds=60) for n in (1, 2)
        ]
        return ", ".join([str(await ctx.wait_for(gate)) for gate in gates])

    asked = Asked()
    async with TaskGateway(ask).connect(mode, asked=asked) as client:
        created = await client.create("ask")
        keys: list[str] = []
        if client.is_modern:
            for answer in ("red", "blue"):
                waiting = await client.until(created["taskId"], lambda status: status == "input_required")
                [(key, request)] = waiting["inputRequests"].items()
                asked.requests.append(request["params"]["message"])
                keys.append(key)
                ignored = {"unknown": {"action": 1}, **{each: {"action": "accept"} for each in keys[:-1]}}
                response = {"action": "accept", "content": {"answer": answer}}
                await client.send("tasks/update", taskId=created["taskId"], inputResponses={**ignored, key: response})
        result = await client.read(created["taskId"])
    assert text_in(result) == ("red, blue" if client.is_modern else "yes, yes")
    assert asked.requests == ["Which 1?", "Which 2?"]
    assert len(set(keys)) == len(keys)


async def test_an_invalid_answer_is_refused_and_the_question_stays_open() -> None:
    @tool
    async def ask(*, ctx: ToolContext) -> str:
        """Ask."""
        return await ctx.wait_for(Gate("colour", {"question": "Which?"}, schema={"type": "string"}, timeout_seconds=60))

    async with TaskGateway(ask).connect(MODERN, asked=Asked()) as client:
        task = (await client.create("ask"))["taskId"]
        waiting = await client.until(task, lambda status: status == "input_required")
        [key] = waiting["inputRequests"]
        with pytest.raises(MCPError) as refused:
            await client.send("tasks/update", taskId=task, inputResponses={key: {"action": 5}})
        still = await client.get(task)
    assert refused.value.code == -32602
    assert still["status"] == "input_required"


@both_revisions
async def test_a_finished_task_has_its_whole_result_after_a_restart(mode: str, tmp_path: Any) -> None:
    @tool
    def paint() -> Ok:
        """Give a picture and data."""
        picture = Media.tool_generated(b"\x89PNG\r\n\x1a\n", kind="image", mime_type="image/png", filename="dot.png")
        return Ok("a dot", structured={"dots": 1}, media=(picture,))

    async with Journal.sqlite(tmp_path / "journal.db") as journal:
        gateway = TaskGateway(paint, lines, journal=journal)
        async with gateway.connect(mode) as client:
            tasks = [(await client.create("paint"))["taskId"], (await client.create("lines", count=50_000))["taskId"]]
            before = [await client.read(task) for task in tasks]
        async with gateway.connect(mode) as client:
            after = [await client.read(task) for task in tasks]
            shown = [await client.get(task) for task in tasks]
    assert after == before
    assert [block["type"] for block in after[0]["content"]].count("image") == 1
    assert [each["status"] for each in shown] == ["completed"] * 2


@both_revisions
async def test_the_artifact_of_a_finished_task_can_be_read_after_a_restart(mode: str, tmp_path: Any) -> None:
    async with Journal.sqlite(tmp_path / "journal.db") as journal:
        gateway = TaskGateway(lines, journal=journal, spool=Spool.files(tmp_path / "spool"))
        async with gateway.connect(mode) as client:
            task = (await client.create("lines", count=50_000))["taskId"]
            shown = text_in(await client.read(task))
        async with gateway.connect(mode) as client:
            await client.read(task)
            call_id = shown.split('call_id "')[1].split('"')[0]
            task = (await client.create("artifact_tail", call_id=call_id, n=1))["taskId"]
            tail = text_in(await client.read(task))
    assert "line 49999" in tail


async def test_a_result_that_cannot_be_written_is_answered_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    work, go, _ = held()

    async def fail(*_args: object) -> None:
        raise JournalError("no room on the disk")

    async with TaskGateway(work).connect(MODERN) as client:
        task = (await client.create("work", what="tea"))["taskId"]
        monkeypatch.setattr(TaskRecords, "write_result", fail)
        go.set()
        result = await client.read(task)
        again = await client.read(task)
    assert text_in(result) == text_in(again) == "done with tea"


@both_revisions
@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_task_that_a_restart_interrupts_runs_again_only_if_it_may(mode: str, idempotent: bool) -> None:
    work, go, runs = held(idempotent=idempotent)
    gateway = TaskGateway(work)
    async with gateway.connect(mode) as client:
        task = (await client.create("work", what="tea"))["taskId"]
        await anyio.wait_all_tasks_blocked()
    go.set()
    async with gateway.connect(mode) as client:
        shown = await client.until(task, ENDED.__contains__)
        code: Any = None
        try:
            result = await client.send("tasks/result", taskId=task)
        except MCPError as error:
            code, result = error.code, {}
    assert shown["status"] == ("completed" if idempotent else "failed")
    assert runs == ["tea"] * (2 if idempotent else 1)
    if client.is_modern:
        assert code == -32601
        assert idempotent or shown["error"]["data"] == {"spindle/code": "interrupted"}
    else:
        assert text_in(result) == "done with tea" if idempotent else code == -32603


@both_revisions
async def test_a_question_is_asked_again_after_a_restart(mode: str) -> None:
    @tool(idempotent=True)
    async def ask(*, ctx: ToolContext) -> str:
        """Ask."""
        return await ctx.wait_for(Gate("colour", {"question": "Which?"}, schema={"type": "string"}, timeout_seconds=60))

    gateway, keys = TaskGateway(ask), list[str]()
    async with gateway.connect(mode, asked=Asked()) as client:
        task = (await client.create("ask"))["taskId"]
        shown = await client.until(task, lambda status: status == "input_required")
        keys += shown.get("inputRequests", {})
    async with gateway.connect(mode, asked=Asked()) as client:
        shown = await client.until(task, lambda status: status == "input_required")
        keys += shown.get("inputRequests", {})
        for key in shown.get("inputRequests", {}):
            response = {"action": "accept", "content": {"answer": "yes"}}
            await client.send("tasks/update", taskId=task, inputResponses={key: response})
        result = await client.read(task)
    assert text_in(result) == "yes"
    assert len(set(keys)) == len(keys) == (2 if client.is_modern else 0)


@both_revisions
async def test_a_task_waits_for_an_approval_in_the_journal_across_a_restart(mode: str) -> None:
    runs: list[int] = []

    @tool(requires_approval=True, secret_fields=["password"])
    async def pay(amount: int, password: str = "") -> str:
        """Pay an amount."""
        runs.append(amount)
        return f"paid {amount}"

    gateway = TaskGateway(pay)
    async with gateway.connect(mode) as client:
        task = (await client.create("pay", amount=5, password="hunter2-hunter2"))["taskId"]
        await anyio.wait_all_tasks_blocked()
        waiting = await client.get(task)
    await gateway.approve("pay", {"amount": 5, "password": "hunter2-hunter2"})
    async with gateway.connect(mode) as client:
        result = await client.read(task)
    assert waiting["status"] == "working"
    assert waiting["statusMessage"].startswith("Waits for approval")
    assert text_in(result) == "paid 5"
    assert runs == [5]


async def test_the_ttl_that_a_client_asks_for_is_bounded() -> None:
    work, go, _ = held()
    gateway = TaskGateway(work, ttl_seconds=60)
    async with gateway.connect(LEGACY) as client:
        ttls = [(await client.create("work", ttl=ttl, what="tea"))["ttl"] for ttl in (-5, 5_000, 10**12)]
        go.set()
    assert ttls == [1_000, 5_000, 60_000]


@pytest.mark.slow
async def test_tasks_are_listed_page_by_page_and_only_to_their_owner() -> None:
    work, go, _ = held()
    go.set()
    gateway = TaskGateway(work)
    async with gateway.connect(LEGACY) as client:
        made = [(await client.create("work", what=str(n)))["taskId"] for n in range(103)]
        first = await client.send("tasks/list")
        second = await client.send("tasks/list", cursor=first["nextCursor"])
        with pytest.raises(MCPError) as refused:
            await client.send("tasks/list", cursor="nonsense")
        gateway.caller = Caller(key="eve")
        others = await client.send("tasks/list")
        gateway.caller = Caller(key="another session", owner="alice", is_anonymous=True)
        anonymous = await client.send("tasks/list")
    assert [each["taskId"] for each in [*first["tasks"], *second["tasks"]]] == made[::-1]
    assert "nextCursor" not in second
    assert refused.value.code == -32602
    assert others["tasks"] == anonymous["tasks"] == []


@both_revisions
async def test_a_stopping_server_waits_for_running_tasks(mode: str) -> None:
    work, go, _ = held()
    gateway = TaskGateway(work)
    async with gateway.connect(mode) as client:
        task = (await client.create("work", what="tea"))["taskId"]
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as tasks:
            assert gateway.server is not None
            tasks.start_soon(gateway.server.drain, 30)
            await anyio.wait_all_tasks_blocked()
            go.set()
        shown = await client.get(task)
    assert shown["status"] == "completed"


async def test_only_the_revision_with_tasks_declares_them() -> None:
    work, _, _ = held()
    gateway = TaskGateway(work)
    async with gateway.connect(LEGACY) as client:
        declared = client.client.server_capabilities
        listed = await client.send("tools/list")
        with pytest.raises(MCPError) as refused:
            await client.send("tasks/update", taskId="t", inputResponses={})
    async with gateway.connect(MODERN) as client:
        newer = (await client.send("server/discover"))["capabilities"]
        newer_list = await client.send("tools/list")
        codes = list[int]()
        for method in ("tasks/result", "tasks/list"):
            with pytest.raises(MCPError) as removed:
                await client.send(method, taskId="t")
            codes.append(removed.value.code)
    assert declared.tasks is not None
    assert declared.tasks.requests is not None
    assert {each["execution"]["taskSupport"] for each in listed["tools"]} == {"optional"}
    assert "tasks" not in newer
    assert newer["extensions"] == {"io.modelcontextprotocol/tasks": {}}
    assert not any("execution" in each for each in newer_list["tools"])
    assert [refused.value.code, *codes] == [-32601] * 3
