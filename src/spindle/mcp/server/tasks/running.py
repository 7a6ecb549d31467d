"""A task whose call runs here: its events become states, and its end is written before it is shown."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any, Final, TypeAlias

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from spindle.artifacts.forge import can_be_read_back
from spindle.calls import CallOutcome, Err
from spindle.errors import JournalError
from spindle.json_types import JsonObject, JsonValue
from spindle.mcp.client.task_ledger import TaskLedger
from spindle.mcp.client_requests import Round
from spindle.mcp.server.call_rounds import BuildResult
from spindle.mcp.server.elicitation import apply_answer, assign_keys, build_request
from spindle.mcp.server.parked_calls import ResumableCall
from spindle.mcp.server.peer import Context, send_question
from spindle.mcp.server.replicas import now_micros
from spindle.mcp.server.tasks.records import KeptTask, TaskRecords
from spindle.mcp.server.tasks.state import MAX_MESSAGE_CHARS, TaskState
from spindle.mcp.server.tasks.wire import read_response, relate
from spindle.text import to_printable
from spindle.turns.gates import Gate

Change: TypeAlias = Callable[[TaskState], TaskState | None]
Restart: TypeAlias = Callable[[str], Awaitable[ResumableCall]]
"""Starts the call again, under another id."""
_LOOK_SECONDS: Final = 0.5
_INTERRUPTED: Final = "The server was stopped while the call ran. It is not known whether the call took effect."
CANCELLED: Final[JsonObject] = {
    "error": {"code": types.INVALID_REQUEST, "message": "The task was cancelled, so it has no result."}
}
"""What a client gets that asks for the result of a cancelled task."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovery:
    """How to go on with a task whose process is gone."""

    restart: Restart
    can_repeat: bool
    """Whether the call may run again, or goes on waiting for a task of its upstream server."""


