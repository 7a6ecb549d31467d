"""The journal side of a batch: intents before calls run, outcomes after, and answers for calls that already ran."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import anyio

from spindle.artifacts.spool import Spool
from spindle.calls import Err, Ok
from spindle.concurrency import BackgroundTask, get_asyncio_task, spawn_background, start_background
from spindle.errors import JournalError, UsageError
from spindle.execution.call_state import AdmittedCall, CallState, JournalState, RefusedCall
from spindle.execution.call_trace import BatchTrace
from spindle.execution.cancellation import build_timeout, external_cancellation, reraise
from spindle.execution.journal_media import OutcomeTimes, build_interrupted, build_outcome, keep_media, restore_result
from spindle.execution.results import HandlerResult, normalize
from spindle.journal.entries import FinishedCall, Intent, JournalEntry
from spindle.text import escape_surrogates
from spindle.tools.arguments import mask_arguments
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.identity import idempotency_key
from spindle.tools.invocation import is_awaitable

if TYPE_CHECKING:
    from spindle.journal.journal import Journal


def build_intent(state: AdmittedCall, now: datetime) -> Intent:
    """Build the intent of a call; store its key in the call state, because the handler may change the context.

    Raises:
        NotCanonicalError: Its session or turn id has no canonical JSON.
    """
    tool, ctx = state.entry.tool, state.ctx
    return Intent(
        tool_call_id=escape_surrogates(state.call.tool_call_id),
        tool=tool.name,
        checksum=state.checksum,
        idempotency_key=get_state(state).key,
        args=ctx.redact_value(mask_arguments(state.arguments, tool.secret_fields)),
        started_at=now,
        session_id=ctx.session_id,
        turn_id=ctx.turn_id,
        fingerprint=tool.fingerprint,
        repeat=tool.read_only,
        caller=ctx.caller,
    )


def get_state(state: AdmittedCall) -> JournalState:
    """Return the journal state of a call; the first time, compute its key."""
    journaled = state.journal_state
    if journaled is None:
        ctx, call_id = state.ctx, escape_surrogates(state.call.tool_call_id)
        key = idempotency_key(ctx.session_id, ctx.turn_id, call_id, state.checksum)
        ctx.set_identity(state.checksum, key)
        journaled = state.journal_state = JournalState(key)
    return journaled


def build_refusal_intent(state: RefusedCall, context: ToolContext, now: datetime) -> Intent:
    """Build the intent of a call that was not admitted; without arguments, which may contain unknown secrets.

    Raises:
        UsageError: The call has no id.
        NotCanonicalError: Its session or turn id has no canonical JSON.
    """
    call = state.call
    if not call.tool_call_id:
        raise UsageError("A call without a tool_call_id cannot be written to the journal.", field="tool_call_id")
    call_id = escape_surrogates(call.tool_call_id)
    return Intent(
        tool_call_id=call_id,
        tool=call.name,
        checksum=state.checksum,
        idempotency_key=idempotency_key(context.session_id, context.turn_id, call_id, state.checksum),
        args={},
        started_at=now,
        session_id=context.session_id,
        turn_id=context.turn_id,
        caller=context.caller,
    )


async def reconcile_interrupted(state: AdmittedCall, timeout_seconds: float) -> HandlerResult | None:
    """Ask the tool for the result of an interrupted call; return `None` if it is unknown or asking failed."""
    tool = state.entry.tool
    if tool.reconcile is None:
        return None
    problem: BaseException | None = None
    with anyio.move_on_after(timeout_seconds) as scope:
        try:
            found = tool.reconcile(get_state(state).key, state.ctx)
            found = await found if is_awaitable(found) else found
            if found is None:
                return None
            if isinstance(found, (Ok, Err)):
                return normalize(found, tool=tool.name, output=tool.output)
            problem = TypeError(f"Expected reconcile to return an Ok, an Err or None, got {type(found).__name__}.")
        except BaseException as error:  # noqa: BLE001  a user's callback must not fail the batch
            ending = external_cancellation(error, scope)
            if ending is not None:
                await reraise(ending)
            problem = error
    state.warn(f"reconciling a call of {tool.name!r} failed", source="reconcile", error=problem)
    return None


FLUSH_DELAY_SECONDS = 0.02
"""How long an outcome waits for others to be written in one transaction, independent of slow siblings."""

Waiting: TypeAlias = Callable[..., AbstractContextManager[None]]
IsFinal: TypeAlias = Callable[[AdmittedCall], bool]
IsRemembered: TypeAlias = Callable[[Tool, float], bool]
"""Whether a transport has recorded a call of that age: asked again, it runs the call at most once in all."""


class BatchJournal:
    """Writes the intents and outcomes of one batch to the journal."""

    def __init__(
        self,
        journal: "Journal",
        context: ToolContext,
        spool: Spool | None,
        is_final: IsFinal,
        is_remembered: IsRemembered,
    ) -> None:
        self._journal = journal
        self._is_remembered = is_remembered
        self._context = context
        self._spool = spool
        self._is_final = is_final
        """Whether a result cannot change any more, before the results of its siblings are known."""
        self._ended: list[AdmittedCall] = []
        self._has_ended = anyio.Event()
        self._all_ended = anyio.Event()
        self._flushing: BackgroundTask | None = None
        self._trace: BatchTrace | None = None

    def trace(self, clock: Callable[[], float], deadline: float, *, calls: int, is_asyncio: bool) -> BatchTrace:
        """Begin to record what happens to the calls of the batch."""
        self._trace = BatchTrace(calls, clock, deadline, is_asyncio=is_asyncio)
        return self._trace

    async def begin_in_time(self, states: Sequence[AdmittedCall], ends: Sequence[float]) -> None:
        """Write the intent of each call; one that is not written at the call's end, a time of the loop, is timed out.

        It is written in a task of its own: neither a call nor a caller that leaves waits for a slow disk.
        """
        started = anyio.current_time()
        begin = partial(self._begin_or_end, states)
        writing = start_background(begin, caller=get_asyncio_task(), name="spindle-intents")
        if writing is not None:
            await self._wait_for_intents(writing, states, ends)
        error = None if writing is None else writing.error
        ended = anyio.current_time()
        used_seconds = ended - started
        if self._trace is not None:
            self._trace.intents = started, ended
        for state in states:
            state.used_seconds = used_seconds
            if state.handled is None and not is_known(state):
                _reject_unwritten(state, error=error or JournalError("The intent was not written."))

    async def _wait_for_intents(
        self, writing: BackgroundTask, states: Sequence[AdmittedCall], ends: Sequence[float]
    ) -> None:
        try:
            for end in sorted(set(ends)):
                if not writing.is_done:
                    with anyio.CancelScope(deadline=end):
                        await writing.wait()
                if not writing.is_done:
                    self._time_out([state for state, own_end in zip(states, ends, strict=True) if own_end <= end])
        finally:
            if not writing.is_done:
                writing.cancel()  # a cancelled `begin` leaves no call started

    def _time_out(self, states: Sequence[AdmittedCall]) -> None:
        late = [state for state in states if state.handled is None]
        for state in late:
            state.close(build_timeout(state))
        if late:
            self._warn(f"{len(late)} calls were not run: their intents were not written in time", TimeoutError())

    async def _begin_or_end(self, states: Sequence[AdmittedCall]) -> None:
        """Write intents; end those calls that were answered meanwhile and do not run."""
        await self.begin(states)
        late = [
            state
            for state in states
            if state.is_closed and state.journal_state is not None and state.journal_state.is_begun
        ]
        if late:
            with anyio.CancelScope(shield=True):
                await self.finish(late)

    async def begin(self, states: Sequence[AdmittedCall]) -> None:
        """Write the intent of each call; finish calls that must not run again."""
        now = datetime.now(UTC)
        intents = {state: intent for state in states if (intent := self._try_build_intent(state, now)) is not None}
        try:
            standing = await self._journal.begin(list(intents.values()))
        except UsageError as error:
            if len(intents) == 1:
                _reject_unwritten(*intents, error=error)
            else:
                # One intent cannot be stored; write them one by one so that the others can.
                for state in intents:
                    await self.begin([state])
        except Exception as error:  # noqa: BLE001  a call without a written intent must not run
            self._warn(f"{len(intents)} calls were not run: they could not be written to the journal", error)
            for state in intents:
                _reject_unwritten(state, error=error)
        else:
            for state, entry in zip(intents, standing, strict=True):
                await self._apply_entry(state, entry)

    def _try_build_intent(self, state: AdmittedCall, now: datetime) -> Intent | None:
        try:
            return build_intent(state, now)
        except Exception as error:  # noqa: BLE001  for example a call id that is not text
            _reject_unwritten(state, error=error)
            return None

    async def _apply_entry(self, state: AdmittedCall, entry: JournalEntry | None) -> None:
        record = get_state(state)
        if entry is None:
            record.is_begun = True
        elif entry.state == "interrupted":
            record.interrupted_entry = entry
        else:
            record.is_recorded = True
            if entry.state == "finished":
                record.answer = HandlerResult(await restore_result(entry, state.entry.tool, self._spool, self._warn))
                state.finish(record.answer)
            else:
                text = f"The same call of {state.call.name!r} is already running; wait for its result."
                state.finish(HandlerResult(Err("not_available", text, retryable=True, by="spindle")))

    async def admit(self, state: AdmittedCall, *, timeout_seconds: float, waiting: Waiting) -> HandlerResult | None:
        """Write the intent of one call and return `None`, or return its result if it must not run.

        Asking the tool about an interrupted call takes its own `timeout_seconds`, not the call's.
        """
        if state.journal_state is None:
            await self.begin([state])
        record = get_state(state)
        if record.is_begun:
            return None
        if record.interrupted_entry is None:
            return state.handled
        with waiting("reconcile", seconds=timeout_seconds + 1):
            found = await reconcile_interrupted(state, timeout_seconds)
        if found is not None:
            record.is_begun = True
            return found
        age_seconds = (datetime.now(UTC) - record.interrupted_entry.started_at).total_seconds()
        if state.entry.tool.idempotent or self._is_remembered(state.entry.tool, age_seconds):
            return await self._begin_again(state, record)
        record.is_recorded = True
        return HandlerResult(build_interrupted(state.call.name))

    async def _begin_again(self, state: AdmittedCall, record: JournalState) -> HandlerResult | None:
        try:
            await self._journal.begin([replace(build_intent(state, datetime.now(UTC)), repeat=True)])
        except Exception as error:  # noqa: BLE001
            _reject_unwritten(state, error=error)
            return state.handled
        state.journal_state = JournalState(record.key, is_begun=True)
        return None

    @contextmanager
    def flush_in_background(self) -> Generator[None]:
        """Write the outcomes of finished calls while others still run, so that none waits for a slow sibling."""
        self._flushing = spawn_background(self._flush_finished, name="spindle-outcomes")
        try:
            yield
        finally:
            self._all_ended.set()
            self._has_ended.set()

    async def keep_media(self, state: AdmittedCall) -> None:
        """Spool the media of a call that has ended; its deadline holds, its result stands whatever a reader does."""
        journaled = state.journal_state
        if journaled is not None and journaled.is_begun and not journaled.is_recorded:
            await keep_media(state, journaled, self._spool, self._warn)

    def queue_outcome(self, state: AdmittedCall) -> None:
        """Queue the outcome of a finished call for writing, without waiting for it."""
        record = state.journal_state
        if record is not None and record.is_begun:
            self._ended.append(state)
            if len(self._ended) == 1:
                self._has_ended.set()

    async def _flush_finished(self) -> None:
        while True:
            await self._has_ended.wait()
            with anyio.move_on_after(FLUSH_DELAY_SECONDS):
                await self._all_ended.wait()
            if self._all_ended.is_set():
                return  # `finish` writes the rest, together with truncated results
            self._has_ended = anyio.Event()
            ended, self._ended = self._ended, []
            try:
                await self._write([state for state in ended if self._is_final(state)])
            except Exception:  # noqa: BLE001  `finish` tries again and reports a failure
                return

    async def finish(self, states: Sequence[CallState]) -> None:
        """Write all outcomes that are not written yet; a failure only emits a warning, the results stay valid."""
        if self._flushing is not None:
            await self._flushing.wait()
        owed = [
            state
            for state in states
            if isinstance(state, AdmittedCall)
            and state.journal_state is not None
            and state.journal_state.is_begun
            and not state.journal_state.is_recorded
        ]
        others = [state for state in states if state.journal_state is None or not state.journal_state.is_begun]
        refused = [note for state in others if (note := self._build_refusal(state)) is not None]
        try:
            await self._write(owed)
            await self._journal.note(refused)
        except Exception as error:  # noqa: BLE001
            self._warn(
                f"the outcomes of up to {len(owed) + len(refused)} calls could not be written to the journal", error
            )

    async def _write(self, states: Sequence[AdmittedCall]) -> None:
        if not states:
            return
        clock = self._read_clock()
        try:
            await self._journal.finish([build_outcome(state, get_state(state).key, clock) for state in states])
        except UsageError as error:
            if len(states) > 1:
                for state in states:
                    await self._write([state])
                return
            # A handler's `structured` may not be JSON; the text is what the model sees.
            self._warn(f"only the text of the result of {states[0].call.name!r} could be written to the journal", error)
            await self._journal.finish([build_outcome(states[0], get_state(states[0]).key, clock, text_only=True)])
        for state in states:
            get_state(state).is_recorded = True

    def _read_clock(self) -> OutcomeTimes:
        return OutcomeTimes(
            datetime.now(UTC), time.perf_counter(), None if self._trace is None else self._trace.clock()
        )

    def _build_refusal(self, state: CallState) -> tuple[Intent, FinishedCall] | None:
        """Build the rows of a call that did not run: rejected, or approved by a person and answered from elsewhere.

        A rejected call has no arguments if they were not validated.
        """
        result = None if state.handled is None else state.handled.result
        is_noted = isinstance(result, Err) or (isinstance(state, AdmittedCall) and state.needs_approval)
        if not is_noted or (
            state.journal_state is not None and (state.journal_state.is_begun or state.journal_state.is_recorded)
        ):
            return None
        now = datetime.now(UTC)
        try:
            intent = (
                build_intent(state, now)
                if isinstance(state, AdmittedCall)
                else build_refusal_intent(state, self._context, now)
            )
            return intent, build_outcome(state, intent.idempotency_key, self._read_clock())
        except Exception:  # noqa: BLE001  a call without a valid id cannot be recorded, and had no effect
            return None

    def _warn(self, message: str, error: BaseException) -> None:
        self._context.events.warn(message, source="journal", error=error)


def is_known(state: AdmittedCall) -> bool:
    """Return whether the journal has the call: begun here, or by a process that is gone."""
    journaled = state.journal_state
    return journaled is not None and (journaled.is_begun or journaled.interrupted_entry is not None)


def _reject_unwritten(state: AdmittedCall, *, error: BaseException) -> None:
    text = f"The tool {state.call.name!r} was not run: the call could not be written to the journal."
    state.journal_state = JournalState("", is_recorded=True)
    state.finish(HandlerResult(Err("not_available", text, retryable=True, cause=error, by="spindle")))
