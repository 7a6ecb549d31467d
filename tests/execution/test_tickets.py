"""Calls that wait for approval in the journal, over every backend, answered here or by another executor."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from spindle import CallOutcome, Err, Executor, Journal, Ok, Spool, ToolContext
from spindle.errors import JournalError, UsageError
from spindle.trust import SinkPolicy
from tests.execution.calling import counting, err, giving, make, ok
from tests.execution.ticketing import NUMBER, ask, executor, get_ticket, paying
from tests.journal.conftest import Place, place

pytestmark = pytest.mark.anyio
__all__ = ["place"]


async def test_a_call_that_no_person_can_approve_here_gets_a_ticket(place: Place) -> None:
    tool, runs = paying()

    ticket = await get_ticket(executor([tool], place.journal()))

    assert len(ticket) < 100
    assert runs == []


async def test_without_a_journal_there_is_not_a_ticket() -> None:
    tool, _ = paying()

    result = err(await ask(executor([tool], None)))

    assert (result.code, result.ticket) == ("needs_approval", None)


async def test_an_approved_call_runs_in_another_executor_as_it_was_asked(place: Place) -> None:
    tool, runs = paying()
    ticket = await get_ticket(executor([tool], place.journal()), {"amount": 7})

    outcome = await executor([tool], place.journal()).resume(ticket, by="eve")

    assert ok(outcome).value == "ran"
    assert (outcome.tool_call_id, outcome.name, outcome.args) == ("c1", "pay", {"amount": 7})
    assert runs == [{"amount": 7}]


async def test_the_handler_gets_the_session_the_turn_and_the_caller_of_the_call(place: Place) -> None:
    seen: list[Any] = []

    async def note(_args: Any, ctx: ToolContext, _meta: Any) -> str:
        seen.append((ctx.session_id, ctx.turn_id, ctx.caller, ctx.tool_call_id))
        return "ran"

    asked = executor([make("pay", note, requires_approval=True)], place.journal())
    await asked.resume(await get_ticket(asked))

    assert seen == [("s1", "t1", {"user": "ann"}, "c1")]


async def test_a_denied_call_does_not_run(place: Place) -> None:
    tool, runs = paying()
    asked = executor([tool], place.journal())
    ticket = await get_ticket(asked)

    first, again = [err(await asked.resume(ticket, approved=False)) for _ in range(2)]

    assert (first.code, first.field, first.reason) == ("denied", None, None)
    assert again == first
    assert runs == []


async def test_edited_arguments_are_validated_and_run_instead(place: Place) -> None:
    tool, runs = paying()
    asked = executor([tool], place.journal())
    ticket = await get_ticket(asked)

    invalid = err(await asked.resume(ticket, args={"amount": "many"}))
    edited = await asked.resume(ticket, args={"amount": 3})
    again = await asked.resume(ticket, args={"amount": 3})

    assert (invalid.code, invalid.field) == ("input_invalid", "amount")
    assert ok(edited).value == ok(again).value == "ran"
    assert edited.checksum == again.checksum
    assert runs == [{"amount": 3}]


@pytest.mark.parametrize(
    "second", [{"approved": False}, {"args": {"amount": 6}}, {}], ids=["deny", "edit", "approve what was edited"]
)
async def test_another_answer_than_the_first_is_refused(place: Place, second: dict[str, Any]) -> None:
    tool, runs = paying()
    asked = executor([tool], place.journal())
    ticket = await get_ticket(asked)
    first: dict[str, Any] = {} if second else {"args": {"amount": 9}}
    await asked.resume(ticket, **first)

    refused = err(await asked.resume(ticket, **second))

    assert (refused.code, refused.field, refused.reason) == ("denied", "ticket", "already_answered")
    assert len(runs) == 1


async def test_approving_a_denied_call_is_refused(place: Place) -> None:
    tool, runs = paying()
    asked = executor([tool], place.journal())
    ticket = await get_ticket(asked)
    await asked.resume(ticket, approved=False)

    assert err(await asked.resume(ticket)).reason == "already_answered"
    assert runs == []


async def test_a_call_runs_once_however_many_answers_race(place: Place) -> None:
    tool, runs = paying()
    ticket = await get_ticket(executor([tool], place.journal()))
    outcomes: list[CallOutcome] = []

    async def answer() -> None:
        outcomes.append(await executor([tool], place.journal()).resume(ticket))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(answer)

    assert [ok(outcome).value for outcome in outcomes] == ["ran"] * 10
    assert len(runs) == 1


async def test_of_different_answers_that_race_one_wins(place: Place) -> None:
    tool, runs = paying()
    ticket = await get_ticket(executor([tool], place.journal()))
    outcomes: dict[int, CallOutcome] = {}

    async def answer(amount: int) -> None:
        outcomes[amount] = await executor([tool], place.journal()).resume(ticket, args={"amount": amount})

    async with anyio.create_task_group() as group:
        for amount in range(10):
            group.start_soon(answer, amount)

    [won] = [amount for amount, outcome in outcomes.items() if isinstance(outcome.result, Ok)]
    assert runs == [{"amount": won}]
    lost = [outcome.result for amount, outcome in outcomes.items() if amount != won]
    assert {result.reason for result in lost if isinstance(result, Err)} == {"already_answered"}


async def test_the_same_answer_returns_the_recorded_outcome_with_its_full_result(place: Place) -> None:
    tool = giving("line\n" * 50_000, "pay", requires_approval=True)
    journal, spool = place.journal(), Spool.memory()
    first = executor([tool], journal, spool=spool)
    ticket = await get_ticket(first, {})

    ran, again = ok(await first.resume(ticket)), ok(await executor([tool], journal, spool=spool).resume(ticket))

    assert ran.value == again.value
    assert again.artifact is not None
    assert await again.artifact.byte_length() == 250_000


async def test_a_ticket_with_any_other_character_is_refused(place: Place) -> None:
    tool, runs = paying()
    asked = executor([tool], place.journal())
    ticket = await get_ticket(asked)
    other = await get_ticket(asked, {"amount": 6}, id="c2")
    replaced = [
        ticket[:at] + new + ticket[at + 1 :]
        for at, old in enumerate(ticket)
        for new in ("A", "b", "0", "-", ".", "\u00e9")
        if new != old
    ]
    removed = [ticket[:at] + ticket[at + 1 :] for at in range(len(ticket))]
    swapped = f"{ticket.partition('.')[0]}.{other.partition('.')[2]}"

    for changed in (*replaced, *removed, swapped, f"x{ticket}", f"{ticket}\n", f"{ticket}.{ticket}", ticket.upper()):
        refused = err(await asked.resume(changed))
        assert (refused.code, refused.field, refused.reason) == ("denied", "ticket", "tampered"), changed
    assert runs == []


async def test_a_ticket_of_another_key_policy_or_journal_is_refused(place: Place) -> None:
    tool, runs = paying()
    ticket = await get_ticket(executor([tool], place.journal()))
    sink, _ = counting("pay", input_schema=NUMBER)

    async def reason(other: Executor) -> str | None:
        return err(await other.resume(ticket)).reason

    assert await reason(executor([tool], place.journal(), state_key="another key")) == "foreign"
    assert await reason(executor([sink], place.journal(), sinks=SinkPolicy(["pay"]))) == "foreign"
    assert await reason(executor([tool], Journal.memory())) == "unknown"
    assert await reason(executor([tool], None)) == "unknown"
    assert err(await executor([tool], place.journal()).resume("no ticket")).reason == "unknown"
    assert runs == []


async def test_a_ticket_of_a_changed_or_missing_tool_is_refused(place: Place) -> None:
    tool, runs = paying()
    ticket = await get_ticket(executor([tool], place.journal()))
    changed, _ = paying(description="Pays twice.")

    assert err(await executor([changed], place.journal()).resume(ticket)).reason == "tool_changed"
    assert err(await executor([], place.journal()).resume(ticket)).reason == "tool_changed"
    assert runs == []


async def test_an_expired_ticket_is_refused_and_its_arguments_are_erased(place: Place) -> None:
    tool, runs = paying()
    journal = place.journal()
    asked = executor([tool], journal, ticket_ttl_seconds=1e-6)
    ticket = await get_ticket(asked)

    assert err(await asked.resume(ticket)).reason == "expired"
    assert err(await asked.resume(ticket, approved=False)).reason == "expired"
    assert journal.states is not None
    record = await journal.states.get("approval", ticket.partition("-")[0])
    assert record is not None
    assert (record.status, record.sealed) == ("expired", None)
    assert runs == []


async def test_an_expired_call_gets_another_ticket(place: Place) -> None:
    tool, runs = paying()
    expired = await get_ticket(executor([tool], place.journal(), ticket_ttl_seconds=1e-6))
    asked = executor([tool], place.journal())
    await asked.resume(expired)

    ticket = await get_ticket(asked)

    assert ticket != expired
    assert ok(await asked.resume(ticket)).value == "ran"
    assert len(runs) == 1


async def test_the_same_call_asked_again_gets_the_same_ticket_and_then_the_recorded_answer(place: Place) -> None:
    tool, runs = paying()
    asked = executor([tool], place.journal())
    ticket = await get_ticket(asked)
    assert await get_ticket(executor([tool], place.journal())) == ticket

    await asked.resume(ticket)

    assert ok(await ask(asked)).value == "ran"
    assert len(runs) == 1
    edited = await get_ticket(asked, id="c2")
    await asked.resume(edited, args={"amount": 1})
    assert ok(await ask(asked, id="c2")).value == "ran"
    denied = await get_ticket(asked, id="c3")
    await asked.resume(denied, approved=False)
    assert err(await ask(asked, id="c3")).code == "denied"
    assert len(runs) == 2


async def test_secrets_are_sealed_until_the_answer_and_then_gone(tmp_path: Path) -> None:
    tool, runs = paying(secret_fields=["password"])
    path = tmp_path / "journal.db"
    asked = executor([tool], Journal.sqlite(path))
    async with Journal.sqlite(path):
        ticket = await get_ticket(asked, {"amount": 5, "password": "hunter2-hunter2"})
        stored = dump(path)
        assert "hunter2" not in stored
        assert '"***"' in stored.replace("\\", "")
        await asked.resume(ticket)

    assert runs == [{"amount": 5, "password": "hunter2-hunter2"}]
    assert "hunter2" not in dump(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        assert database.execute("SELECT sealed FROM states").fetchall() == [(None,)]


@pytest.mark.slow
@pytest.mark.parametrize("chars", [20, 20_000], ids=["short", "long"])
async def test_the_sealed_arguments_of_an_answered_call_are_not_left_in_the_file(tmp_path: Path, chars: int) -> None:
    tool, _ = paying(secret_fields=["password"])
    path = tmp_path / "journal.db"
    async with Journal.sqlite(path) as journal:
        asked = executor([tool], journal)
        tickets = [await get_ticket(asked, {"amount": n, "password": f"{n}" * chars}, id=f"c{n}") for n in range(4)]
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            sealed = [each for (each,) in database.execute("SELECT sealed FROM states").fetchall()]
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        stored = dump(path)
        for ticket in tickets:
            await asked.resume(ticket)

    ends = [each[-20:].decode("latin-1") for each in sealed]
    assert all(end in stored for end in ends)
    assert [end for end in ends if end in dump(path)] == []


def dump(path: Path) -> str:
    files = [file for file in path.parent.iterdir() if file.name.startswith(path.name)]
    return "".join(file.read_bytes().decode("latin-1") for file in files)


async def test_a_stored_call_that_was_changed_is_refused(tmp_path: Path) -> None:
    tool, runs = paying()
    path = tmp_path / "journal.db"
    async with Journal.sqlite(path) as journal:
        ticket = await get_ticket(executor([tool], journal))
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        [data] = database.execute("SELECT data FROM states").fetchone()
        changed = json.dumps(json.loads(data) | {"session_id": "s2"})
        database.execute("UPDATE states SET data = ?", (changed,))

    async with Journal.sqlite(path) as journal:
        assert err(await executor([tool], journal).resume(ticket)).reason == "tampered"
    assert runs == []


async def test_after_a_rotation_older_tickets_are_still_answered(place: Place) -> None:
    tool, runs = paying()
    ticket = await get_ticket(executor([tool], place.journal(), state_key="old"))

    outcome = await executor([tool], place.journal(), state_key=["new", "old"]).resume(ticket)

    assert ok(outcome).value == "ran"
    assert len(runs) == 1


async def test_executors_of_one_process_share_a_key_if_none_is_configured() -> None:
    tool, _ = paying()
    journal = Journal.memory()
    ticket = await get_ticket(executor([tool], journal, state_key=None))

    assert ok(await executor([tool], journal, state_key=None).resume(ticket)).value == "ran"


class FullDisk:
    """A store in which no call can be begun; everything else reaches the real one."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def begin(self, claims: Sequence[Any]) -> list[Any]:
        raise JournalError("the disk is full")


