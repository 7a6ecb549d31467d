"""Endpoints of the information flow: sessions with their taint, one session as a timeline, one decision explained."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final

import anyio
from pydantic import Field

from spindle.concurrency import spool_threads
from spindle.errors import UnknownItemError
from spindle.execution import ExplainedValue, FlowSource, FlowStep
from spindle.execution.flow_explanation import build_unjudged_error
from spindle.execution.flow_session import SessionTracer, select_asked
from spindle.execution.tickets import KIND as APPROVAL
from spindle.execution.tickets import read_ticket
from spindle.inspector import sessions
from spindle.inspector.approval_feeds import may_see
from spindle.inspector.endpoints import ApiModel, ApiRequest, Endpoint, NoInput, read
from spindle.inspector.live import Feed, Publish, get_listener
from spindle.inspector.reading_slots import traces
from spindle.inspector.visibility import find_tools, may_see_all
from spindle.inspector.workbench import Workbench
from spindle.journal import JournalEntry, StateQuery
from spindle.json_types import JsonValue
from spindle.text import shorten, to_printable
from spindle.trust.flow import FlowPolicy

_SHOWN_STEPS: Final = 500
"""The newest calls of a session that are shown; earlier ones count, and are not shown."""
_SHOWN_SOURCES: Final = 500
_SHOWN_VALUES: Final = 100
_EXPLAINED_CALLS: Final = 50
"""Of the calls that are shown and were asked about, the newest whose values are explained."""
_TEXT_CHARS: Final = 300
_WATCHED_CALLS: Final = 100
_POLL_SECONDS: Final = 2.0


class SessionListParams(ApiModel):
    """Which sessions are listed."""

    cursor: Annotated[str | None, Field(max_length=100)] = None
    limit: Annotated[int, Field(ge=1, le=100)] = 50


class SessionInList(ApiModel):
    """A session in a list."""

    session_id: str
    last_at: datetime
    last_tool: str
    turn_id: str | None
    caller: dict[str, JsonValue] | None
    is_tainted: bool | None
    was_asked: bool


class SessionList(ApiModel):
    """Some sessions, the one with the newest call first."""

    sessions: list[SessionInList]
    next_cursor: str | None
    has_policy: bool
    """Whether this server judges calls by their values."""


class SessionParams(ApiModel):
    """Which session is read."""

    id: Annotated[str, Field(min_length=1, max_length=2_000)]


class SourceInFlow(ApiModel):
    """Something that entered a session."""

    number: int
    at: datetime
    label: str
    text: str
    tool: str
    call_id: str
    key: str | None
    """Of the call whose result it is."""
    taints: bool
    is_outside: bool


class ValueInFlow(ApiModel):
    """A value of a call, and where it comes from."""

    path: str
    role: str
    is_declared: bool
    value: str
    origin: str
    detail: str
    source: int | None
    """The number of the source in which it stands."""


class CallInFlow(ApiModel):
    """A call of a session."""

    key: str
    tool_call_id: str
    tool: str
    turn_id: str | None
    started_at: datetime
    state: str
    code: str | None
    label: str | None
    """Of its result, if it brought one."""
    source_count: int
    is_judged: bool
    was_tainted: bool
    was_asked: bool
    reasons: list[str]
    values: list[ValueInFlow]


class SessionDetail(ApiModel):
    """One session: what entered it, and its calls, both oldest first."""

    session_id: str
    has_policy: bool
    is_tainted: bool
    is_complete: bool
    """Whether all of its calls were read; the taint of a session that is too long counts from the newest ones."""
    call_count: int
    asked_count: int
    source_count: int
    sources: list[SourceInFlow]
    calls: list[CallInFlow]


class DecisionParams(ApiModel):
    """Which call is explained."""

    key: Annotated[str, Field(min_length=1, max_length=200)]


class AnswerInFlow(ApiModel):
    """The answer of a person."""

    id: str
    status: str
    by: str | None
    at: datetime | None


class CallDecision(ApiModel):
    """Why a call was asked about, or ran."""

    key: str
    tool: str
    tool_call_id: str
    session_id: str | None
    is_known: bool
    is_judged: bool
    was_tainted: bool
    was_asked: bool
    reasons: list[str]
    would_ask: bool
    reasons_now: list[str]
    values: list[ValueInFlow]
    sources: list[SourceInFlow]
    answer: AnswerInFlow | None
    is_complete: bool


async def list_sessions(request: ApiRequest[SessionListParams, NoInput]) -> SessionList:
    """List the sessions of the journal, with their taint."""
    bench, params = request.bench, request.params
    tools = find_tools(bench, request.user)
    page = await sessions.list_sessions(bench.journal, cursor=params.cursor, limit=params.limit, tools=tools)
    found = [SessionInList.model_validate(each, from_attributes=True) for each in page.sessions]
    return SessionList(sessions=found, next_cursor=page.next_cursor, has_policy=_get_policy(bench) is not None)


async def read_session(request: ApiRequest[SessionParams, NoInput]) -> SessionDetail:
    """Follow the information flow of one session."""
    bench, session_id = request.bench, request.params.id
    async with traces.get().take(request.user):
        calls = await sessions.find_calls(bench.journal, session_id)
        if not calls.keys or not may_see_all(bench, request.user, calls.tools):
            raise UnknownItemError(
                f"the journal has no call of the session {to_printable(session_id, 100)}", field="id"
            )
        shown = await sessions.read_entries(bench.journal, calls.keys[-_SHOWN_STEPS:])
        tracer = _build_tracer(bench, select_asked(shown, _EXPLAINED_CALLS))
        for page in calls.split(-_SHOWN_STEPS):
            await _follow(tracer, await sessions.read_entries(bench.journal, page))
        await _follow(tracer, shown)
        return await spool_threads.run_abandonable(_build_detail, bench, session_id, tracer, calls.is_complete)


def _build_tracer(bench: Workbench, explained: frozenset[str]) -> SessionTracer:
    return SessionTracer(
        bench.registry,
        _get_policy(bench) or FlowPolicy(),
        explained=explained,
        max_steps=_SHOWN_STEPS,
        max_sources=_SHOWN_SOURCES,
    )


async def _follow(tracer: SessionTracer, entries: list[JournalEntry]) -> None:
    """Follow one page of calls in a thread; a request can be cancelled between pages."""
    await spool_threads.run_abandonable(tracer.add, entries)


def _build_detail(bench: Workbench, session_id: str, tracer: SessionTracer, is_complete: bool) -> SessionDetail:  # noqa: FBT001  passed by position to a thread
    tracer.finish()
    tracer.forget_texts()
    timeline = tracer.timeline
    return SessionDetail(
        session_id=session_id,
        has_policy=_get_policy(bench) is not None,
        is_tainted=timeline.ledger.is_tainted,
        is_complete=is_complete,
        call_count=tracer.call_count,
        asked_count=tracer.asked_count,
        source_count=timeline.source_count,
        sources=_to_sources(timeline.sources),
        calls=[_to_call(step, timeline.labels.get(step.entry.idempotency_key)) for step in tracer.steps],
    )


async def explain_call(request: ApiRequest[DecisionParams, NoInput]) -> CallDecision:
    """Explain the decision on one call."""
    bench = request.bench
    entry = await bench.journal.find(request.params.key)
    if entry is None or not may_see(bench, request.user, entry.tool):
        raise UnknownItemError("the journal has no call with this key", field="key")
    async with traces.get().take(request.user):
        calls = sessions.SessionCalls(keys=[entry.idempotency_key], tools=frozenset([entry.tool]), is_complete=True)
        if entry.session_id is not None:
            found = await sessions.find_calls(bench.journal, entry.session_id)
            # A call that is older than those that are read is explained without what was before it.
            calls = found if entry.idempotency_key in found.keys else replace(found, keys=calls.keys)
        if not may_see_all(bench, request.user, calls.tools):
            raise UnknownItemError("the session of this call has calls that this profile may not see", field="key")
        answer = await _find_answer(bench, entry)
        tracer = _build_tracer(bench, frozenset([entry.idempotency_key]))
        for page in calls.split():
            await _follow(tracer, await sessions.read_entries(bench.journal, page))
            if tracer.explanations:
                break
        return await spool_threads.run_abandonable(_build_decision, tracer, entry, answer, calls.is_complete)


def _build_decision(
    tracer: SessionTracer,
    entry: JournalEntry,
    answer: AnswerInFlow | None,
    is_complete: bool,  # noqa: FBT001
) -> CallDecision:
    if not tracer.explanations:
        tracer.finish()
    tracer.forget_texts()
    explained = tracer.explanations.get(entry.idempotency_key)
    if explained is None:
        raise build_unjudged_error(entry)
    return CallDecision(
        key=entry.idempotency_key,
        tool=entry.tool,
        tool_call_id=entry.tool_call_id,
        session_id=entry.session_id,
        is_known=explained.is_known,
        is_judged=explained.is_judged,
        was_tainted=explained.was_tainted,
        was_asked=explained.was_asked,
        reasons=list(explained.reasons),
        would_ask=explained.would_ask,
        reasons_now=list(explained.reasons_now),
        values=_to_values(explained.values),
        sources=_to_sources(explained.sources),
        answer=answer,
        is_complete=is_complete,
    )


async def _find_answer(bench: Workbench, entry: JournalEntry) -> AnswerInFlow | None:
    states = bench.journal.states
    if bench.tickets is None or states is None:
        return None
    records = await states.select(StateQuery(APPROVAL, group=entry.idempotency_key, limit=1))
    for each in await bench.tickets.describe([read_ticket(record) for record in records]):
        return AnswerInFlow(id=each.id, status=each.status, by=each.answered_by, at=each.answered_at)
    return None


def _get_policy(bench: Workbench) -> FlowPolicy | None:
    return bench.policy if isinstance(bench.policy, FlowPolicy) else None


def _to_sources(sources: Iterable[FlowSource]) -> list[SourceInFlow]:
    return [
        SourceInFlow(
            number=each.number,
            at=each.at,
            label=each.label,
            text=shorten(each.text, _TEXT_CHARS),
            tool=each.tool,
            call_id=each.call_id,
            key=each.key,
            taints=each.taints,
            is_outside=each.is_outside,
        )
        for each in sources
    ]


def _to_call(step: FlowStep, label: str | None) -> CallInFlow:
    entry = step.entry
    return CallInFlow(
        key=entry.idempotency_key,
        tool_call_id=entry.tool_call_id,
        tool=entry.tool,
        turn_id=entry.turn_id,
        started_at=entry.started_at,
        state=entry.state,
        code=entry.code,
        label=label,
        source_count=step.source_count,
        is_judged=step.is_judged,
        was_tainted=step.was_tainted,
        was_asked=step.was_asked,
        reasons=list(step.reasons),
        values=_to_values(step.values),
    )


def _to_values(values: Sequence[ExplainedValue]) -> list[ValueInFlow]:
    return [
        ValueInFlow(
            path=each.path,
            role=each.role,
            is_declared=each.is_declared,
            value=shorten(each.value, _TEXT_CHARS),
            origin=each.origin,
            detail=each.detail,
            source=each.source,
        )
        for each in values[:_SHOWN_VALUES]
    ]


async def watch_sessions(bench: Workbench, publish: Publish) -> None:
    """Send the id of each session with a new call."""
    newest: str | None = None
    user = get_listener()
    while True:
        page = await bench.journal.search(limit=_WATCHED_CALLS)
        keys = [call.idempotency_key for call in page.calls]
        new = page.calls[: keys.index(newest)] if newest in keys else page.calls
        for call in new if newest is not None else ():
            if call.session_id is not None and may_see_all(bench, user, [call.tool]):
                publish({"session_id": call.session_id}, key=call.session_id)
        newest = keys[0] if keys else ""
        await anyio.sleep(_POLL_SECONDS)


ENDPOINTS: Final[Sequence[Endpoint[Any, Any]]] = (
    read(
        "/flow/sessions",
        list_sessions,
        summary="List sessions with their taint",
        params=SessionListParams,
        answer=SessionList,
    ),
    read("/flow/session", read_session, summary="Follow one session", params=SessionParams, answer=SessionDetail),
    read(
        "/flow/call", explain_call, summary="Explain the decision on a call", params=DecisionParams, answer=CallDecision
    ),
)
FEEDS: Final[Mapping[str, Feed]] = {"sessions": watch_sessions}
