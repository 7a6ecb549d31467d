"""Rounds of calls whose questions can be answered at any replica.

The replica that asked runs the call, so an answer that comes to another one is sent there, and the reply comes back. If
that replica is gone, the call is started again under its old id, and goes on with the answer if it asks the same: the
journal lets it run if it had not begun or may be repeated, and reports it as interrupted otherwise.
"""

import json
from hashlib import sha256
from secrets import token_hex
from typing import Any, Final, cast

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter
from typing_extensions import override

from spindle.calls import CallOutcome, Err
from spindle.journal.states import StateRecord
from spindle.json_types import JsonObject
from spindle.mcp.client_requests import Round
from spindle.mcp.server.call_rounds import Answer, BuildResult, CallRounds, Restart
from spindle.mcp.server.elicitation import apply_answers, assign_keys, build_request
from spindle.mcp.server.parked_calls import MAX_PARKED_SECONDS, CallEvent, Execute, ResumableCall
from spindle.mcp.server.peer import CallClient, Context
from spindle.mcp.server.replicas import Replica, now_micros
from spindle.mcp.server.sessions import McpSession

QUESTION: Final = "mcp_question"
_OPEN: Final = "open"
_RESPONSES: Final = TypeAdapter[dict[str, types.InputResponse]](dict[str, types.InputResponse])


