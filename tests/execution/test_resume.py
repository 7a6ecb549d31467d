"""`Executor.resume` under attack: what a ticket must not allow, and what survives a changed tool or a crash."""

import json
import pickle
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from spindle import Call, CallOutcome, Err, Journal, Ok, ToolContext
from spindle.errors import ApprovalRequiredError, JournalError, UsageError
from spindle.execution import ApprovalAnswer, ApprovalRequest, list_approvals
from spindle.journal import StateQuery, StateRecord
from tests.execution.calling import counting, err, make, ok
from tests.execution.ticketing import NUMBER, ask, executor, get_ticket, paying
from tests.journal.conftest import Place, place

pytestmark = pytest.mark.anyio
__all__ = ["place"]


async def read_records(journal: Journal) -> list[StateRecord]:
    assert journal.states is not None
    return await journal.states.select(StateQuery("approval"))


async def read_record(journal: Journal) -> StateRecord:
    [record] = await read_records(journal)
    return record


async def change_record(journal: Journal, change: Callable[[dict[str, Any]], object], **columns: Any) -> None:
    """Change the stored call with write access to the database, but without the key."""
    assert journal.states is not None
    record = await read_record(journal)
    facts = json.loads(record.data)
    change(facts)
    await journal.states.replace(record._replace(data=json.dumps(facts), version=record.version + 1, **columns))


class FullDisk:
    """A store in which no call can be begun; everything else reaches the real one."""

    def __init__(self, journal: Journal) -> None:
        self._store: Any = vars(journal)["_store"]

    def as_journal(self) -> Journal:
        return Journal(cast("Any", self))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def begin(self, claims: Any) -> list[Any]:
        raise JournalError("the disk is full")