class RunningTask:
    """A task and the call behind it; `on_change` is called after each change of its state."""

    def __init__(
        self,
        kept: KeptTask,
        call: ResumableCall,
        records: TaskRecords,
        *,
        build_result: BuildResult,
        ledger: TaskLedger,
        is_stopping: Callable[[], bool],
        on_change: "Callable[[RunningTask], None]",
        recovery: Recovery | None = None,
    ) -> None:
        self.kept, self.call = kept, call
        self.end: JsonObject | None = None
        """The result or the error, once there is one."""
        self.is_over = False
        """Whether nothing here will change it any more: it has ended, or another process goes on with it."""
        self.is_written = True
        """Whether the journal has its last state."""
        self.changed = anyio.Event()
        self._records, self._build_result, self._ledger = records, build_result, ledger
        self._is_stopping, self._on_change, self._recovery = is_stopping, on_change, recovery
        self._questions: dict[str, Gate] = {}
        self._lock, self._asking = anyio.Lock(), anyio.Lock()
        ledger.hold(call.client.call.tool_call_id)

    @property
    def state(self) -> TaskState:
        """The state as it is shown: with the latest progress as its message."""
        state, progress = self.kept.state, self.call.client.progress
        if state.is_ended or state.is_waiting or progress is None:
            return state
        share = "" if progress.percent is None else f" ({progress.percent:.0f} %)"
        return replace(state, message=to_printable(progress.message, MAX_MESSAGE_CHARS - len(share)) + share)

    async def drive(self) -> None:
        """Follow the call to its end."""
        try:
            while (news := await self.call.next_event()) is not None:
                if isinstance(news, tuple):
                    await self._ask(news)
                elif not await self._finish(news):
                    return
        finally:
            self.is_over = True
            if self.kept.state.is_ended:  # otherwise it goes on later, and so does the task of its upstream server
                self._ledger.release(self.call.client.call.tool_call_id)
            self._signal()

    async def cancel(self) -> bool:
        """End the task as cancelled and cancel its call; return whether it had not ended before."""
        self.end = self.end or CANCELLED
        is_ended = await self._change(lambda state: state.end("cancelled", now=now_micros()))
        self._ledger.release(self.call.client.call.tool_call_id)
        self.call.cancel()
        return is_ended

    async def _ask(self, gates: Round) -> None:
        mark = f"~{self.kept.state.asked + 1}" if self.kept.state.asked else ""  # no key is used twice
        self._questions = {f"{key}{mark}": gate for key, gate in assign_keys(gates).items()}
        requests = {key: _dump(build_request(gate)) for key, gate in self._questions.items()}
        await self._change(lambda state: state.ask(requests, now=now_micros()))

    async def answer(self, responses: Mapping[str, JsonValue]) -> None:
        """Pass answers on to the questions that are open; others are ignored.

        Raises:
            MCPError: An answer is invalid; none was passed on.
        """
        is_open = {key: gate for key, gate in self._questions.items() if key in responses and not gate.is_settled}
        for key, answer in {key: read_response(responses[key]) for key in is_open}.items():
            apply_answer(is_open[key], answer)
        await self.refresh()

    async def refresh(self) -> None:
        """Remove the questions that were answered, or whose call does not wait any more."""
        settled = {key for key, gate in self._questions.items() if gate.is_settled}
        if any(_is_failed(gate) for gate in self._questions.values()):
            settled = set(self._questions)  # one failure cancels the others
        if settled:
            self._questions = {key: gate for key, gate in self._questions.items() if key not in settled}
            await self._change(lambda state: state.answer(frozenset(settled), now=now_micros()))

    async def ask_through(self, ctx: Context) -> None:
        """Send the open questions as requests to the client that waits for the result, and wait for the answers."""
        async with self._asking:
            for gate in tuple(self._questions.values()):
                await self._send(ctx, gate)
            await self.refresh()

    async def _send(self, ctx: Context, gate: Gate) -> None:
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                await send_question(ctx, gate, relate(build_request(gate), self.kept.state.id))
                tasks.cancel_scope.cancel()

            tasks.start_soon(send)
            while not gate.is_settled and not self.is_over:  # the question may time out
                with anyio.move_on_after(_LOOK_SECONDS):
                    await self.changed.wait()
            tasks.cancel_scope.cancel()

    async def _finish(self, outcome: CallOutcome) -> bool:
        """Write what the call returned; return whether it was started again."""
        result = outcome.result
        if isinstance(result, Err):
            if result.ticket is not None:
                said = f"Waits for approval {result.ticket.partition('-')[0]}."
                await self._change(lambda state: state.wait(said, now=now_micros()))
                return False
            if result.code == "cancelled" and self._is_stopping():
                return False  # the next process goes on with it
            if self._recovery is not None and result.retryable and not outcome.attempts:
                return False  # it runs elsewhere, or cannot run yet
            if self._recovery is not None and result.code == "cancelled":
                return await self._start_again(self._recovery)
            if result.code == "interrupted":
                await self._fail(result.error)
                return False
        await self._write_end(outcome)
        return False

    async def _start_again(self, recovery: Recovery) -> bool:
        """Run a call again that was cancelled because its server was stopped, if it may run again."""
        self._recovery = None
        if not recovery.can_repeat:
            await self._fail(_INTERRUPTED)
            return False
        before, following = self.kept.state.call_id, f"c_{token_hex(8)}"
        await self._ledger.move(before, following)
        if not await self._change(lambda state: state.take_over(state.process, call_id=following)):
            return False
        self.call = await recovery.restart(following)
        self._ledger.hold(following)
        return True

    async def _write_end(self, outcome: CallOutcome) -> None:
        client = self.call.client
        try:
            shown = await self._build_result(client.request, client.session, outcome)
        except MCPError as error:
            end: JsonObject = {"error": _dump(error.error)}
            said = str(error)
            await self._write(end, lambda state: state.end("failed", now=now_micros(), message=said))
            return
        is_error, has_artifact = bool(shown.is_error), can_be_read_back(outcome)
        await self._write(
            {"result": _dump(shown)},
            lambda state: state.end("completed", now=now_micros(), is_error=is_error, has_artifact=has_artifact),
        )

    async def _fail(self, message: str) -> None:
        await self._write(
            build_interruption(message), lambda state: state.end("failed", now=now_micros(), message=message)
        )

    async def _write(self, end: JsonObject, change: Change) -> None:
        async with self._lock:
            following = change(self.kept.state)
            if following is None:
                return
            self.end = end
            try:
                await self._records.write_result(following, end)
                kept = await self._records.replace(self.kept, following)
            except JournalError:
                # It is answered from memory; after a restart the outcome of the call is in the journal.
                kept, self.is_written = replace(self.kept, state=following), False
            self._apply(kept)

    async def _change(self, change: Change) -> bool:
        async with self._lock:
            following = change(self.kept.state)
            if following is None:
                return False
            try:
                kept = await self._records.replace(self.kept, following)
            except JournalError:
                kept, self.is_written = replace(self.kept, state=following), False
            return self._apply(kept)

    def _apply(self, kept: KeptTask | None) -> bool:
        if kept is None:  # it was cancelled or taken over elsewhere
            self.is_over = True
            self.call.cancel()
        else:
            self.kept = kept
            self._on_change(self)
        self._signal()
        return kept is not None

    def _signal(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


def build_interruption(message: str) -> JsonObject:
    """Build the end of a task whose call was interrupted."""
    return {"error": {"code": types.INTERNAL_ERROR, "message": message, "data": {"spindle/code": "interrupted"}}}


def _is_failed(gate: Gate) -> bool:
    return gate.settlement is not None and gate.settlement.result != "resolved"


def _dump(model: Any) -> JsonObject:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)
