"""What a batch leaves in its journal: an intent before each call, an outcome after, and a note of each refusal."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spindle import Budget, Call, CallOutcome, Err, Executor, Journal, Ok, Spool, ToolContext, ToolFilter, ToolRegistry
from spindle.execution import Retries
from spindle.journal import JournalEntry, idempotency_key
from spindle.tools import checksum
from tests.execution.calling import call, counting, err, execute, execute_one, giving, hearing, make, ok, raising
from tests.execution.journals import WatchedStore, get_content
from tests.journal.conftest import Place, place

pytestmark = pytest.mark.anyio

__all__ = ["place"]

SCHEMA = {
    "type": "object",
    "properties": {"user": {"type": "string"}, "password": {"type": "string"}, "n": {"type": "integer"}},
    "additionalProperties": False,
}


async def entry_of(journal: Journal, call_id: str = "c1") -> JournalEntry:
    entry = await journal.get(call_id)
    assert entry is not None
    return entry


async def test_a_handler_finds_itself_started_and_its_caller_finds_it_finished(place: Place) -> None:
    async with place.journal() as journal:
        seen: list[tuple[str, str, str]] = []

        async def look(_args: Any, ctx: ToolContext, _meta: Any) -> str:
            entries = await journal.list()
            seen.extend((each.tool_call_id, each.state, each.idempotency_key) for each in entries)
            return ctx.idempotency_key or ""

        ctx = ToolContext("s1", turn_id="t1")
        (outcome,) = await execute([make("look", look)], [call("look", {"a": 1})], journal=journal, ctx=ctx)
        entry = await entry_of(journal)

    key = idempotency_key("s1", "t1", "c1", checksum("look", {"a": 1}))
    assert seen == [("c1", "started", key)]
    assert (entry.state, entry.code, entry.idempotency_key) == ("finished", None, key)
    assert (ok(outcome).value, outcome.checksum) == (key, entry.checksum)


async def test_all_calls_of_a_batch_are_started_before_the_first_one_runs(place: Place) -> None:
    async with place.journal() as journal:
        seen: list[int] = []

        async def look(_args: Any, _ctx: Any, _meta: Any) -> None:
            seen.append(len(await journal.list()))

        await execute(
            [make("look", look)], [call("look", {}, f"c{n}") for n in range(5)], journal=journal, concurrency=1
        )

    assert seen == [5] * 5


async def test_an_entry_shows_the_outcome_of_its_call(place: Place) -> None:
    before = datetime.now(UTC)

    async def answer(_args: Any, _ctx: Any, _meta: Any) -> Ok:
        return Ok("fünf", structured={"n": 5}, cost_usd=0.25)

    tool = make("answer", answer, trusted=True)
    async with place.journal() as journal:
        await execute([tool], [call("answer", {"q": 1})], journal=journal, ctx=ToolContext("s1", turn_id="t1"))
        entry = await entry_of(journal)

    assert (entry.session_id, entry.turn_id, entry.tool, entry.args) == ("s1", "t1", "answer", {"q": 1})
    assert (entry.attempts, entry.cost_usd, entry.trusted, entry.result_chars) == (1, 0.25, True, 4)
    assert get_content(entry) == {"value": "fünf", "structured": {"n": 5}, "cost_usd": 0.25}
    assert (entry.fingerprint, entry.checksum) == (tool.fingerprint, checksum("answer", {"q": 1}))
    assert entry.ended_at is not None
    assert before <= entry.started_at <= entry.ended_at <= datetime.now(UTC) + timedelta(milliseconds=1)


async def test_a_failed_call_ends_with_its_code_and_its_attempts(place: Place) -> None:
    async with place.journal() as journal:
        tools = [raising(ValueError("boom"), idempotent=True), giving(Err("denied", "no"))]
        calls, retries = [call("fail"), call("give", {}, "c2")], Retries(times=3, first_wait_seconds=0)
        await execute(tools, calls, journal=journal, retries=retries)
        failed, denied = await entry_of(journal), await entry_of(journal, "c2")

    assert (failed.state, failed.code, failed.attempts) == ("finished", "execution_failed", 4)
    assert (denied.code, denied.error, denied.attempts, denied.trusted) == ("denied", "no", 1, False)


async def test_a_tool_that_repeats_a_secret_field_does_not_write_it_down() -> None:
    journal = Journal.memory()

    async def login(args: Any, _ctx: Any, _meta: Any) -> Ok:
        return Ok(f"{args['password']} is right", structured={"was": [args["password"]]})

    tool = make("login", login, input_schema=SCHEMA, secret_fields=["password"])
    outcome = await execute_one(tool, {"password": "correct horse"}, journal=journal)

    assert ok(outcome).value == "correct horse is right"
    assert get_content(await entry_of(journal)) == {"value": "*** is right", "structured": {"was": ["***"]}}


async def test_secret_fields_are_never_written(place: Place) -> None:
    tool = giving("hello", "login", input_schema=SCHEMA, secret_fields=["password"])
    secret = "correct horse battery"
    calls = [
        call("login", {"user": "ada", "password": secret}),
        call("login", {"user": "ada", "pasword": secret}, "misspelled"),
        call("login", {"user": 5, "password": secret}, "wrong type"),
        call("logni", {"password": secret}, "unknown"),
        Call("broken", "login", '{"password": "' + secret),
    ]
    async with place.journal() as journal:
        await execute([tool], calls, journal=journal)
        entries = {each.tool_call_id: each for each in await journal.list()}

    assert entries["c1"].args == {"user": "ada", "password": "***"}
    assert set(entries) == {"c1", "misspelled", "wrong type", "unknown", "broken"}
    assert secret not in repr(entries)


async def refusing_check(_args: Any, _ctx: Any) -> None:
    raise ValueError("not today")


def refusing_resources(_args: Any) -> list[str]:
    raise ValueError("who knows")


REFUSED: dict[str, tuple[dict[str, Any], Any, str]] = {
    "unknown": ({"name": "other"}, {}, "not_available"),
    "invalid": ({}, {"n": "many"}, "input_invalid"),
    "broken": ({}, '{"n": 1', "input_invalid"),
    "unavailable": ({"is_available": lambda: False}, {}, "not_available"),
    "checked": ({"checks": [refusing_check]}, {}, "input_invalid"),
    "unapproved": ({"requires_approval": True}, {}, "needs_approval"),
    "no resources": ({"resources": refusing_resources}, {}, "not_available"),
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_refused_call_is_noted_without_ever_having_been_started(place: Place, kind: str) -> None:
    options, args, code = REFUSED[kind]
    facts: dict[str, Any] = {"name": "give", "input_schema": SCHEMA} | options
    tool = giving("ran", **facts)
    async with place.journal() as journal:
        (outcome,) = await execute([tool], [call("give", args)], journal=journal)
        entry = await entry_of(journal)
    async with place.restarted() as journal:
        lost = await journal.interrupted()

    assert err(outcome).code == code
    assert (entry.state, entry.code, entry.attempts, entry.args) == ("finished", code, 0, {})
    assert (entry.error, entry.checksum, lost) == (err(outcome).error, outcome.checksum, [])


async def test_a_filtered_call_is_noted_and_runs_when_it_is_asked_again_and_allowed(place: Place) -> None:
    tool, runs = counting()
    async with place.journal() as journal:
        await execute([tool], [call("count")], journal=journal, filter=ToolFilter(allowed_tools=[]))
        refused = await entry_of(journal)
        (outcome,) = await execute([tool], [call("count")], journal=journal)
        entries = await journal.list()

    assert (refused.code, refused.attempts, len(runs), ok(outcome).value) == ("not_available", 0, 1, "ran")
    assert [(each.state, each.code, each.attempts) for each in entries] == [("finished", None, 1)]


async def test_a_value_that_is_not_a_call_is_answered_and_not_written(place: Place) -> None:
    broken: list[Any] = ["text", Call(None, "count", {}), Call(["id"], "count", {})]  # type: ignore[arg-type]
    tool, runs = counting()
    async with place.journal() as journal:
        outcomes = await execute([tool], [*broken, call("count")], journal=journal)
        entries = await journal.list()

    assert [each.ok for each in outcomes] == [False, False, False, True]
    assert ([each.tool_call_id for each in entries], len(runs)) == (["c1"], 1)


@pytest.mark.parametrize("answer", [True, "too late", RuntimeError()])
async def test_a_call_that_waits_for_a_person_is_not_started(place: Place, answer: Any) -> None:
    async with place.journal() as journal:
        seen: list[JournalEntry] = []

        async def approve(_request: Any) -> Any:
            seen.extend(await journal.list())
            if isinstance(answer, Exception):
                raise answer
            return answer

        tool, runs = counting(requires_approval=True)
        await execute([tool], [call("count")], journal=journal, approve=approve)
        entry = await entry_of(journal)

    assert (seen, len(runs)) == ([], int(answer is True))
    assert (entry.state, entry.code, entry.attempts) == ("finished", None if runs else "denied", len(runs))


async def test_a_call_that_an_interceptor_holds_is_not_started_and_what_it_answers_is_written(place: Place) -> None:
    async with place.journal() as journal:
        seen: list[JournalEntry] = []

        async def change(_call: Any, _ctx: Any, go_on: Any) -> CallOutcome:
            seen.extend(await journal.list())
            outcome = await go_on()
            return CallOutcome(outcome.tool_call_id, outcome.name, outcome.checksum, Ok("changed"))

        await execute([giving("plain")], [call("give")], journal=journal, interceptors=[change])
        entry = await entry_of(journal)

    assert (seen, entry.state, get_content(entry)) == ([], "finished", {"value": "changed"})


async def test_a_dry_run_leaves_no_trace_and_a_cached_answer_no_second_one(place: Place) -> None:
    tool, runs = counting(cache=True)
    async with place.journal() as journal:
        executor = Executor(ToolRegistry([tool]), journal=journal)
        await executor.execute_parallel([call("count"), call("nobody", {}, "c2")], ToolContext("s1", dry_run=True))
        foretold = await journal.list()
        for call_id in ("first", "second"):
            await executor.execute_parallel([call("count", {}, call_id)], ToolContext("s1"))
        entries = await journal.list()

    assert (foretold, len(runs)) == ([], 1)
    assert [each.tool_call_id for each in entries] == ["first"]


async def test_nothing_runs_that_cannot_be_written_down_first() -> None:
    store = WatchedStore()
    store.fails_on = {"begin"}
    plain, plain_runs = counting("plain")
    asked, asked_runs = counting("asked", checks=[lambda _args, _ctx: None])  # pyright: ignore[reportUnknownLambdaType]

    outcomes = await execute([plain, asked], [call("plain"), call("asked", {}, "c2")], journal=store.journal)

    assert [(err(each).code, err(each).retryable) for each in outcomes] == [("not_available", True)] * 2
    assert all(isinstance(err(each).cause, OSError) for each in outcomes)
    assert plain_runs == asked_runs == []


async def test_answers_stand_when_they_cannot_be_written_and_a_warning_says_so() -> None:
    store = WatchedStore()
    store.fails_on = {"finish", "note"}
    ctx, warnings = hearing()

    outcomes = await execute([giving("fine")], [call("give"), call("nobody", {}, "c2")], ctx=ctx, journal=store.journal)

    assert [each.ok for each in outcomes] == [True, False]
    assert [each.source for each in warnings] == ["journal"]


async def test_a_result_that_is_not_json_is_written_as_text_and_costs_no_sibling(place: Place) -> None:
    ctx, warnings = hearing()
    tools = [giving(Ok("text", structured={"x": object()}), "odd"), giving(Ok("fine", structured=[1]), "even")]
    async with place.journal() as journal:
        await execute(tools, [call("odd"), call("even", {}, "c2")], ctx=ctx, journal=journal)
        odd, even = await entry_of(journal), await entry_of(journal, "c2")

    assert (odd.state, get_content(odd)) == ("finished", {"value": "text"})
    assert (even.state, get_content(even)) == ("finished", {"value": "fine", "structured": [1]})
    assert [each.source for each in warnings] == ["journal"]


async def test_a_cut_result_is_written_as_it_is_shown_with_the_place_of_the_whole(place: Place) -> None:
    spool = Spool.memory()
    async with place.journal() as journal:
        outcome = await execute_one(giving("x" * 500), journal=journal, spool=spool, budget=Budget(100))
        entry = await entry_of(journal)

    shown = ok(outcome).value
    assert (get_content(entry), entry.result_chars) == (
        {"value": shown, "is_json": False, "is_partial": True},
        len(shown),
    )
    assert entry.artifact_id is not None
    reader = await spool.read(entry.artifact_id)
    assert reader is not None
    assert await reader.read_all() == b"x" * 500
