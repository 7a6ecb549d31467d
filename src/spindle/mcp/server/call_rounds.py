"""The rounds of a call on the newer protocol: the questions it asks its client, and the answers it goes on with."""

from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import Protocol, TypeAlias

import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server.request_state import RequestStateSecurity

from spindle.calls import Call, CallOutcome, Err
from spindle.json_types import JsonObject
from spindle.mcp.server.elicitation import apply_answers, assign_keys, build_request
from spindle.mcp.server.parked_calls import LATE, CallEvent, Execute, ParkedCalls, ResumableCall
from spindle.mcp.server.peer import CallClient, Context
from spindle.mcp.server.replicas import Replica
from spindle.mcp.server.sessions import McpSession

Answer: TypeAlias = types.CallToolResult | types.InputRequiredResult | JsonObject
"""The answer to a call; a task, which the SDK has no type for, is a JSON object."""
BuildResult: TypeAlias = Callable[[Context, McpSession, CallOutcome], Awaitable[types.CallToolResult]]
Restart: TypeAlias = Callable[[str], tuple[Execute, CallClient]]
"""Prepares the call of a request again, under the id that it had."""


class Promoter(Protocol):
    """Turns a slow call into a task."""

    def get_delay(self, ctx: Context) -> float | None:
        """Return the seconds after which a call becomes a task; `None` if its client cannot use tasks."""
        ...

    async def promote(self, ctx: Context, session: McpSession, running: ResumableCall) -> JsonObject | None:
        """Turn a call into a task and return the answer to its client; `None` if there can be no more tasks now."""
        ...


class CallRounds:
    """Runs calls that may ask their client; a question is the response, and the client calls again with the answer."""

    def __init__(self, build_result: BuildResult) -> None:
        self.parked_calls = ParkedCalls()
        self.tasks: TaskGroup | None = None
        """Where calls are started again."""
        self.promoter: Promoter | None = None
        self._build_result = build_result

    async def start(
        self, tasks: TaskGroup, ctx: Context, session: McpSession, execute: Execute, peer: CallClient
    ) -> Answer:
        """Run a call until it asks or ends."""
        running = self.parked_calls.start(tasks, execute, peer, owner=session.key)
        return await self._wait_for_event(ctx, session, running, peer.call)

    async def resume(
        self, ctx: Context, session: McpSession, params: types.CallToolRequestParams, restart: Restart
    ) -> Answer:
        """Go on with a call whose client has answered; `restart` is for a call that cannot go on where it was."""
        del restart
        running = self.parked_calls.take(params.request_state or "", owner=session.key)
        if running is None:
            return await self._refuse(ctx, session, params)
        return await self._go_on(ctx, session, params, running)

    async def wait_until_idle(self) -> None:
        """Wait until no call goes on without a request that waits for it here; here there is none."""

    async def _go_on(
        self, ctx: Context, session: McpSession, params: types.CallToolRequestParams, running: ResumableCall
    ) -> Answer:
        running.client.request = ctx
        running.questions = apply_answers(running.questions, params.input_responses or {})
        if running.questions:
            return await self._build_input_required(running)
        return await self._wait_for_event(ctx, session, running, _build_call(params))

    async def _refuse(self, ctx: Context, session: McpSession, params: types.CallToolRequestParams) -> Answer:
        why = "That question is no longer open. Call the tool again."
        return await self._build_result(ctx, session, build_refusal(_build_call(params), why))

    async def _wait_for_event(self, ctx: Context, session: McpSession, running: ResumableCall, call: Call) -> Answer:
        delay = None if self.promoter is None else self.promoter.get_delay(ctx)
        if delay is not None and self.promoter is not None:
            async with running.client.attach_request(ctx):
                early = LATE if delay == 0 else await running.next_event_within(delay)
            if early is not LATE:
                return await self._build_answer(ctx, session, running, call, early)
            created = await self.promoter.promote(ctx, session, running)
            if created is not None:
                return created
        async with running.client.attach_request(ctx):
            news = await running.next_event()
        return await self._build_answer(ctx, session, running, call, news)

    async def _build_answer(
        self, ctx: Context, session: McpSession, running: ResumableCall, call: Call, news: CallEvent | None
    ) -> Answer:
        if isinstance(news, tuple):
            return await self._build_input_required(running)
        return await self._build_result(ctx, session, news or build_cancelled(call))

    async def _build_input_required(self, running: ResumableCall) -> types.InputRequiredResult:
        requests = {key: build_request(gate) for key, gate in assign_keys(running.questions).items()}
        return types.InputRequiredResult(input_requests=requests, request_state=self.parked_calls.park(running))


def build_seal(replica: Replica | None) -> RequestStateSecurity:
    """Build what seals the state of questions, so that any replica can read it, and only these."""
    if replica is None:
        return RequestStateSecurity.ephemeral()
    return RequestStateSecurity(keys=replica.key.derive("questions"))


def _build_call(params: types.CallToolRequestParams) -> Call:
    return Call(f"c_{token_hex(8)}", params.name, params.arguments or {})


def build_refusal(call: Call, why: str) -> CallOutcome:
    """Build the outcome of a call that the server does not run now."""
    return CallOutcome(
        call.tool_call_id, call.name, "", Err("not_available", why, retryable=True, by="spindle"), attempts=0
    )


def build_cancelled(call: Call) -> CallOutcome:
    """Build the outcome of a call that the server has cancelled."""
    return CallOutcome(call.tool_call_id, call.name, "", Err("cancelled", "The call was cancelled.", by="spindle"))
