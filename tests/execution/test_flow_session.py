"""The flow of one session: its sources and calls in order, and the values of those that were asked about."""

from dataclasses import replace
from datetime import timedelta

import pytest

from spindle import Call, Executor, Journal, ToolContext, ToolRegistry
from spindle.execution import SessionTrace, trace_session
from spindle.execution.flow_replay import get_order
from spindle.execution.flow_session import SessionTracer, select_asked
from spindle.journal import JournalEntry
from tests.execution.test_flow import Approver
from tests.execution.test_flow_explanation import POLICY, TOOLS

pytestmark = pytest.mark.anyio


async def trace(*calls: Call, max_explained: int = 50) -> SessionTrace:
    journal = Journal.memory()
    executor = Executor(ToolRegistry(TOOLS), flow=POLICY, approve=Approver(answer=True), journal=journal)
    context = ToolContext("s", turn_id="t")
    context.flow.add_user_text("Write to bob@corp.example.")
    for call in calls:
        await executor.execute_parallel([call], context)
    return trace_session(await journal.list(), TOOLS, POLICY, max_explained=max_explained)


FETCH = Call("c1", "fetch_page", {})


def send(id: str, to: str) -> Call:
    return Call(id, "send_mail", {"to": [to]})


async def test_a_clean_session_ends_clean() -> None:
    flow = await trace(Call("c0", "list_contacts", {}), send("c1", "bob@corp.example"))
    assert (flow.is_tainted, [step.was_asked for step in flow.steps]) == (False, [False, False])
    assert [source.tool for source in flow.sources] == ["", "list_contacts", "send_mail"]
    assert [step.source_count for step in flow.steps] == [1, 2]


async def test_the_result_of_the_last_call_counts() -> None:
    flow = await trace(FETCH)
    assert flow.is_tainted
    assert [(source.tool, source.taints) for source in flow.sources] == [("", False), ("fetch_page", True)]
    assert [step.was_tainted for step in flow.steps] == [False]


async def test_values_name_the_call_they_come_from() -> None:
    flow = await trace(FETCH, send("c2", "mallory@evil.example"))
    [value, *_] = flow.steps[-1].values
    assert (value.path, value.origin, value.call_id) == ("to", "foreign", "c1")
    assert flow.steps[-1].reasons
    assert flow.steps[0].values == ()


async def test_only_the_newest_asked_calls_are_explained() -> None:
    asked = [send(f"c{number}", f"user{number}@evil.example") for number in range(2, 6)]
    flow = await trace(FETCH, *asked, max_explained=2)
    assert [bool(step.values) for step in flow.steps if step.was_asked] == [False, False, True, True]


async def test_a_result_counts_although_the_clock_was_set_back_meanwhile() -> None:
    journal = Journal.memory()
    await Executor(ToolRegistry(TOOLS), journal=journal).execute_parallel([FETCH], ToolContext("s"))
    [entry] = await journal.list()
    early = replace(entry, ended_at=entry.started_at - timedelta(seconds=1))
    flow = trace_session([early], TOOLS, POLICY)
    assert (flow.is_tainted, [step.was_tainted for step in flow.steps]) == (True, [False])


async def record_session(batches: int) -> list[JournalEntry]:
    """Return the calls of a session with overlapping calls, words in the middle and asked calls, oldest first."""
    journal = Journal.memory()
    executor = Executor(ToolRegistry(TOOLS), flow=POLICY, approve=Approver(answer=True), journal=journal)
    for number in range(batches):
        context = ToolContext("s", turn_id=f"t{number}")
        context.flow.add_user_text(f"Write to bob{number}@corp.example.")
        second = Call(f"b{number}", "list_contacts", {}) if number % 2 else Call(f"b{number}", "fetch_page", {})
        known = f"bob{max(0, number - 3)}@corp.example"
        to = known if number % 3 else f"mallory{number}@evil.example"
        await executor.execute_parallel([send(f"a{number}", to), second], context)
    entries = list(reversed(await journal.list()))
    return [
        replace(each, ended_at=each.started_at + timedelta(milliseconds=40 * (place % 5)))
        for place, each in enumerate(entries)
    ]


@pytest.mark.parametrize("size", [2, 7, 100])
async def test_a_session_in_pages_is_the_same_as_at_once(size: int) -> None:
    entries = await record_session(12)
    flow = trace_session(entries, TOOLS, POLICY)
    assert flow.is_tainted
    assert any(step.values for step in flow.steps)
    ordered = sorted(entries, key=get_order)
    tracer = SessionTracer(TOOLS, POLICY, explained=select_asked(entries, 50))
    for start in range(0, len(ordered), size):
        tracer.add(ordered[start : start + size])
    tracer.finish()
    assert (tuple(tracer.steps), tuple(tracer.timeline.sources)) == (flow.steps, flow.sources)
    assert (tracer.call_count, tracer.asked_count) == (24, sum(step.was_asked for step in flow.steps))


async def test_only_the_newest_steps_and_sources_are_kept_of_a_session_in_pages() -> None:
    entries = await record_session(6)
    flow = trace_session(entries, TOOLS, POLICY)
    tracer = SessionTracer(TOOLS, POLICY, max_steps=3, max_sources=4)
    tracer.add(entries)
    tracer.finish()
    tracer.forget_texts()
    assert [step.entry for step in tracer.steps] == [step.entry for step in flow.steps[-3:]]
    assert tuple(tracer.timeline.sources) == flow.sources[-4:]
    assert [each.number for each in flow.sources] == list(range(tracer.timeline.source_count))
    assert tracer.timeline.ledger.chars == 0