async def test_a_call_that_was_answered_and_could_not_be_begun_runs_with_the_next_equal_answer(place: Place) -> None:
    tool, runs = paying()
    ticket = await get_ticket(executor([tool], place.journal()))
    full = Journal(cast("Any", FullDisk(cast("Any", place.journal())._store)))

    assert err(await executor([tool], full).resume(ticket)).code == "not_available"
    assert runs == []

    assert err(await executor([tool], place.restarted()).resume(ticket, approved=False)).reason == "already_answered"
    assert ok(await executor([tool], place.restarted()).resume(ticket)).value == "ran"
    assert len(runs) == 1


async def test_a_call_that_a_crash_interrupted_is_not_run_again(place: Place) -> None:
    started = anyio.Event()

    async def hang(_args: Any, _ctx: Any, _meta: Any) -> str:
        started.set()
        await anyio.sleep_forever()
        return "never"

    tool, runs = paying()
    hanging = make("pay", hang, input_schema=NUMBER, requires_approval=True, description=tool.description)
    ticket = await get_ticket(executor([hanging], place.journal()))
    outcomes: list[CallOutcome] = []
    async with anyio.create_task_group() as group:
        group.start_soon(executor([hanging], place.journal()).resume, ticket)
        await started.wait()
        outcomes.append(await executor([tool], place.restarted()).resume(ticket))
        group.cancel_scope.cancel()

    assert [err(outcome).code for outcome in outcomes] == ["interrupted"]
    assert runs == []


