"""What the journal recorded of a call's way through its batch, read back: `CallTiming.read(entry)`.

A journal may have been written by an older version, or by another program, so nothing here is taken for granted.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias, get_args

from spindle.execution.call_trace import FIRST_EVENTS, LAST_EVENTS, MAX_EVENT_CHARS, MAX_RESOURCES, MAX_WAITS, WaitKind
from spindle.journal.entries import JournalEntry
from spindle.json_types import JsonObject, is_array, is_object
from spindle.text import shorten

SpanKind: TypeAlias = WaitKind | Literal["admission", "queue", "preparation", "handler", "completion", "batch", "fit"]
"""Besides waits: checks of the whole batch; until a task takes the call; checks, interceptors and capabilities before
the handler; the handler; redaction and interceptors after it; until the other calls of the batch end; the budget."""

_WAIT_KINDS: Final[Mapping[object, WaitKind]] = {kind: kind for kind in get_args(WaitKind)}
_FACT: Final = re.compile(r"([a-z_]{1,20})(?:=([0-9a-z.-]{1,40}))?")
_MAX_CHARS: Final = 1_000
_MAX_MICROSECONDS: Final = 1 << 53


@dataclass(frozen=True, kw_only=True, slots=True)
class CallSpan:
    """A part of the time between the start of a batch and the end of a call, in milliseconds since that start."""

    kind: SpanKind
    start_ms: float
    end_ms: float
    names: tuple[str, ...] = ()
    """The resources that it waited for."""

    @property
    def duration_ms(self) -> float:
        """How long it took."""
        return self.end_ms - self.start_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class CallEvent:
    """Something that a call emitted or that happened to it: progress, a log line, a warning, a question to a person."""

    kind: str
    text: str
    """With secrets masked, and shortened."""
    at_ms: float
    """Milliseconds since the start of the batch; below 0 if it was before, such as a question answered later."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallTiming:
    """Where the time of one call went, in milliseconds since the start of its batch, and its share of the budget."""

    batch_id: str
    batch_calls: int
    position: int
    """Its place in the batch, from 0."""
    started_ms: float | None
    """When its handler was first started; `None` if it was not."""
    ended_ms: float | None
    written_ms: float
    """When its outcome was handed to the journal."""
    deadline_ms: float | None
    batch_deadline_ms: float | None
    share_chars: int | None
    """How many characters its result was guaranteed; it gets more if others need less."""
    used_chars: int | None
    is_truncated: bool
    is_spooled: bool
    """Whether its full result is kept as an artifact."""
    spans: tuple[CallSpan, ...]
    """What it did and waited for, one after the other."""
    events: tuple[CallEvent, ...]
    began_at: datetime
    """When its batch began."""

    @classmethod
    def read(cls, entry: JournalEntry) -> "CallTiming | None":
        """Return what was recorded of a call; `None` while it runs, and for calls of older versions."""
        result = entry.result or {}
        facts = _Facts.parse(result.get("timing"))
        if facts is None:
            return None
        spans = tuple(_list_spans(facts, result))
        began_ms = next((span.start_ms for span in spans if span.kind == "journal"), facts.get("written") or 0.0)
        return cls(
            batch_id=facts.batch_id,
            batch_calls=facts.count("calls") or 1,
            position=facts.count("position") or 0,
            started_ms=next((span.start_ms for span in spans if span.kind == "handler"), None),
            ended_ms=facts.get("ended"),
            written_ms=facts.get("written") or 0.0,
            deadline_ms=facts.find_deadline(),
            batch_deadline_ms=facts.get("batch_deadline"),
            share_chars=facts.count("share"),
            used_chars=entry.result_chars,
            is_truncated="truncated" in facts.texts,
            is_spooled=entry.artifact_id is not None,
            spans=spans,
            events=tuple(_list_events(result.get("events"))),
            began_at=entry.started_at - timedelta(milliseconds=began_ms),
        )


