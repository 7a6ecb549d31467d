"""Endpoints of batches: the calls that ran together with one call, and where their time went."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field

from spindle.errors import UnknownItemError
from spindle.inspector.approval_feeds import may_see
from spindle.inspector.batches import BatchMember, find_batch
from spindle.inspector.endpoints import ApiModel, ApiRequest, Endpoint, NoInput, read
from spindle.inspector.live import Feed
from spindle.text import shorten, to_printable

_MAX_NAME_CHARS: Final = 200


class BatchParams(ApiModel):
    """A call."""

    key: Annotated[str, Field(max_length=200)]
    """Its idempotency key."""


class SpanInBatch(ApiModel):
    """What a call did or waited for, in milliseconds since the batch began."""

    kind: str
    start_ms: float
    end_ms: float
    names: list[str]
    """The resources that it waited for."""


class EventInBatch(ApiModel):
    """Something that a call emitted or that happened to it."""

    kind: str
    text: str
    at_ms: float


class CallInBatch(ApiModel):
    """A call of the batch."""

    key: str
    tool_call_id: str
    tool: str
    state: str
    code: str | None
    position: int | None
    """Its place in the batch; `None` while it runs."""
    attempts: int
    spans: list[SpanInBatch]
    events: list[EventInBatch]
    end_ms: float | None
    """When its outcome was written."""
    deadline_ms: float | None
    share_chars: int | None
    used_chars: int | None
    is_truncated: bool
    is_spooled: bool


class BatchDetail(ApiModel):
    """The calls that ran together."""

    batch_id: str | None
    """`None` if nothing was recorded of the batch: the call runs, or an older version wrote it."""
    began_at: datetime
    call_count: int
    """How many calls the batch had, for a profile those of its tools; calls that shared the result of an equal one are
    not in the journal."""
    duration_ms: float | None
    batch_deadline_ms: float | None
    is_complete: bool
    """Whether all its calls that are in the journal are listed."""
    calls: list[CallInBatch]


async def read_batch(request: ApiRequest[BatchParams, NoInput]) -> BatchDetail:
    """Return the batch of a call."""
    journal, key = request.bench.journal, request.params.key
    entry = await journal.find(key)
    if entry is None or not may_see(request.bench, request.user, entry.tool):
        raise UnknownItemError(f"the journal has no call {to_printable(key, 100)}", field="key")
    batch = await find_batch(journal, entry)
    members = [each for each in batch.members if may_see(request.bench, request.user, each.entry.tool)]
    timings = [each.timing for each in members if each.timing is not None]
    is_whole = request.user.profile is None
    first = timings[0] if timings else None
    return BatchDetail(
        batch_id=None if first is None else first.batch_id,
        began_at=entry.started_at if first is None else min(each.began_at for each in timings),
        call_count=1 if first is None else first.batch_calls if is_whole else len(members),
        duration_ms=max((each.written_ms for each in timings), default=None),
        batch_deadline_ms=None if first is None else first.batch_deadline_ms,
        is_complete=batch.is_complete,
        calls=[_describe(each, None if is_whole else place) for place, each in enumerate(members)],
    )


def _describe(member: BatchMember, place: int | None) -> CallInBatch:
    entry, timing = member.entry, member.timing
    spans = () if timing is None else timing.spans
    events = () if timing is None else timing.events
    return CallInBatch(
        key=entry.idempotency_key,
        tool_call_id=shorten(entry.tool_call_id, _MAX_NAME_CHARS),
        tool=shorten(entry.tool, _MAX_NAME_CHARS),
        state=entry.state,
        code=entry.code,
        position=None if timing is None else timing.position if place is None else place,
        attempts=entry.attempts,
        spans=[
            SpanInBatch(kind=span.kind, start_ms=span.start_ms, end_ms=span.end_ms, names=list(span.names))
            for span in spans
            if span.end_ms > span.start_ms
        ],
        events=[EventInBatch(kind=each.kind, text=each.text, at_ms=each.at_ms) for each in events],
        end_ms=None if timing is None else timing.written_ms,
        deadline_ms=None if timing is None else timing.deadline_ms,
        share_chars=None if timing is None else timing.share_chars,
        used_chars=entry.result_chars,
        is_truncated=timing is not None and timing.is_truncated,
        is_spooled=entry.artifact_id is not None,
    )


ENDPOINTS: Final[Sequence[Endpoint[Any, Any]]] = (
    read(
        "/calls/{key}/batch",
        read_batch,
        summary="Read the batch of a call, and where the time of its calls went",
        params=BatchParams,
        answer=BatchDetail,
    ),
)
FEEDS: Final[Mapping[str, Feed]] = {}
