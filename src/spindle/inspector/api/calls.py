"""Endpoints of calls: the list with filters, one call, its replay, and the difference of two calls."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, get_args

from pydantic import AwareDatetime, Field

from spindle.calls import Err, ErrCode
from spindle.errors import UnknownItemError
from spindle.inspector.call_comparison import DiffPart, compare_entries
from spindle.inspector.call_details import CallDetail, read_detail
from spindle.inspector.call_feed import watch_calls
from spindle.inspector.call_rows import CallRow, Name, is_visible, to_name, to_row
from spindle.inspector.endpoints import ApiModel, ApiRequest, Endpoint, NoInput, change, read
from spindle.inspector.live import Feed
from spindle.inspector.replays import replay
from spindle.inspector.visibility import find_tools
from spindle.journal.entries import EntryState, JournalEntry
from spindle.journal.summaries import CallQuery, Order, OutcomeKind
from spindle.text import to_encodable

MAX_CALLS: Final = 500
"""Calls of one page."""
_MAX_TOOLS: Final = 2_000


class CallsQuery(ApiModel):
    """Which calls to list."""

    tool: Name | None = None
    state: EntryState | None = None
    outcome: OutcomeKind | None = None
    code: Name | None = None
    session: Name | None = None
    turn: Name | None = None
    artifact: Name | None = None
    id: Name | None = None
    """The beginning of the tool call id."""
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    """Exclusive."""
    text: Annotated[str, Field(max_length=1_000)] | None = None
    """Part of the tool, the arguments, the error, the code, the session or the id."""
    cursor: Annotated[str, Field(max_length=40)] | None = None
    order: Order = "newest_first"
    limit: Annotated[int, Field(ge=1, le=MAX_CALLS)] = 100


class CallList(ApiModel):
    """Calls in the order in which they began."""

    calls: list[CallRow]
    next_cursor: str | None
    """Where to continue; `None` at the end, except for the order `oldest_first`."""
    scanned: int | None
    """How many calls were searched; `None` for the login of a profile, which sees a part of them."""
    is_complete: bool
    """Whether the end of the journal was reached."""


class CallFilters(ApiModel):
    """Values that filters may have."""

    tools: list[str]
    codes: list[str]


class ChosenCall(ApiModel):
    """One call, by its key or its tool call id."""

    key: Name


class ComparedCalls(ApiModel):
    """Two calls, by their keys or tool call ids."""

    left: Name
    right: Name


class CallComparison(ApiModel):
    """Two calls side by side."""

    left: CallRow
    right: CallRow
    parts: tuple[DiffPart, DiffPart]
    """Of the arguments and of the result."""


class RepeatedCall(ApiModel):
    """A call that was made again."""

    key: str
    tool_call_id: str
    is_finished: bool
    code: str | None
    error: str | None
    approval_id: str | None
    """The approval that the call waits for."""


async def list_calls(request: ApiRequest[CallsQuery, NoInput]) -> CallList:
    """List calls."""
    given = request.params
    query = CallQuery(
        tool=given.tool,
        tools=find_tools(request.bench, request.user),
        state=given.state,
        outcome=given.outcome,
        code=given.code,
        session_id=given.session,
        turn_id=given.turn,
        artifact_id=given.artifact,
        tool_call_id=given.id,
        started_from=given.since,
        started_to=given.until,
        text=given.text,
    )
    page = await request.bench.journal.search(query, limit=given.limit, cursor=given.cursor, order=given.order)
    return CallList(
        calls=[to_row(call) for call in page.calls],
        next_cursor=page.next_cursor,
        scanned=page.scanned if request.user.profile is None else None,
        is_complete=page.is_complete,
    )


async def list_filters(request: ApiRequest[NoInput, NoInput]) -> CallFilters:
    """List the tools and codes that filters may name."""
    names = (entry.tool.name for entry in request.bench.registry.entries())
    tools = sorted(to_name(name) for name in names if is_visible(request.bench, request.user, name))
    return CallFilters(tools=tools[:_MAX_TOOLS], codes=sorted(get_args(ErrCode)))


async def show_call(request: ApiRequest[ChosenCall, NoInput]) -> CallDetail:
    """Show one call."""
    detail = await read_detail(request.bench, await _find(request, request.params.key))
    # The timing as it is recorded tells of the other calls of the batch.
    return detail if request.user.profile is None else detail.model_copy(update={"timing": None})


async def compare_calls(request: ApiRequest[ComparedCalls, NoInput]) -> CallComparison:
    """Compare two calls."""
    left = await _find(request, request.params.left)
    right = await _find(request, request.params.right)
    summaries = await request.bench.journal.summarize([left.idempotency_key, right.idempotency_key])
    rows = {call.idempotency_key: to_row(call) for call in summaries}
    parts = await compare_entries(request.bench, request.user, left, right)
    return CallComparison(left=rows[left.idempotency_key], right=rows[right.idempotency_key], parts=parts)


async def replay_call(request: ApiRequest[ChosenCall, NoInput]) -> RepeatedCall:
    """Make a call again as a new one."""
    made = await replay(request.bench, request.user, await _find(request, request.params.key))
    result = None if made.outcome is None else made.outcome.result
    err = result if isinstance(result, Err) else None
    return RepeatedCall(
        key=made.key,
        tool_call_id=made.tool_call_id,
        is_finished=made.outcome is not None,
        code=None if err is None else err.code,
        error=None if err is None else to_encodable(err.error[:2_000]),
        approval_id=made.approval_id,
    )


async def _find(request: ApiRequest[Any, Any], key: str) -> JournalEntry:
    journal = request.bench.journal
    entry = await journal.find(key) or await journal.get(key)
    if entry is None or not is_visible(request.bench, request.user, entry.tool):
        raise UnknownItemError("the journal has no such call")
    return entry


ENDPOINTS: Final[Sequence[Endpoint[Any, Any]]] = (
    read("/calls", list_calls, summary="List calls, newest first", params=CallsQuery, answer=CallList),
    read("/calls/filters", list_filters, summary="List values of filters", params=NoInput, answer=CallFilters),
    read("/calls/compare", compare_calls, summary="Compare two calls", params=ComparedCalls, answer=CallComparison),
    read("/call", show_call, summary="Show a call", params=ChosenCall, answer=CallDetail),
    change(
        "/call/replay",
        replay_call,
        summary="Make a call again as a new one",
        params=ChosenCall,
        body=NoInput,
        answer=RepeatedCall,
    ),
)
FEEDS: Final[Mapping[str, Feed]] = {"calls": watch_calls}