class _Facts:
    """The line of text with the facts of a call, such as `batch=1f-2 calls=3 began=120 intent=10..90`."""

    def __init__(self, batch_id: str, texts: Mapping[str, str]) -> None:
        self.batch_id = batch_id
        self.texts = texts

    @classmethod
    def parse(cls, line: object) -> "_Facts | None":
        if not isinstance(line, str) or len(line) > _MAX_CHARS:
            return None
        found = [match.groups() for part in line.split() if (match := _FACT.fullmatch(part)) is not None]
        texts = {name: value or "" for name, value in found}
        return cls(texts["batch"], texts) if texts.get("batch") else None

    def count(self, name: str) -> int | None:
        text = self.texts.get(name, "")
        return min(int(text), _MAX_MICROSECONDS) if text.isascii() and text.isdigit() else None

    def get(self, name: str) -> float | None:
        """Return an instant in milliseconds."""
        return _to_ms(self.count(name))

    def find_deadline(self) -> float | None:
        """Return when the time of the call was over; it is recorded as a limit from when a task took the call."""
        began, limit = self.get("began"), self.get("limit")
        return self.get("deadline") if began is None or limit is None else round(began + limit, 3)

    def span(self, name: str) -> tuple[float, float] | None:
        start, dots, end = self.texts.get(name, "").partition("..")
        if not dots or not start.isdigit() or not end.isdigit():
            return None
        return int(start) / 1000, int(end) / 1000


def _to_ms(microseconds: object) -> float | None:
    if type(microseconds) is not int or abs(microseconds) > _MAX_MICROSECONDS:
        return None
    return microseconds / 1000


def _list_spans(facts: _Facts, result: JsonObject) -> Iterator[CallSpan]:
    """Yield the spans of a call in order; each mark ends the span before it."""
    waits = sorted(_list_waits(result.get("waits")), key=lambda wait: wait.start_ms)
    admitted, intent, began = facts.get("admitted") or 0.0, facts.span("intent"), facts.get("began")
    ended, written = facts.get("ended"), facts.get("written") or 0.0
    started = (facts.get("started") or _find_start(began, waits)) if ended is not None else None
    answered = facts.get("answered") or ended
    yield CallSpan(kind="admission", start_ms=0.0, end_ms=admitted)
    reached = admitted
    if intent is not None:
        yield CallSpan(kind="journal", start_ms=intent[0], end_ms=intent[1])
        reached = intent[1]
    fit = facts.span("fit")
    marks: list[tuple[float | None, SpanKind]] = [
        (began, "queue"),
        (started, "preparation"),
        (ended, "handler"),
        (answered, "completion"),
        (written if fit is None else fit[0], "batch"),
    ]
    for until, kind in marks:
        if until is not None and until > reached:
            inside = [wait for wait in waits if reached <= wait.start_ms < until]
            yield from _split(kind, reached, until, inside)
            reached = until
    if fit is not None:
        yield CallSpan(kind="fit", start_ms=fit[0], end_ms=fit[1])


def _find_start(began: float | None, waits: list[CallSpan]) -> float | None:
    """Return when the handler started, if that is not recorded: nothing but waits was before it."""
    before = [wait.end_ms for wait in waits if wait.kind not in {"retry", "media"}]
    return began if not before or began is None else max(began, *before)


def _split(kind: SpanKind, start: float, end: float, waits: list[CallSpan]) -> Iterator[CallSpan]:
    """Yield a span without the waits inside it, and these."""
    for wait in waits:
        if wait.start_ms > start:
            yield CallSpan(kind=kind, start_ms=start, end_ms=wait.start_ms)
        yield wait
        start = max(start, wait.end_ms)
    if end > start:
        yield CallSpan(kind=kind, start_ms=start, end_ms=end)


def _list_waits(given: object) -> Iterator[CallSpan]:
    for each in given[:MAX_WAITS] if is_array(given) else ():
        wait: JsonObject = each if is_object(each) else {}
        start, end = _to_ms(wait.get("from")), _to_ms(wait.get("to"))
        kind = _WAIT_KINDS.get(str(wait.get("kind")))
        if start is not None and end is not None and end >= start and kind is not None:
            named: object = wait.get("names")
            names = tuple(name for name in named[:MAX_RESOURCES] if isinstance(name, str)) if is_array(named) else ()
            yield CallSpan(kind=kind, start_ms=start, end_ms=end, names=names)


def _list_events(given: object) -> Iterator[CallEvent]:
    for each in given[: FIRST_EVENTS + LAST_EVENTS] if is_array(given) else ():
        event: JsonObject = each if is_object(each) else {}
        kind, text, at_ms = event.get("kind"), event.get("text"), _to_ms(event.get("at"))
        if isinstance(kind, str) and isinstance(text, str) and at_ms is not None:
            yield CallEvent(kind=shorten(kind, 20), text=shorten(text, MAX_EVENT_CHARS), at_ms=at_ms)