async def test_a_dangerous_tool_in_a_tainted_turn_waits_too(place: Place) -> None:
    tool, runs = counting("pay", input_schema=NUMBER)
    asked = executor([tool], place.journal(), sinks=SinkPolicy(["pay"]))
    ctx = ToolContext("s1", turn_id="t1")
    ctx.tainted = True

    ticket = await get_ticket(asked, ctx=ctx)

    assert ok(await asked.resume(ticket)).value == "ran"
    assert len(runs) == 1


async def test_arguments_too_large_to_be_shown_are_denied_without_a_ticket() -> None:
    tool, _ = counting("pay", requires_approval=True)

    result = err(await ask(executor([tool], Journal.memory()), {f"a{n}": "x" * 500 for n in range(100)}))

    assert (result.code, result.ticket) == ("denied", None)


@pytest.mark.parametrize("settings", [{"state_key": ""}, {"state_key": 3}, {"ticket_ttl_seconds": 0}])
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(settings))):
        executor([], Journal.memory(), **settings)


async def test_an_approved_call_gets_the_numbers_that_were_sent(place: Place) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"rate": {"type": "number"}}}
    tool, runs = counting("pay", input_schema=schema, requires_approval=True)
    asked = executor([tool], place.journal())

    await asked.resume(await get_ticket(asked, {"rate": 2.0}))

    assert [repr(args["rate"]) for args in runs] == ["2.0"]
