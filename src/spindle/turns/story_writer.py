"""Writes the story of a turn to the journal: when it starts, after each iteration, at a gate, and when it ends.

A story is for people who look at a turn later. It is bounded, has no secrets, and never fails the turn: what goes wrong
causes one warning. An iteration takes one change of the journal.
"""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

import anyio

from spindle.calls import ToolCallRecord
from spindle.execution.admission import read_call
from spindle.journal.states import StateStore
from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.turns.context_shares import ContextMeter, read_message
from spindle.turns.signals import TurnWatch
from spindle.turns.story import FORMAT, KIND, build_record
from spindle.turns.story_draft import StoryDraft, add_usage, build_time, cut_name, describe_answer

if TYPE_CHECKING:
    from spindle.turns.call_progress import CallProgress
    from spindle.turns.context import DispatchContext
    from spindle.turns.gates import Gate
    from spindle.turns.report import TurnReport

_WRITE_SECONDS: Final = 5.0


class StoryWriter(TurnWatch["DispatchContext", "CallProgress"]):
    """Writes the story of one turn."""

    def __init__(self, ctx: "DispatchContext", states: StateStore) -> None:
        # Not the context itself, which has a reference to this writer.
        self._states, self._events, self._records = states, ctx.events, ctx.turn.records
        self._draft = StoryDraft(ctx.turn, ctx.iteration)
        self._meter = ContextMeter(ctx.turn.records)
        self._version = 0
        """Of the record in the journal; 0 if it has none."""
        self._is_active, self._has_warned = True, False
        self._lock = anyio.Lock()
        self._current: JsonObject | None = None
        """The iteration that is running."""
        self._before: tuple[int, int, int, JsonObject] = (0, 0, 0, {})
        """The number of messages, thoughts and calls, and the usage, before the current iteration."""
        self._thoughts: dict[str, str] = {}

    async def open(self, ctx: "DispatchContext", calls: "Sequence[CallProgress] | None") -> None:
        """Write the beginning of the turn; with `calls`, continue the story of a turn that is resumed."""
        is_known = False
        if calls is not None:
            with self._guard(), anyio.fail_after(_WRITE_SECONDS):
                record = await self._states.get(KIND, ctx.turn_id)
                self._version = 0 if record is None else record.version
                is_known = record is not None and self._continue(record.data, calls)
        if not is_known:
            with self._guard():
                self._draft.facts["context"] = self._meter.measure(ctx)
            await self._write()

    def _continue(self, data: str, calls: "Sequence[CallProgress]") -> bool:
        """Continue an earlier story; return whether it may be written later, with the next iteration."""
        before: JsonValue = json.loads(data)
        if not is_object(before) or before.get("format") != FORMAT:
            return False
        was_running = before["status"] == "running"
        self._draft.facts = {**before, "status": "running", "ended_at": None, "error": None}
        self._draft.facts["resumed_count"] += not was_running
        for item in calls:
            self._draft.close_answered(item)
        return was_running

    def begin_iteration(self, ctx: "DispatchContext", calls: "Sequence[CallProgress] | None") -> None:
        """Begin an iteration; one that was suspended goes on."""
        with self._guard():
            records, self._thoughts = self._records, {}
            self._before = len(records.message), len(records.thought), len(records.tool_call), dict(ctx.usage)
            self._current = self._draft.begin_iteration(ctx.iteration, calls)

    def add_calls(self, calls: Sequence[object]) -> None:
        """Add the calls that the model has requested."""
        with self._guard():
            if self._current is not None:
                self._draft.add_calls(self._current, [read_call(given)[0] for given in calls])

    def add_thought(self, id: str, text: str) -> None:
        """Set what the model has thought so far."""
        self._thoughts[id] = text

    async def end_iteration(self, ctx: "DispatchContext") -> None:
        """Add what the iteration has led to, and write it unless the turn is about to end."""
        self._collect(ctx, ())
        if not ctx.is_signalled and not ctx.aborted:
            await self._write()

    async def finish(self, ctx: "DispatchContext", report: "TurnReport") -> None:
        """Write how the turn ended, or that it was suspended; also while it is being cancelled."""
        # Of a reply of which some calls wait, only the report has those that have finished.
        self._collect(ctx, report.tool_calls[len(self._records.tool_call) :])
        with self._guard():
            error = None if report.error is None else self._clean(f"{type(report.error).__name__}: {report.error}")
            ended: JsonObject = {"status": report.status, "ended_at": report.ended_at.isoformat()}
            self._draft.facts |= {**ended, "text": self._clean(report.text), "error": error}
            self._count(report.tool_calls)
            if report.state is None:
                self._draft.close_gates()
            else:
                self._add_waits(cast("list[JsonObject]", report.state["pending"]))
        with anyio.CancelScope(shield=True):
            await self._write()

    def _add_waits(self, pending: list[JsonObject]) -> None:
        for asked in pending:
            # A ticket stays out: it could be used to answer. Its beginning is the id of the approval.
            name = cut_name(asked["id"]) if asked["kind"] == "gate" else asked["id"].partition("-")[0]
            facts = {"tool": cut_name(asked["tool"]), "tool_call_id": cut_name(asked["tool_call_id"])}
            self._draft.put_gate(name, kind=asked["kind"], reason=self._clean(asked.get("reason") or ""), **facts)

    async def gate_opened(self, gate: "Gate") -> None:
        """Write that the turn waits at a gate."""
        with self._guard():
            self._draft.put_gate(cut_name(gate.id), kind="gate", reason=self._clean(gate.reason))
        await self._write()

    def gate_closed(self, gate: "Gate") -> None:
        """Add how a gate was closed; it is written with the iteration."""
        settlement = gate.settlement
        if settlement is not None and settlement.result != "suspended":
            with self._guard():
                answer = describe_answer(settlement.value if settlement.result == "resolved" else None)
                closed_at = settlement.at.isoformat()
                self._draft.put_gate(cut_name(gate.id), result=settlement.result, answer=answer, closed_at=closed_at)

    def _collect(self, ctx: "DispatchContext", finished: Sequence[ToolCallRecord]) -> None:
        """Add the messages, thoughts, calls and usage of the current iteration."""
        with self._guard():
            iteration, self._current = self._current, None
            facts, records = self._draft.facts, self._records
            if iteration is not None:
                messages, thoughts, calls, usage = self._before
                said = [read_message(each) for each in records.message.since(messages)]
                texts = [text for role, text in said if role == "assistant"]
                iteration["text"] = self._join(iteration["text"], texts)
                thought = [each.content for each in records.thought.since(thoughts)] or list(self._thoughts.values())
                iteration["thoughts"] = self._join(iteration["thoughts"], thought)
                for record in [*records.tool_call.since(calls), *finished]:
                    self._draft.settle_call(iteration, record)
                iteration["usage"] = add_usage(iteration["usage"], ctx.usage, usage)
                iteration["ended_at"] = build_time()
            facts["usage"] = add_usage({}, ctx.usage, {})
            facts["context"] = self._meter.measure(ctx)
            self._count(records.tool_call.all())

    def _count(self, calls: Sequence[ToolCallRecord]) -> None:
        facts = self._draft.facts
        facts["call_count"], facts["error_count"] = len(calls), sum(each.is_error for each in calls)

    def _join(self, before: str, texts: list[str]) -> str:
        return self._clean("\n\n".join(text for text in (before, *texts) if text))

    def _clean(self, text: str) -> str:
        # Redacted first: a secret that is cut in two would not be found.
        return self._draft.shorten(self._events.redact(text))

    async def _write(self) -> None:
        if self._is_active:
            with self._guard(), anyio.fail_after(_WRITE_SECONDS):
                async with self._lock:  # calls of one batch may open gates at once
                    await self._write_record()

    async def _write_record(self) -> None:
        facts = self._draft.facts
        facts["updated_at"] = build_time()
        record = build_record(facts, self._draft.write(), version=self._version + 1)
        existing = None
        if self._version == 0 and (known := await self._states.insert(record)) is not None:
            self._version = known.version  # an earlier turn had the same id
            record = record._replace(version=self._version + 1)
        if self._version:
            existing = await self._states.replace(record)
        if existing is None:
            self._version += 1
        else:
            self._is_active = False  # another process has continued the turn, and writes its story

    @contextmanager
    def _guard(self) -> Generator[None, None, None]:
        """Turn a failure into a warning, the first time: a story must not fail the turn."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  texts, usage and answers come from a user's code
            if not self._has_warned:
                self._has_warned = True
                self._events.warn("a part of the turn's story was not written", source="story", error=error)