async def test_the_approval_of_a_call_does_not_cover_the_calls_of_its_handler() -> None:
    wipe, wiped = counting("wipe", requires_approval=True)
    tickets: list[str | None] = []

    async def pay(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        try:
            await wipe.executor(ctx)({})
        except ApprovalRequiredError as error:
            tickets.append(pickle.loads(pickle.dumps(error)).ticket)
        return "paid"

    asked = executor([make("pay", pay, requires_approval=True), wipe], Journal.memory())

    assert ok(await asked.resume(await get_ticket(asked))).value == "paid"
    assert wiped == []
    [ticket] = tickets
    assert ticket is not None
    assert ok(await asked.resume(ticket)).value == "ran"
    assert wiped == [{}]


@pytest.mark.parametrize("folder", ["/srv/shop", Path("/srv/shop"), None], ids=["text", "path", "none"])
async def test_the_call_runs_in_the_folder_in_which_it_was_asked(place: Place, folder: Any) -> None:
    seen: list[Any] = []

    async def pay(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        seen.append(ctx.working_dir)
        return "paid"

    tool = make("pay", pay, requires_approval=True)
    ctx = ToolContext("s1", turn_id="t1", working_dir=folder)
    ticket = await get_ticket(executor([tool], place.journal()), ctx=ctx)

    await executor([tool], place.journal()).resume(ticket)

    assert seen == [folder]


@pytest.mark.parametrize(
    ("field", "answer"),
    [
        ("approved", {"approved": "no"}),
        ("approved", {"approved": 1}),
        ("by", {"by": 5}),
        ("args", {"approved": False, "args": {"amount": 1}}),
        ("ticket", {"ticket": None}),
    ],
)
async def test_an_answer_of_the_wrong_type_is_a_usage_error(field: str, answer: dict[str, Any]) -> None:
    tool, runs = paying()
    asked = executor([tool], Journal.memory())
    given: dict[str, Any] = {"ticket": await get_ticket(asked)} | answer

    with pytest.raises(UsageError) as raised:
        await asked.resume(**given)

    assert raised.value.field == field
    assert runs == []


async def test_edited_arguments_that_a_check_of_the_tool_rejects_leave_the_ticket_open(place: Place) -> None:
    async def check(args: Any, _ctx: Any) -> None:
        if args["amount"] > 10:
            raise ValueError("at most 10")

    tool, runs = paying(checks=[check])
    asked = executor([tool], place.journal())
    ticket = await get_ticket(asked)

    assert err(await asked.resume(ticket, args={"amount": 99})).code == "input_invalid"
    assert ok(await asked.resume(ticket, args={"amount": 3})).value == "ran"
    assert runs == [{"amount": 3}]


async def test_a_check_that_hangs_ends_with_the_time_of_the_call() -> None:
    is_hanging: list[bool] = []

    async def check(_args: Any, _ctx: Any) -> None:
        if is_hanging:
            await anyio.sleep_forever()

    tool, runs = paying(checks=[check], timeout_seconds=0.05)
    asked = executor([tool], Journal.memory())
    ticket = await get_ticket(asked)
    is_hanging.append(True)

    with anyio.fail_after(30):
        assert err(await asked.resume(ticket)).code == "timed_out"
    assert runs == []


async def test_a_call_of_a_changed_tool_made_again_gets_a_ticket_that_can_be_answered(place: Place) -> None:
    tool, _ = paying()
    changed, runs = paying(description="Pays twice.")
    old = await get_ticket(executor([tool], place.journal()))
    asked = executor([changed], place.journal())

    new = await get_ticket(asked)

    assert err(await asked.resume(old)).reason == "tool_changed"
    assert ok(await asked.resume(new)).value == "ran"
    assert len(runs) == 1


async def test_the_same_call_of_another_caller_gets_a_ticket_of_its_own(place: Place) -> None:
    seen: list[Any] = []

    async def pay(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        seen.append(ctx.caller)
        return "paid"

    asked = executor([make("pay", pay, requires_approval=True)], place.journal())
    anns = await get_ticket(asked, ctx=ToolContext("s1", turn_id="t1", caller={"user": "ann"}))
    eves = await get_ticket(asked, ctx=ToolContext("s1", turn_id="t1", caller={"user": "eve"}))

    assert anns != eves
    await asked.resume(anns)
    assert seen == [{"user": "ann"}]


@pytest.mark.parametrize("other", ["tool", "caller"])
async def test_an_approval_does_not_let_another_tool_or_caller_run(place: Place, other: str) -> None:
    tool, runs = paying()
    changed, changed_runs = paying(description="Pays twice.")
    ticket = await get_ticket(executor([tool], place.journal()))
    await executor([tool], FullDisk(place.journal()).as_journal()).resume(ticket)  # approved, and never begun

    caller = {"user": "eve" if other == "caller" else "ann"}
    asked = executor([changed if other == "tool" else tool], place.journal())
    outcome = await ask(asked, ctx=ToolContext("s1", turn_id="t1", caller=caller))

    assert err(outcome).code == "needs_approval"
    assert (runs, changed_runs) == ([], [])


def forge_answer(facts: dict[str, Any], key: str | None) -> None:
    facts["answer"] = {"approved": True, "checksum": facts["checksum"], "key": key, "by": "ann", "at": 1, "ran": {}}


async def test_an_answer_that_was_written_without_the_key_approves_nothing(place: Place) -> None:
    tool, runs = paying()
    journal = place.journal()
    asked = executor([tool], journal)
    ticket = await get_ticket(asked)
    group = (await read_record(journal)).group

    await change_record(journal, lambda facts: forge_answer(facts, group), status="executing")

    assert err(await asked.resume(ticket)).reason == "tampered"
    assert err(await ask(asked)).code == "needs_approval"
    assert runs == []


@pytest.mark.parametrize("change", [{"shown": "Run ls?"}, {"args": {"amount": 0}}, {"working_dir": "/"}])
async def test_a_stored_call_that_shows_something_else_is_refused(place: Place, change: dict[str, Any]) -> None:
    tool, runs = paying()
    journal = place.journal()
    ticket = await get_ticket(executor([tool], journal))

    await change_record(journal, lambda facts: facts.update(change))

    assert err(await executor([tool], journal).resume(ticket)).reason == "tampered"
    assert runs == []


async def test_a_ticket_whose_expiry_was_moved_is_refused(place: Place) -> None:
    tool, runs = paying()
    journal = place.journal()
    ticket = await get_ticket(executor([tool], journal, ticket_ttl_seconds=1e-6))

    await change_record(journal, lambda _: None, expires_at=2**60)

    assert err(await executor([tool], journal).resume(ticket)).reason == "tampered"
    assert runs == []


async def test_sealed_arguments_of_another_ticket_are_refused(tmp_path: Path) -> None:
    tool, runs = paying()
    path = tmp_path / "journal.db"
    async with Journal.sqlite(path) as journal:
        ticket = await get_ticket(executor([tool], journal), {"amount": 1})
        await get_ticket(executor([tool], journal), {"amount": 1_000_000}, id="c2")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        [(other,)] = database.execute("SELECT sealed FROM states ORDER BY seq DESC LIMIT 1").fetchall()
        database.execute("UPDATE states SET sealed = ?", (other,))

    async with Journal.sqlite(path) as journal:
        assert err(await executor([tool], journal).resume(ticket)).reason == "tampered"
    assert runs == []


async def test_a_result_that_says_not_available_ends_the_ticket_and_erases_its_arguments(place: Place) -> None:
    runs: list[Any] = []

    async def pay(args: Any, _ctx: Any, _meta: Any) -> Err:
        runs.append(args)
        return Err("not_available", "the bank is closed", retryable=True)

    journal = place.journal()
    asked = executor([make("pay", pay, requires_approval=True)], journal)
    ticket = await get_ticket(asked)

    codes = [err(await asked.resume(ticket)).code for _ in range(2)]

    assert codes == ["not_available", "not_available"]
    assert len(runs) == 1
    record = await read_record(journal)
    assert (record.status, record.sealed) == ("finished", None)


async def test_a_result_from_the_cache_is_the_recorded_outcome(place: Place) -> None:
    tool, runs = paying(cache=True)
    asked = executor([tool], place.journal())
    await asked.resume(await get_ticket(asked))
    ticket = await get_ticket(asked, id="c2")

    values = [ok(await asked.resume(ticket)).value for _ in range(2)]

    assert values == ["ran", "ran"]
    assert len(runs) == 1


async def test_a_cancelled_answer_ends_the_ticket_and_erases_its_arguments(place: Place) -> None:
    started = anyio.Event()

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> str:
        started.set()
        await anyio.sleep_forever()
        return "never"

    journal = place.journal()
    asked = executor([make("pay", hang, requires_approval=True)], journal)
    ticket = await get_ticket(asked)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(asked.resume, ticket)
            await started.wait()
            assert (await read_record(journal)).status == "executing"
            group.cancel_scope.cancel()

    record = await read_record(journal)
    assert (record.status, record.sealed) == ("finished", None)
    assert err(await asked.resume(ticket)).code == "cancelled"


@pytest.mark.parametrize("edit", [None, {"amount": 3}], ids=["approved", "edited"])
async def test_the_recorded_outcome_is_returned_when_the_tool_has_changed_or_is_gone(place: Place, edit: Any) -> None:
    tool, runs = paying()
    changed, _ = paying(description="Pays twice.")
    ticket = await get_ticket(executor([tool], place.journal()))
    await executor([tool], place.journal()).resume(ticket, args=edit)

    again = await executor([changed], place.journal()).resume(ticket, args=edit)
    gone = await executor([], place.journal()).resume(ticket, args=edit)
    another = await executor([], place.journal()).resume(ticket, args={"amount": 4})

    assert (ok(again).value, ok(gone).value) == ("ran", "ran")
    assert err(another).code == "denied"
    assert len(runs) == 1


async def test_an_interrupted_call_is_reported_when_its_tool_is_gone(place: Place) -> None:
    started = anyio.Event()

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> str:
        started.set()
        await anyio.sleep_forever()
        return "never"

    hanging = make("pay", hang, input_schema=NUMBER, requires_approval=True)
    ticket = await get_ticket(executor([hanging], place.journal()))
    outcomes: list[CallOutcome] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(executor([hanging], place.journal()).resume, ticket)
            await started.wait()
            outcomes.append(await executor([], place.restarted()).resume(ticket))
            group.cancel_scope.cancel()

    assert [err(outcome).code for outcome in outcomes] == ["interrupted"]


async def test_an_idempotent_call_that_a_crash_interrupted_runs_again_with_the_same_answer(place: Place) -> None:
    started = anyio.Event()

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> str:
        started.set()
        await anyio.sleep_forever()
        return "never"

    tool, runs = paying(idempotent=True)
    hanging = make("pay", hang, input_schema=NUMBER, requires_approval=True, idempotent=True)
    ticket = await get_ticket(executor([hanging], place.journal()))
    outcomes: list[CallOutcome] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(executor([hanging], place.journal()).resume, ticket)
            await started.wait()
            outcomes.append(await executor([tool], place.restarted()).resume(ticket))
            group.cancel_scope.cancel()

    assert [ok(outcome).value for outcome in outcomes] == ["ran"]
    assert len(runs) == 1


async def test_a_new_ticket_erases_the_arguments_of_expired_ones(place: Place) -> None:
    tool, _ = paying()
    journal = place.journal()
    await get_ticket(executor([tool], journal, ticket_ttl_seconds=1e-6), id="old")

    await get_ticket(executor([tool], journal), id="new")

    assert [(record.status, record.sealed is None) for record in await read_records(journal)] == [
        ("pending", False),
        ("expired", True),
    ]


class HangingStates:
    """Records that are never stored."""

    async def select(self, _query: StateQuery) -> list[StateRecord]:
        await anyio.sleep_forever()
        return []


class HangingStore(FullDisk):
    states = HangingStates()


async def test_a_journal_that_hangs_does_not_hold_a_call_beyond_its_time() -> None:
    tool, _ = paying(timeout_seconds=0.05)

    with anyio.fail_after(30):
        outcome = await ask(executor([tool], HangingStore(Journal.memory()).as_journal()))

    assert err(outcome).code == "timed_out"


async def test_answers_in_any_order_and_more_than_once_are_safe(place: Place) -> None:
    tool, runs = paying()
    asked = executor([tool], place.journal())
    tickets = [await get_ticket(asked, {"amount": n}, id=f"c{n}") for n in range(5)]

    for ticket in (*tickets[::-1], *tickets):
        assert isinstance((await asked.resume(ticket)).result, Ok)

    assert sorted(run["amount"] for run in runs) == [0, 1, 2, 3, 4]


async def test_calls_of_one_batch_get_tickets_of_their_own(place: Place) -> None:
    tool, runs = paying()
    asked = executor([tool], place.journal())
    calls = [Call(f"c{n}", "pay", {"amount": n}) for n in range(3)]

    outcomes = await asked.execute_parallel(calls, ToolContext("s1", turn_id="t1"))
    tickets = {err(outcome).ticket for outcome in outcomes}

    assert len(tickets) == 3
    assert None not in tickets
    assert runs == []


async def test_approvals_are_listed_with_who_answered_when_what_was_shown_and_what_ran(place: Place) -> None:
    tool, _ = paying(secret_fields=["password"])
    journal = place.journal()
    asked = executor([tool], journal)
    edited = await get_ticket(asked, {"amount": 5, "password": "hunter2-hunter2"})
    denied = await get_ticket(asked, {"amount": 6}, id="c2")
    await get_ticket(asked, {"amount": 7}, id="c3")
    await asked.resume(edited, args={"amount": 3, "password": "hunter3-hunter3"}, by="ann")
    await asked.resume(denied, approved=False, by="ben")

    found = await list_approvals(journal)

    assert [each.status for each in found] == ["pending", "denied", "finished"]
    assert [each.answered_by for each in found] == [None, "ben", "ann"]
    assert [each.ran for each in found] == [None, None, {"amount": 3, "password": "***"}]
    assert found[2].args == {"amount": 5, "password": "***"}
    assert found[2].shown == 'Run pay with {"amount": 5, "password": "***"}?'
    assert found[2].caller == {"user": "ann"}
    assert found[2].answered_at is not None
    assert found[2].created_at <= found[2].answered_at < found[2].expires_at
    assert await list_approvals(journal, status="denied") == [found[1]]
    assert await list_approvals(journal, limit=1) == [found[0]]


def answering(answer: bool | ApprovalAnswer) -> Callable[[ApprovalRequest], bool | ApprovalAnswer]:
    return lambda _: answer


@pytest.mark.parametrize("approved", [True, False])
async def test_the_answer_of_an_approver_is_recorded(place: Place, approved: bool) -> None:
    tool, runs = paying(secret_fields=["password"])
    journal = place.journal()
    asked = executor([tool], journal, approve=answering(ApprovalAnswer(approved=approved, by="ann")))

    outcome = await ask(asked, {"amount": 5, "password": "hunter2-hunter2"})

    record = await read_record(journal)
    facts = json.loads(record.data)
    masked = {"amount": 5, "password": "***"}
    assert outcome.ok is approved
    assert (record.status, record.sealed) == ("executing" if approved else "denied", None)
    assert (facts["answer"]["approved"], facts["answer"]["by"]) == (approved, "ann")
    assert facts["answer"]["ran"] == (masked if approved else None)
    assert facts["shown"] == 'Run pay with {"amount": 5, "password": "***"}?'
    assert record.created_at <= facts["answer"]["at"]
    assert "hunter2" not in record.data
    assert len(runs) == int(approved)


@pytest.mark.parametrize("approved", [True, False])
async def test_an_approver_answers_the_ticket_of_its_call(place: Place, approved: bool) -> None:
    tool, runs = paying()
    journal = place.journal()
    ticket = await get_ticket(executor([tool], journal))

    here = await ask(executor([tool], journal, approve=answering(approved)))

    record = await read_record(journal)
    other = executor([tool], journal)
    assert here.ok is approved
    assert (record.status, record.sealed) == ("executing" if approved else "denied", None)
    assert (await other.resume(ticket, approved=approved)).ok is approved
    assert err(await other.resume(ticket, approved=not approved)).reason == "already_answered"
    assert err(await other.resume(ticket, args={"amount": 6})).reason == "already_answered"
    assert len(runs) == int(approved)


async def test_an_answer_from_elsewhere_comes_before_the_answer_of_a_slower_approver(place: Place) -> None:
    tool, runs = paying()
    other = executor([tool], place.journal())
    ticket = await get_ticket(other)

    async def approve(_: ApprovalRequest) -> bool:
        await other.resume(ticket, args={"amount": 1})
        return True

    outcome = await ask(executor([tool], place.journal(), approve=approve))
    again = await ask(executor([tool], place.journal(), approve=answering(False)))

    assert (ok(outcome).value, ok(again).value) == ("ran", "ran")
    assert runs == [{"amount": 1}]


async def test_an_approver_that_fails_leaves_the_ticket_open(place: Place) -> None:
    tool, _ = paying()
    other = executor([tool], place.journal())
    ticket = await get_ticket(other)

    def approve(_: ApprovalRequest) -> bool:
        raise RuntimeError("the terminal is gone")

    assert err(await ask(executor([tool], place.journal(), approve=approve))).code == "denied"
    assert ok(await other.resume(ticket)).value == "ran"


async def test_an_approver_may_approve_what_would_be_too_large_for_a_ticket() -> None:
    tool, runs = counting("pay", requires_approval=True)
    large = {f"a{n}": "x" * 500 for n in range(100)}

    outcome = await ask(executor([tool], Journal.memory(), approve=answering(True)), large)

    assert ok(outcome).value == "ran"
    assert len(runs) == 1


async def test_an_approval_that_cannot_be_recorded_runs_nothing() -> None:
    class FullStates:
        async def select(self, _query: StateQuery) -> list[StateRecord]:
            return []

        async def insert(self, _record: StateRecord) -> None:
            raise JournalError("the disk is full")

    store = FullDisk(Journal.memory())
    vars(store)["states"] = FullStates()
    tool, runs = paying()

    outcome = await ask(executor([tool], store.as_journal(), approve=answering(True)))

    assert (err(outcome).code, err(outcome).retryable) == ("not_available", True)
    assert runs == []
