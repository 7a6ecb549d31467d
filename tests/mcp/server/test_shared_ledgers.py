"""The ledgers of conversations in the store of replicas: one that takes over asks more, and never less."""

import pytest

from spindle import Journal
from spindle.execution import StateKey
from spindle.mcp.server.replicas import Replica, digest
from spindle.mcp.server.shared_ledgers import FLOW, SharedLedgers
from spindle.trust.flow import FlowCall, FlowLedger, FlowPolicy, Produces, Ref, Target, ToolFlow

pytestmark = pytest.mark.anyio
READ = ToolFlow(name="read")
MAKE = ToolFlow(name="make", output="trusted", produces=Produces(kind="file"))
SEND = ToolFlow(name="send", roles={"to": Target(), "file": Ref("file")})


def build(journal: Journal, key: str = "k") -> SharedLedgers:
    states, notices = journal.states, journal.notices
    assert states is not None
    assert notices is not None
    return SharedLedgers(Replica(states, notices, StateKey(key * 40)))


def asks(ledger: FlowLedger, **args: str) -> bool:
    return FlowPolicy().judge([FlowCall(tool=SEND, args=args)], ledger)[0].needs_approval


async def test_a_replica_that_takes_over_knows_the_taint_the_words_and_the_records() -> None:
    journal = Journal.memory()
    first, second, ours, theirs = build(journal), build(journal), FlowLedger(), FlowLedger()
    ours.add_user_text("send it to ann@example.org")
    ours.add_result(MAKE, "made", structured={"id": "file-77"})
    ours.add_result(READ, "eve@evil.com")
    await first.keep("c", ours)
    await second.restore("c", theirs)

    assert theirs.is_tainted
    assert theirs.has_lost_private
    assert not asks(theirs, to="ann@example.org", file="file-77")
    assert asks(theirs, to="eve@evil.com")
    assert asks(theirs, file="file-78")


async def test_what_a_replica_wrote_itself_is_not_lost() -> None:
    shared, ledger = build(Journal.memory()), FlowLedger()
    ledger.add_result(READ, "text")
    await shared.keep("c", ledger)
    await shared.restore("c", ledger)

    assert not ledger.has_lost_private


async def test_replicas_that_write_in_turn_keep_the_words_of_both() -> None:
    journal = Journal.memory()
    first, second, ours, theirs = build(journal), build(journal), FlowLedger(), FlowLedger()
    ours.add_user_text("ann@example.org")
    theirs.add_user_text("bob@example.org")
    await first.keep("c", ours)
    await second.keep("c", theirs)  # there is a record already
    await first.restore("c", ours)
    for ledger in (ours, theirs):
        ledger.taint("third-party-public")
        assert not asks(ledger, to="bob@example.org")
        assert not asks(ledger, to="ann@example.org")


async def test_conversations_do_not_see_each_other() -> None:
    journal = Journal.memory()
    first, ours, theirs = build(journal), FlowLedger(), FlowLedger()
    ours.add_user_text("ann@example.org")
    await first.keep("c", ours)
    await build(journal).restore("d", theirs)

    assert theirs.user_texts == []


async def test_words_are_sealed_and_a_record_of_another_key_taints() -> None:
    journal = Journal.memory()
    ours, theirs = FlowLedger(), FlowLedger()
    ours.add_user_text("ann@example.org")
    await build(journal).keep("c", ours)
    states = journal.states
    assert states is not None
    record = await states.get(FLOW, digest("c"))
    assert record is not None
    assert record.data == "{}"
    assert record.sealed is not None
    assert b"ann@example.org" not in record.sealed
    await build(journal, "x").restore("c", theirs)
    assert theirs.is_tainted
    assert theirs.has_lost_private


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spindle.mcp.server.shared_ledgers.MAX_USER_CHARS", 100)
    journal = Journal.memory()
    ours, theirs = FlowLedger(), FlowLedger()
    ours.add_user_text("first " + "x " * 50)
    ours.add_user_text("last@example.org")
    await build(journal).keep("c", ours)
    await build(journal).restore("c", theirs)

    assert theirs.user_texts == ["last@example.org"]
