"""The story of a turn, as the journal keeps it: what the model said and asked for, and what became of it.

`story_writer.py` writes one bounded record for each turn, and `list_turns` and `read_turn` read them in any process.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast, get_args

from spindle.concurrency import spool_threads
from spindle.errors import JournalError, UsageError
from spindle.journal.states import StateQuery, StateRecord, StateStore
from spindle.json_types import JsonObject, JsonValue, is_array, is_object, untyped

if TYPE_CHECKING:
    from spindle.journal.journal import Journal

KIND: Final = "turn_story"
FORMAT: Final = 1
"""Of the records that this version writes; those of other formats are shown as far as they can be read."""

StoryStatus: TypeAlias = Literal["running", "suspended", "ok", "nack", "aborted", "error", "limit"]
"""Also `running` if the process of the turn has died and it was not resumed; `updated_at` is its last change."""

ContextKind: TypeAlias = Literal[
    "system_prompt", "tool_definitions", "user", "assistant", "calls", "results", "retrieved", "memories"
]
"""What a part of the context is: `calls` are those that the model wrote, `results` what it saw of their results."""

_OPEN: Final = frozenset[str]({"running", "suspended"})
_MAX_PAGE: Final = 500
_MANY_CHARS: Final = 1 << 18
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class StoryCall:
    """A call of an iteration."""

    tool_call_id: str
    tool: str
    key: str | None = None
    """The key of its entry in the journal."""
    is_done: bool = False
    code: str | None = None
    """The code of its error; `None` if it succeeded, or has not ended."""
    chars: int | None = None
    """How much of its result the model saw."""
    artifact_id: str | None = None
    """The spool id of the whole result, if the model saw a part of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoryIteration:
    """One request to the model, and the calls it led to."""

    number: int
    started_at: datetime
    ended_at: datetime | None = None
    text: str = ""
    """What the model said, shortened."""
    thoughts: str = ""
    """What it thought, shortened."""
    calls: tuple[StoryCall, ...] = ()
    calls_omitted: int = 0
    usage: Mapping[str, JsonValue] = field(default_factory=JsonObject)
    """The figures of this iteration, such as `input_tokens`, `output_tokens` and `cost_usd`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoryGate:
    """A gate, or a call that waited for approval."""

    id: str
    """Of the gate, or of the approval."""
    kind: Literal["gate", "approval"] = "gate"
    reason: str = ""
    tool: str | None = None
    tool_call_id: str | None = None
    iteration: int = 0
    opened_at: datetime
    closed_at: datetime | None = None
    result: str | None = None
    """How it was closed: `resolved`, `rejected`, `aborted`, `timeout`; an approval also by `approved` or `denied`."""
    answer: JsonValue = None
    """A truth value or a number as it was given; texts and objects are described only, because they may be secret."""
    by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StoryArtifact:
    """A large result, or a text that was retrieved for the turn."""

    id: str
    tool: str | None = None
    tool_call_id: str | None = None
    iteration: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextPart:
    """What fills a part of the context that the model sees, as far as the turn knows it."""

    kind: ContextKind
    name: str | None = None
    """The tool of `calls` and `results`."""
    chars: int
    tokens: int
    """Estimated."""
    count: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnStory:
    """A turn as it can be read later, in any process; texts are shortened, and long turns have a gap in the middle."""

    turn_id: str
    session_id: str
    status: StoryStatus
    started_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    """When it ended, or was suspended."""
    caller: JsonObject | None = None
    dry_run: bool = False
    request: str = ""
    """The last message of the user, shortened."""
    text: str = ""
    """The final message, shortened."""
    error: str | None = None
    iteration_count: int = 0
    call_count: int = 0
    error_count: int = 0
    """How many calls failed."""
    resumed_count: int = 0
    iterations: tuple[StoryIteration, ...] = ()
    iterations_omitted: int = 0
    """How many were left out after the first ones."""
    gates: tuple[StoryGate, ...] = ()
    artifacts: tuple[StoryArtifact, ...] = ()
    usage: Mapping[str, JsonValue] = field(default_factory=JsonObject)
    """The totals of the turn."""
    context: tuple[ContextPart, ...] = ()
    """Where the context went, the largest part first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnPage:
    """Some turns, newest first."""

    turns: tuple[TurnStory, ...]
    next_cursor: str | None = None
    """Pass it to `list_turns` for the turns that started before these; `None` at the end."""


async def read_turn(journal: "Journal", turn_id: str) -> TurnStory | None:
    """Return the story of a turn, or `None` if the journal has none.

    Raises:
        JournalError: The journal cannot be read, or has no place for stories.
    """
    record = await _get_states(journal).get(KIND, turn_id)
    return None if record is None else read_story(record)


