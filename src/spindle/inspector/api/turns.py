"""Endpoints of turns: their list, one turn as a story, and what changes while turns run."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import anyio
from pydantic import Field

from spindle import turns
from spindle.errors import UnknownItemError
from spindle.inspector.endpoints import ApiModel, ApiRequest, Endpoint, NoInput, read
from spindle.inspector.live import Feed, Publish, get_listener
from spindle.inspector.visibility import may_see_turn
from spindle.inspector.workbench import Workbench
from spindle.journal import CallSummary, StateQuery
from spindle.json_types import JsonValue
from spindle.text import shorten, to_printable
from spindle.turns import StoryStatus, TurnStory
from spindle.turns.story import KIND as STORY

_POLL_SECONDS: Final = 1.0
_WATCHED: Final = 30
"""The newest turns whose changes are sent while they run."""
_MAX_READ: Final = 2_000
"""Turns that are read for one page of a profile; then it ends, and may be empty."""
_SHOWN_CHARS: Final = 200
_MAX_KEYS: Final = 1_000
"""The newest calls of a turn that are looked up in the journal."""
_RECENT: Final = timedelta(seconds=10)
"""What changed so shortly before a page listens may be newer than the list it has read."""


class TurnListParams(ApiModel):
    """Which turns are listed."""

    session_id: Annotated[str | None, Field(max_length=1_000)] = None
    status: StoryStatus | None = None
    cursor: Annotated[str | None, Field(max_length=1_000)] = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class TurnSummary(ApiModel):
    """A turn in a list."""

    turn_id: str
    session_id: str
    status: str
    started_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    caller: dict[str, JsonValue] | None
    dry_run: bool
    request: str
    """The beginning of the last message of the user."""
    text: str
    """The beginning of the final message."""
    iteration_count: int
    call_count: int
    error_count: int
    waiting_count: int
    """How many gates and approvals the turn waits for."""
    input_tokens: float | None
    output_tokens: float | None
    cost_usd: float | None
    """Of the model and of the tools, as far as they are known."""


class TurnList(ApiModel):
    """Some turns, newest first."""

    turns: list[TurnSummary]
    next_cursor: str | None


class CallInTurn(ApiModel):
    """A call of an iteration."""

    tool_call_id: str
    tool: str
    key: str | None
    """Opens the call among the calls."""
    is_done: bool
    code: str | None
    chars: int | None
    artifact_id: str | None
    started_at: datetime | None = None
    duration_ms: float | None = None


class IterationInTurn(ApiModel):
    """One request to the model, and the calls it led to."""

    number: int
    started_at: datetime
    ended_at: datetime | None
    text: str
    thoughts: str
    calls: list[CallInTurn]
    calls_omitted: int
    input_tokens: float | None
    output_tokens: float | None
    cost_usd: float | None


class GateInTurn(ApiModel):
    """A gate, or a call that waited for approval."""

    id: str
    kind: str
    reason: str
    tool: str | None
    tool_call_id: str | None
    iteration: int
    opened_at: datetime
    closed_at: datetime | None
    result: str | None
    answer: JsonValue
    by: str | None


class ArtifactInTurn(ApiModel):
    """A large result of the turn."""

    id: str
    tool: str | None
    tool_call_id: str | None
    iteration: int


class PartOfContext(ApiModel):
    """What fills a part of the context."""

    kind: str
    name: str | None
    chars: int
    tokens: int
    count: int


class TurnParams(ApiModel):
    """Which turn is read."""

    id: Annotated[str, Field(min_length=1, max_length=1_000)]


class TurnDetail(ApiModel):
    """One turn as a story."""

    summary: TurnSummary
    request: str
    text: str
    error: str | None
    resumed_count: int
    iterations: list[IterationInTurn]
    iterations_omitted: int
    gates: list[GateInTurn]
    artifacts: list[ArtifactInTurn]
    usage: dict[str, JsonValue]
    context: list[PartOfContext]


async def list_turns(request: ApiRequest[TurnListParams, NoInput]) -> TurnList:
    """List turns, newest first."""
    bench, params = request.bench, request.params
    shown: list[TurnStory] = []
    cursor, left = params.cursor, _MAX_READ
    while left > 0:
        page = await turns.list_turns(
            bench.journal, session_id=params.session_id, status=params.status, limit=params.limit, cursor=cursor
        )
        shown += [each for each in page.turns if may_see_turn(bench, request.user, each)]
        cursor, left = page.next_cursor, left - params.limit
        # A page of a profile ends at a turn that it may see: it gets the ids of no others, nor their number.
        if len(shown) > params.limit or (request.user.profile is None and len(shown) == params.limit):
            cursor = shown[params.limit - 1].turn_id if len(shown) > params.limit else cursor
            break
        if cursor is None:
            break
    return TurnList(turns=[summarize(each) for each in shown[: params.limit]], next_cursor=cursor)


async def read_turn(request: ApiRequest[TurnParams, NoInput]) -> TurnDetail:
    """Read the story of one turn."""
    journal = request.bench.journal
    story = await turns.read_turn(journal, request.params.id)
    if story is None or not may_see_turn(request.bench, request.user, story):
        raise UnknownItemError(f"the journal has no turn {to_printable(request.params.id, 100)}", field="id")
    keys = [call.key for step in story.iterations for call in step.calls if call.key is not None]
    known = {each.idempotency_key: each for each in await journal.summarize(keys[-_MAX_KEYS:])}
    return TurnDetail(
        summary=summarize(story),
        request=story.request,
        text=story.text,
        error=story.error,
        resumed_count=story.resumed_count,
        iterations=[_to_iteration(each, known) for each in story.iterations],
        iterations_omitted=story.iterations_omitted,
        gates=[GateInTurn.model_validate(each, from_attributes=True) for each in story.gates],
        artifacts=[ArtifactInTurn.model_validate(each, from_attributes=True) for each in story.artifacts],
        usage=dict(story.usage),
        context=[PartOfContext.model_validate(each, from_attributes=True) for each in story.context],
    )


def summarize(story: TurnStory) -> TurnSummary:
    """Return a turn as lists show it."""
    return TurnSummary(
        turn_id=story.turn_id,
        session_id=story.session_id,
        status=story.status,
        started_at=story.started_at,
        updated_at=story.updated_at,
        ended_at=story.ended_at,
        caller=story.caller,
        dry_run=story.dry_run,
        request=shorten(story.request, _SHOWN_CHARS),
        text=shorten(story.text, _SHOWN_CHARS),
        iteration_count=story.iteration_count,
        call_count=story.call_count,
        error_count=story.error_count,
        waiting_count=sum(gate.closed_at is None for gate in story.gates),
        **_read_usage(story.usage),
    )


def _to_call(call: turns.StoryCall, known: CallSummary | None) -> CallInTurn:
    facts = CallInTurn.model_validate(call, from_attributes=True)
    if known is None:  # the journal did not keep it, such as a call of a dry run
        return facts.model_copy(update={"key": None, "artifact_id": None})
    took = None if known.ended_at is None else (known.ended_at - known.started_at) / timedelta(milliseconds=1)
    changes = {"artifact_id": known.artifact_id, "started_at": known.started_at, "duration_ms": took}
    return facts.model_copy(update=changes)


def _to_iteration(step: turns.StoryIteration, known: Mapping[str, CallSummary]) -> IterationInTurn:
    return IterationInTurn(
        number=step.number,
        started_at=step.started_at,
        ended_at=step.ended_at,
        text=step.text,
        thoughts=step.thoughts,
        calls=[_to_call(each, known.get(each.key or "")) for each in step.calls],
        calls_omitted=step.calls_omitted,
        **_read_usage(step.usage),
    )


def _read_usage(usage: Mapping[str, JsonValue]) -> dict[str, float | None]:
    costs = [_read_number(usage, name) for name in ("cost_usd", "tool_cost_usd")]
    known = [each for each in costs if each is not None]
    return {
        "input_tokens": _read_number(usage, "input_tokens"),
        "output_tokens": _read_number(usage, "output_tokens"),
        "cost_usd": sum(known) if known else None,
    }


def _read_number(usage: Mapping[str, JsonValue], name: str) -> float | None:
    value = usage.get(name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


async def watch_turns(bench: Workbench, publish: Publish) -> None:
    """Send the newest turns whenever they change; other processes write them, so the journal is asked."""
    states, seen = bench.journal.states, dict[str, int]()
    is_first = True
    while states is not None:
        heads = await states.select(StateQuery(STORY, limit=_WATCHED, is_brief=True))
        for head in reversed(heads):
            if seen.get(head.id) == head.version:
                continue
            story = await turns.read_turn(bench.journal, head.id)
            if (
                story is not None
                and may_see_turn(bench, get_listener(), story)
                and not (is_first and story.updated_at < datetime.now(UTC) - _RECENT)
            ):
                publish(summarize(story).model_dump(mode="json"), key=story.turn_id)
        seen, is_first = {head.id: head.version for head in heads}, False
        await anyio.sleep(_POLL_SECONDS)


ENDPOINTS: Final[Sequence[Endpoint[Any, Any]]] = (
    read("/turns", list_turns, summary="List turns, newest first", params=TurnListParams, answer=TurnList),
    read("/turn", read_turn, summary="Read one turn as a story", params=TurnParams, answer=TurnDetail),
)
FEEDS: Final[Mapping[str, Feed]] = {"turns": watch_turns}
