"""The event loop stays responsive: no step of it takes more than 50 ms of CPU time for results of 10 MB."""

import gc
import json
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel

from spindle import (
    Artifact,
    Backends,
    Call,
    CallOutcome,
    Capabilities,
    Err,
    Executor,
    Journal,
    JsonArtifact,
    Ok,
    Spool,
    ToolContext,
    ToolRegistry,
    tool,
)
from spindle.capabilities import SecretsBackend
from spindle.journal import FinishedCall, Intent
from tests.execution.calling import giving

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


MANY, FEW = 130_000, 10_000
"""Rows of 10 MB, and as many as are too large for a result too: for a first call, which imports what calls need."""


@cache  # not while modules are loaded: only the process that runs these tests needs them
def rows(count: int = MANY) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"name {n}", "tags": ["a", "b"], "part": n / 3} for n in range(count)]


@cache
def text(count: int = MANY) -> str:
    return json.dumps(rows(count))


@cache
def max_step_seconds() -> float:
    """Return 50 ms, or on a slow machine half of what parsing the text takes: work left on the loop takes longer."""
    whole = text()
    begun = time.thread_time()
    json.loads(whole)
    return max(0.05, (time.thread_time() - begun) / 2)


async def holds_up_the_loop(work: Callable[[], Awaitable[object]]) -> bool:
    """Return whether a step takes too long each time: once may be chance, such as memory that the system takes back."""
    for _ in range(3):
        if await longest_step(work) < max_step_seconds():
            return False
    return True


async def longest_step(work: Callable[[], Awaitable[object]]) -> float:
    """Return the most CPU time that the loop's thread used between two turns of a task that only wakes up.

    It sleeps a millisecond at a time: yielding without end would take the processor away from the threads that work.
    The garbage collector is off meanwhile: it may look at all objects of the process in any thread, also in this one.
    """
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        last = time.thread_time()
        while True:
            await anyio.sleep(0.001)
            now = time.thread_time()
            longest, last = max(longest, now - last), now

    gc.disable()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await anyio.lowlevel.checkpoint()
            await work()
            for _ in range(3):
                await anyio.sleep(0.001)
            group.cancel_scope.cancel()
    finally:
        gc.enable()
    return longest


@tool
async def list_rows(count: int = MANY) -> list[dict[str, Any]]:
    """List rows."""
    return rows(count)


@tool
def list_rows_in_a_thread(count: int = MANY) -> list[dict[str, Any]]:
    """List rows."""
    return rows(count)


class Row(BaseModel):
    id: int
    name: str
    tags: list[str]
    part: float


class Page(BaseModel):
    rows: list[Row]


@cache
def page(count: int) -> Page:
    return Page.model_validate({"rows": rows(count)})


@tool
async def give_model(count: int = MANY) -> Page:
    """Return a model."""
    return page(count)


@tool
async def read_text(count: int = MANY) -> str:
    """Read text."""
    return text(count)


def get_part(value: Any) -> Any:
    """Return the first 400 KB of a result, which are too large for a model too."""
    return Ok(value.value[:400_000]) if isinstance(value, Ok) else value[:400_000]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("\ud800abc" * 500_000, id="text"),
        pytest.param("\ud800abc" * 1_500_000, id="long text", marks=pytest.mark.slow),
        pytest.param(Ok("\udc80abc" * 1_500_000), id="ok", marks=pytest.mark.slow),
        pytest.param(bytes(range(256)) * 40_000, id="bytes"),
    ],
)
async def test_large_results_that_are_not_valid_text_do_not_hold_up_the_loop(value: Any) -> None:
    executor = Executor(ToolRegistry([giving(value), giving(get_part(value), "give_part")]))
    await executor.execute_parallel([Call("first", "give_part", {})], ToolContext())
    outcomes: list[CallOutcome] = []

    async def work() -> None:
        outcomes.extend(await executor.execute_parallel([Call("second", "give", {})], ToolContext()))

    assert not await holds_up_the_loop(work)
    assert isinstance(outcomes[0].result, Ok)
    assert "\ufffd" in outcomes[0].result.value