async def list_turns(
    journal: "Journal",
    *,
    session_id: str | None = None,
    status: StoryStatus | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> TurnPage:
    """Return stories, newest first; `cursor` is the `next_cursor` of the page before.

    Raises:
        UsageError: `status` is unknown, or `limit` is not between 1 and 500.
        JournalError: The journal cannot be read, or has no place for stories.
    """
    if status is not None and status not in get_args(StoryStatus):
        raise UsageError(f"Expected status to be one of {get_args(StoryStatus)}, got {status!r}.", field="status")
    if type(untyped(limit)) is not int or not 1 <= limit <= _MAX_PAGE:
        raise UsageError(f"Expected limit to be a whole number from 1 to {_MAX_PAGE}, got {limit!r}.", field="limit")
    query = StateQuery(KIND, status=status, group=session_id, limit=limit + 1, before=cursor)
    found = await _get_states(journal).select(query)
    shown = found[:limit]
    read = _read_stories if sum(len(each.data) for each in shown) < _MANY_CHARS else None
    stories = read(shown) if read is not None else await spool_threads.run(_read_stories, shown)
    return TurnPage(turns=stories, next_cursor=shown[-1].id if len(found) > limit else None)


async def delete_turn(journal: "Journal", turn_id: str) -> bool:
    """Delete the story of a turn, and return whether there was one; the entries of its calls stay.

    Raises:
        JournalError: The journal cannot be written, or has no place for stories.
    """
    return await _get_states(journal).delete(KIND, turn_id)


async def prune_turns(journal: "Journal", *, max_age_seconds: float | None = None, max_turns: int | None = None) -> int:
    """Delete the stories of turns that changed last too long ago, then the oldest until `max_turns` are left.

    The latter keeps turns that run or are suspended. Returns how many were deleted; the entries of their calls stay.

    Raises:
        UsageError: A limit is negative, or not a number.
        JournalError: The journal cannot be written, or has no place for stories.
    """
    for name, limit in (("max_age_seconds", max_age_seconds), ("max_turns", max_turns)):
        if limit is not None and (isinstance(limit, bool) or not limit >= 0):
            raise UsageError(f"Expected {name} to be a number of at least 0, or None, got {limit!r}.", field=name)
    states, now = _get_states(journal), datetime.now(UTC)
    oldest = None if max_age_seconds is None else now.timestamp() - max_age_seconds
    deleted, kept = 0, 0
    # Deleted one page later: the next page is found by the last story of this one.
    due: list[str] = []
    cursor: str | None = None
    while True:
        page = await states.select(StateQuery(KIND, limit=_MAX_PAGE, before=cursor, is_brief=True))
        chosen: list[str] = []
        for record in page:
            is_open = record.status in _OPEN
            is_too_many = max_turns is not None and kept >= max_turns and not is_open
            if is_too_many or (oldest is not None and await _is_older(states, record, oldest)):
                chosen.append(record.id)
            else:
                kept += 1
        for turn_id in due:
            deleted += await states.delete(KIND, turn_id)
        due = chosen
        if len(page) < _MAX_PAGE:
            break
        cursor = page[-1].id
    for turn_id in due:
        deleted += await states.delete(KIND, turn_id)
    return deleted


async def _is_older(states: StateStore, record: StateRecord, oldest: float) -> bool:
    """Return whether a turn changed last before a time; most began after it, whose records need not be read."""
    if record.created_at / 1e6 >= oldest:
        return False
    whole = await states.get(KIND, record.id)
    return whole is not None and read_story(whole).updated_at.timestamp() < oldest


def _get_states(journal: "Journal") -> StateStore:
    if journal.states is None:
        raise JournalError("The store of this journal has no place for the stories of turns: it lacks `states`")
    return journal.states


def _read_stories(records: Sequence[StateRecord]) -> tuple[TurnStory, ...]:
    return tuple(map(read_story, records))


def build_record(story: JsonObject, data: str, *, version: int) -> StateRecord:
    """Return the record of a story."""
    started_at = datetime.fromisoformat(story["started_at"])
    return StateRecord(
        KIND,
        story["turn_id"],
        story["status"],
        data,
        created_at=(started_at - _EPOCH) // timedelta(microseconds=1),
        version=version,
        group=story["session_id"],
    )


def read_story(record: StateRecord) -> TurnStory:
    """Return the story of a record; of one that another version wrote, what can be read."""
    try:
        plain: JsonValue = json.loads(record.data)
    except ValueError:
        plain = None
    facts = plain if is_object(plain) else {}
    started_at = _EPOCH + timedelta(microseconds=record.created_at)
    known: dict[str, Any] = {
        "turn_id": record.id,
        "session_id": record.group or record.id,
        "status": record.status,
        "started_at": started_at,
        "updated_at": _read_time(facts.get("updated_at")) or started_at,
        "ended_at": _read_time(facts.get("ended_at")),
        "iterations": tuple(
            _build(StoryIteration, each, {"calls": _read_parts(StoryCall, each.get("calls"))})
            for each in _list_objects(facts.get("iterations"))
            if _read_time(each.get("started_at")) is not None
        ),
        "gates": _read_parts(StoryGate, facts.get("gates")),
        "artifacts": _read_parts(StoryArtifact, facts.get("artifacts")),
        "context": _read_parts(ContextPart, facts.get("context")),
    }
    return _build(TurnStory, facts, known)


def _read_parts(kind: type[T], given: JsonValue) -> tuple[T, ...]:
    parts: list[T] = []
    for each in _list_objects(given):
        try:
            parts.append(_build(kind, each, {}))
        except TypeError:  # lacks a field
            continue
    return tuple(parts)


def _build(kind: type[T], given: JsonObject, known: Mapping[str, object]) -> T:
    facts = dict(known)
    for each in fields(cast("Any", kind)):
        if each.name not in facts and each.name in given:
            value = given[each.name]
            facts[each.name] = _read_time(value) if each.name.endswith("_at") else value
    return kind(**facts)


def _list_objects(given: JsonValue) -> list[JsonObject]:
    return [each for each in given if is_object(each)] if is_array(given) else []


def _read_time(given: JsonValue) -> datetime | None:
    try:
        return datetime.fromisoformat(given) if isinstance(given, str) else None
    except ValueError:
        return None