class SharedRounds(CallRounds):
    """Calls that may ask their client, whose answers may come to another replica."""

    def __init__(self, build_result: BuildResult, replica: Replica) -> None:
        super().__init__(build_result)
        self._replica = replica
        self._detached = 0
        """Number of calls that go on for clients that wait at other replicas."""
        self._idle = anyio.Event()
        replica.clean(QUESTION)
        replica.on("resume", self._resume_for_other)

    @override
    async def resume(
        self, ctx: Context, session: McpSession, params: types.CallToolRequestParams, restart: Restart
    ) -> Answer:
        """Go on with a call whose client has answered: here, at the replica that asked, or anew if that one is gone."""
        ticket = params.request_state or ""
        running = self.parked_calls.take(ticket, owner=session.key)
        record = await self._replica.states.get(QUESTION, ticket)
        if record is None or record.group != session.key:
            if running is not None:
                running.cancel()
            return await self._refuse(ctx, session, params)
        if running is not None:
            if await self._claim(record):
                return await self._go_on(ctx, session, params, running)
            running.cancel()
            return await self._refuse(ctx, session, params)
        data: JsonObject = json.loads(record.data)
        if not await self._replica.is_gone(data["replica"]):
            reply = await self._forward(session, params, data["replica"])
            if reply:
                return _read_reply(reply)
            # It is gone, or does not have the call any more, because it stops.
            record = await self._replica.states.get(QUESTION, ticket)
        if record is None or not await self._claim(record):
            return await self._refuse(ctx, session, params)
        return await self._start_again(ctx, session, params, restart, json.loads(record.data))

    @override
    async def wait_until_idle(self) -> None:
        """Wait until no call goes on for a client at another replica."""
        while self._detached:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def _claim(self, record: StateRecord) -> bool:
        """Return whether this replica, and no other, goes on with the call of a question."""
        data: JsonObject = json.loads(record.data)
        if record.status != _OPEN and not await self._replica.is_gone(record.status):
            return False
        data["replica"] = self._replica.id
        claimed = record._replace(version=record.version + 1, status=self._replica.id, data=json.dumps(data))
        return await self._replica.states.replace(claimed) is None

    async def _forward(
        self, session: McpSession, params: types.CallToolRequestParams, replica: str
    ) -> JsonObject | None:
        given = params.input_responses or {}
        responses = {key: each.model_dump(by_alias=True, mode="json", exclude_none=True) for key, each in given.items()}
        content: JsonObject = {"ticket": params.request_state, "owner": session.key, "responses": responses}
        return await self._replica.request(replica, "resume", content)

    async def _resume_for_other(self, content: JsonObject) -> JsonObject:
        """Go on with a call whose answer was sent to another replica, and return the answer to its client."""
        running = self.parked_calls.take(str(content["ticket"]), owner=str(content["owner"]))
        if running is None:
            return {}
        record = await self._replica.states.get(QUESTION, str(content["ticket"]))
        if record is None or not await self._claim(record):
            running.cancel()
            return {}
        params = types.CallToolRequestParams(
            name="", input_responses=_RESPONSES.validate_python(content["responses"], by_name=False)
        )
        self._detached += 1
        try:
            answer = await self._go_on_detached(params, running)
        except MCPError as error:
            return {"error": [error.error.code, error.error.message, error.error.data]}
        finally:
            self._detached -= 1
            if not self._detached:
                self._idle.set()
        if isinstance(answer, dict):
            return {"task": answer}
        name = "asked" if isinstance(answer, types.InputRequiredResult) else "result"
        return {name: answer.model_dump(by_alias=True, mode="json", exclude_none=True)}

    async def _go_on_detached(self, params: types.CallToolRequestParams, running: ResumableCall) -> Answer:
        """Go on with a call while its client waits at another replica, where progress and logs cannot be sent."""
        client = running.client
        running.questions = apply_answers(running.questions, params.input_responses or {})
        if running.questions:
            return await self._build_input_required(running)
        news = await running.next_event()
        return await self._build_answer(client.request, client.session, running, client.call, news)

    async def _start_again(
        self,
        ctx: Context,
        session: McpSession,
        params: types.CallToolRequestParams,
        restart: Restart,
        data: JsonObject,
    ) -> Answer:
        if self.tasks is None:
            return await self._refuse(ctx, session, params)
        running, news = await self._run_to_event(self.tasks, ctx, *restart(data["call_id"]))
        if data["can_repeat"] and _is_cancelled(news):  # recorded by a replica that was stopped
            running, news = await self._run_to_event(self.tasks, ctx, *restart(f"c_{token_hex(8)}"))
        # Only the answer to the same question counts: the tool may be another one by now.
        if not isinstance(news, tuple) or _describe(news) != data["asked"]:
            return await self._build_answer(ctx, session, running, running.client.call, news)
        return await self._go_on(ctx, session, params, running)

    async def _run_to_event(
        self, tasks: TaskGroup, ctx: Context, execute: Execute, peer: CallClient
    ) -> tuple[ResumableCall, CallEvent | None]:
        running = self.parked_calls.start(tasks, execute, peer, owner=peer.session.key)
        async with peer.attach_request(ctx):
            return running, await running.next_event()

    @override
    async def _build_input_required(self, running: ResumableCall) -> types.InputRequiredResult:
        answer = await super()._build_input_required(running)
        now = now_micros()
        data: JsonObject = {
            "replica": self._replica.id,
            "call_id": running.client.call.tool_call_id,
            "asked": _describe(running.questions),
            "can_repeat": running.client.can_repeat,
        }
        await self._replica.states.insert(
            StateRecord(
                QUESTION,
                running.ticket,
                _OPEN,
                json.dumps(data),
                now,
                group=running.owner,
                expires_at=now + MAX_PARKED_SECONDS * 1_000_000,
            )
        )
        return answer


def _read_reply(reply: JsonObject) -> Answer:
    if "error" in reply:
        raise MCPError(*reply["error"])
    if "task" in reply:
        return reply["task"]
    if "result" in reply:
        return types.CallToolResult.model_validate(reply["result"], by_name=False)
    return types.InputRequiredResult.model_validate(reply["asked"], by_name=False)


def _is_cancelled(news: CallEvent | None) -> bool:
    return isinstance(news, CallOutcome) and isinstance(news.result, Err) and news.result.code == "cancelled"


def _describe(questions: Round) -> str:
    """Return a hash of what a client is asked."""
    requests = {key: build_request(gate) for key, gate in assign_keys(questions).items()}
    plain = {key: cast("Any", each).model_dump(by_alias=True, mode="json") for key, each in requests.items()}
    return sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