@pytest.mark.parametrize(
    "name",
    [
        "list_rows",
        "read_text",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("list_rows_in_a_thread", "give_model")),
    ],
)
@pytest.mark.parametrize("has_journal", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_large_results_do_not_hold_up_the_loop(name: str, has_journal: bool) -> None:
    tools = ToolRegistry([list_rows, list_rows_in_a_thread, give_model, read_text])
    executor = Executor(tools, journal=Journal.memory() if has_journal else None)
    ctx = ToolContext("s1", turn_id="t1")
    await executor.execute_parallel([Call("first", name, {"count": FEW})], ctx)

    outcomes: list[Any] = []

    async def work() -> None:  # another id each time: the journal would replay the first one
        outcomes.extend(await executor.execute_parallel([Call(f"again {len(outcomes)}", name, {})], ctx))

    assert not await holds_up_the_loop(work)
    result = outcomes[0].result
    assert isinstance(result, Ok)
    assert isinstance(result.artifact, JsonArtifact)
    expected = {"rows": rows()} if name == "give_model" else rows()
    assert json.loads(await result.artifact.as_text()) == expected
    assert result.structured == (None if name == "read_text" else expected)


@pytest.mark.parametrize("name", [pytest.param("list_rows", marks=pytest.mark.slow), "read_text"])
async def test_masking_secrets_in_large_results_does_not_hold_up_the_loop(name: str) -> None:
    @tool(capabilities=Capabilities(secrets=["KEY"]))
    async def sign_in(*, ctx: ToolContext) -> str:
        """Sign in."""
        return (await ctx.secrets.get("KEY")).reveal()

    backends = Backends(secrets=SecretsBackend({"KEY": '"name 4711"'}))
    executor = Executor(ToolRegistry([list_rows, read_text, sign_in]), backends=backends)
    ctx, outcomes = ToolContext("s1", turn_id="t1"), list[CallOutcome]()
    await executor.execute_parallel([Call("first", "sign_in", {}), Call("again", name, {"count": FEW})], ctx)

    async def work() -> None:
        outcomes.extend(await executor.execute_parallel([Call("second", name, {})], ctx))

    assert not await holds_up_the_loop(work)
    result = outcomes[0].result
    assert isinstance(result, Ok)
    assert isinstance(result.artifact, JsonArtifact)
    text = await result.artifact.as_text()
    assert '"name 4711"' not in text
    assert '"name 4710"' in text


async def test_json_queries_and_hard_patterns_do_not_hold_up_the_loop() -> None:
    whole, lines = text(), "\n".join("a" * 80 + str(n) for n in range(60_000))

    for work in (  # with an artifact of its own each time: one that was read knows its length
        lambda: JsonArtifact.from_text(whole).length(),
        lambda: JsonArtifact.from_text(whole).get("$[5].name"),
        lambda: JsonArtifact.from_text(whole).get("$[?search(@.name, '(9|99)+$')].id", limit=20),
        lambda: Artifact.from_text(lines).grep("(a+)+$b"),
        lambda: Artifact.from_text(lines).grep("(.*a){12}x"),
    ):
        assert not await holds_up_the_loop(work)


@pytest.mark.parametrize("kind", [pytest.param("memory", marks=pytest.mark.slow), "sqlite"])
async def test_reading_the_journal_does_not_hold_up_the_loop(kind: str, tmp_path: Path) -> None:
    journal = Journal.memory() if kind == "memory" else Journal.sqlite(tmp_path / "journal.sqlite")
    for n in range(10):
        await journal.begin([intent(f"key {n}")])
        result = {"value": "x", "structured": rows()[: 130_000 // 10]}
        await journal.finish([FinishedCall(idempotency_key=f"key {n}", ended_at=datetime.now(UTC), result=result)])

    entries: list[Any] = []

    async def work() -> None:
        entries[:] = await journal.list()

    assert not await holds_up_the_loop(work)
    assert [entry.idempotency_key for entry in entries] == [f"key {n}" for n in reversed(range(10))]
    assert (await journal.begin([intent("key 3")]))[0] == entries[6]


def intent(key: str) -> Intent:
    return Intent(
        idempotency_key=key,
        tool_call_id=key,
        tool="t",
        checksum="c",
        session_id="s",
        turn_id="t",
        fingerprint="f",
        args={},
        started_at=datetime.now(UTC),
    )


async def test_the_journal_does_not_hold_a_large_structured_value() -> None:
    journal = Journal.memory()
    executor = Executor(ToolRegistry([list_rows, read_summary]), journal=journal)

    calls = [Call("c1", "list_rows", {"count": FEW}), Call("c2", "read_summary", {})]
    await executor.execute_parallel(calls, ToolContext("s1"))

    for entry in await journal.list():
        assert len(json.dumps(entry.result)) < 100_000


@tool
async def read_summary() -> Ok:
    """Read a summary."""
    return Ok("short", structured=rows(FEW))


@tool
async def make_report() -> Artifact:
    """Make a report."""
    return Artifact.from_text("line\n" * 100_000)


@tool
async def make_note() -> Ok:
    """Make a note."""
    return Ok("see the artifact", artifact=Artifact.from_text("note"))


@tool
async def make_small_report() -> Artifact:
    """Make a report that is shown in full."""
    return Artifact.from_text("all of it")


async def test_a_replayed_result_that_was_shown_in_full_names_nothing() -> None:
    executor = Executor(ToolRegistry([make_note, make_small_report]), journal=Journal.memory())
    calls = [Call("c1", "make_note", {}), Call("c2", "make_small_report", {})]
    await executor.execute_parallel(calls, ToolContext("s1"))

    results = [outcome.result for outcome in await executor.execute_parallel(calls, ToolContext("s1"))]

    assert [isinstance(each, Ok) and "was not kept" in each.value for each in results] == [True, False]


@tool
async def read_lines() -> str:
    """Read lines."""
    return "line\n" * 100_000


async def test_a_replayed_result_names_an_artifact_that_is_gone() -> None:
    journal, spool, ctx = Journal.memory(), Spool.memory(), ToolContext("s1", turn_id="t1")
    calls = [Call("c1", "make_report", {}), Call("c2", "read_lines", {})]
    tools = ToolRegistry([make_report, read_lines])
    first = await Executor(tools, journal=journal, spool=spool).execute_parallel(calls, ctx)

    kept = await Executor(tools, journal=journal, spool=spool).execute_parallel(calls, ctx)
    gone = await Executor(tools, journal=journal, spool=Spool.memory()).execute_parallel(calls, ctx)

    results = [outcome.result for outcome in (*first, *kept, *gone)]
    assert [isinstance(each, Ok) and each.artifact is not None for each in results] == [
        *(True, True),
        *(False, True),
        *(False, False),
    ]
    assert [isinstance(each, Ok) and "was not kept" in each.value for each in results] == [
        *(False, False),
        *(True, False),
        *(True, True),
    ]


@pytest.mark.slow
async def test_unknown_names_among_many_tools_do_not_hold_the_loop() -> None:
    registry = ToolRegistry([giving("x", f"list_the_rows_of_{n}") for n in range(10_000)])
    calls = [Call(f"c{n}", f"list_rows_of_{n}_", {}) for n in range(100)] + [Call("long", "x" * 100_000, {})]
    outcomes = list[CallOutcome]()

    async def work() -> None:
        outcomes.extend(await Executor(registry).execute_parallel(calls, ToolContext()))

    assert not await holds_up_the_loop(work)
    assert all("did you mean" in each.result.error for each in outcomes[:100] if isinstance(each.result, Err))
