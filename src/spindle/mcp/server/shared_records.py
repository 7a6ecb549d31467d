"""What replicas of a server know in common about a client: its taint, its artifacts, and its calls that wait.

A record belongs to one client by its id, so that no other one finds it. Most are read once and kept in memory, so that
a call rarely waits for the store.
"""

import json
import logging
import math
from typing import Any, Final

import anyio

from spindle.artifacts.artifact import Artifact
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.markdown.artifact import MarkdownArtifact
from spindle.artifacts.spool import Spool
from spindle.artifacts.table_artifact import TableArtifact
from spindle.calls import Call, CallOutcome, Err, Ok
from spindle.errors import JournalError, SpindleError
from spindle.execution.call_state import compute_call_checksum
from spindle.execution.flow import Policy, may_ask
from spindle.journal.states import StateQuery, StateRecord
from spindle.json_types import JsonObject, is_object
from spindle.mcp.server.call_rounds import BuildResult, CallRounds
from spindle.mcp.server.replicas import Replica, digest, now_micros
from spindle.mcp.server.sessions import TAINT_SECONDS, McpSession, TaintLedger
from spindle.mcp.server.shared_ledgers import FLOW, SharedLedgers
from spindle.mcp.server.shared_rounds import SharedRounds
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry

TAINT: Final = "mcp_taint"
ARTIFACT: Final = "mcp_artifact"
WAITING: Final = "mcp_waiting"
SESSION: Final = "mcp_session"
_DAY_SECONDS: Final = 86_400
_MAX_MARKED: Final = 100_000
_CLASSES: Final = {each.__name__: each for each in (Artifact, JsonArtifact, MarkdownArtifact, TableArtifact)}
_LOG: Final = logging.getLogger("spindle.mcp.server")


class SharedRecords:
    """The records of the clients of all replicas; `sinks` says which tools may wait for approval."""

    def __init__(self, replica: Replica, spool: Spool, *, sinks: Policy | None = None) -> None:
        self.replica = replica
        self._states, self._spool, self._sinks = replica.states, spool, sinks
        self._marked: dict[str, float] = {}
        """Conversations whose taint is in the store, and when it was last written."""
        self.ledgers = SharedLedgers(replica)
        """What is known about the information flow of clients."""
        replica.clean(TAINT, ARTIFACT, WAITING)

    def build_rounds(self, build_result: BuildResult) -> CallRounds:
        """Build the rounds of calls whose questions can be answered at any replica."""
        return SharedRounds(build_result, self.replica)

    async def join(self, session: McpSession, conversation: str, taint: TaintLedger, registry: ToolRegistry) -> None:
        """Bring what is known here about a client up to date: its taint, and the artifacts it may list.

        Raises:
            JournalError: The store cannot be read.
        """
        if not taint.has(conversation) and await self._states.get(TAINT, digest(conversation)) is not None:
            taint.add(conversation)
        if session.lists_artifacts and not session.is_current:
            session.is_current = True  # a notice that arrives meanwhile resets it
            limit = session.tool_calls.maxlen
            for record in reversed(await self._states.select(StateQuery(ARTIFACT, group=session.key, limit=limit))):
                await self._restore(session, record, registry)

    async def mark_tainted(self, conversation: str) -> None:
        """Keep that a conversation is about to see untrusted content.

        Raises:
            JournalError: It cannot be written.
        """
        now = anyio.current_time()
        if now - self._marked.get(conversation, -math.inf) < _DAY_SECONDS:
            return
        known = await self._insert(TAINT, digest(conversation), {}, seconds=TAINT_SECONDS)
        if known is not None:  # it stays tainted as long as it is used
            expires_at = now_micros() + TAINT_SECONDS * 1_000_000
            await self._states.replace(known._replace(version=known.version + 1, expires_at=expires_at))
        if len(self._marked) >= _MAX_MARKED:
            self._marked.clear()
        self._marked[conversation] = now

    async def prepare_call(self, session: McpSession, conversation: str, call: Call, registry: ToolRegistry) -> Call:
        """Find the artifact that a call reads, and return the call with the id of an equal one that waits, if any.

        Raises:
            JournalError: The store cannot be read.
        """
        tool = registry.get(call.name)
        if tool is not None and tool.is_artifact_reader and is_object(call.args):
            await self._find_artifact(session, str(call.args.get("call_id")), registry)
        return await self._reuse_id(conversation, call, tool)

    async def _find_artifact(self, session: McpSession, call_id: str, registry: ToolRegistry) -> None:
        if any(each.id == call_id for each in session.tool_calls):
            return
        record = await self._states.get(ARTIFACT, f"{session.key}/{call_id}")
        if record is not None:
            await self._restore(session, record, registry)

    async def _restore(self, session: McpSession, record: StateRecord, registry: ToolRegistry) -> None:
        data: JsonObject = json.loads(record.data)
        if any(each.id == data["call_id"] for each in session.tool_calls):
            return
        try:
            reader = await self._spool.read(_place(session, data["call_id"]))
            if reader is not None:
                session.add_artifact(data["call_id"], _find_class(data, registry)(reader))
        except SpindleError as error:
            _LOG.warning("an artifact of another replica cannot be read: %s", error)

    async def keep_artifact(self, session: McpSession, outcome: CallOutcome) -> None:
        """Let other replicas find the artifact of a call; its content is written to the spool, if it is not there."""
        artifact: object = outcome.result.artifact if isinstance(outcome.result, Ok) else None
        if not isinstance(artifact, Artifact):
            return
        place = _place(session, outcome.tool_call_id)
        known = next(base.__name__ for base in type(artifact).__mro__ if base.__name__ in _CLASSES)
        data: JsonObject = {
            "call_id": outcome.tool_call_id,
            "tool": outcome.name,
            "class": type(artifact).__name__,
            "base": known,
        }
        try:
            if await self._spool.read(place) is None:
                chunks: Any = getattr(artifact.reader, "chunks", None)
                content: Any = chunks() if callable(chunks) else await artifact.as_bytes()
                await self._spool.write(place, content, turn_id=outcome.tool_call_id)
            name = f"{session.key}/{outcome.tool_call_id}"
            await self._insert(ARTIFACT, name, data, seconds=_DAY_SECONDS, group=session.key)
        except SpindleError as error:  # the result stands; only other replicas cannot read on
            _LOG.warning("an artifact cannot be shared with other replicas: %s", error)

    async def find_readable_calls(self) -> set[str]:
        """Return the ids of the calls whose artifacts a client of any replica may still read."""
        return {json.loads(record.data)["call_id"] for record in await self._states.select(StateQuery(ARTIFACT))}

    async def _reuse_id(self, conversation: str, call: Call, tool: Tool | None) -> Call:
        if tool is None or not self._may_wait(tool):
            return call
        record = await self._states.get(WAITING, digest(conversation, compute_call_checksum(call)))
        return call if record is None else Call(json.loads(record.data)["call_id"], call.name, call.args)

    async def keep_waiting(self, conversation: str, call: Call, outcome: CallOutcome, tool: Tool | None) -> None:
        """Keep the id of a call that waits for approval, until its outcome is returned."""
        result = outcome.result
        if tool is None or not self._may_wait(tool) or (isinstance(result, Err) and result.retryable):
            return
        name = digest(conversation, compute_call_checksum(call))
        try:
            if isinstance(result, Err) and result.ticket is not None:
                await self._insert(WAITING, name, {"call_id": call.tool_call_id}, seconds=_DAY_SECONDS)
            else:
                await self._states.delete(WAITING, name)
        except JournalError as error:
            _LOG.warning("a call that waits for approval cannot be shared with other replicas: %s", error)

    def _may_wait(self, tool: Tool) -> bool:
        return tool.requires_approval or (may_ask(self._sinks, tool))

    async def keep_log_level(self, session: McpSession, level: str) -> None:
        """Let other replicas know the log level of a session.

        Raises:
            JournalError: It cannot be written.
        """
        record = await self._states.get(SESSION, session.key)
        if record is not None:
            data = json.dumps({**json.loads(record.data), "log_level": level})
            await self._states.replace(record._replace(version=record.version + 1, data=data))
        self.replica.post("log_level", {"session": session.key, "level": level})

    async def forget(self, key: str) -> None:
        """Delete what is known about a session that has ended."""
        try:
            for kind in (TAINT, FLOW):
                await self._states.delete(kind, digest(key))
            for record in await self._states.select(StateQuery(ARTIFACT, group=key)):
                await self._states.delete(ARTIFACT, record.id)
        except JournalError as error:  # then it expires
            _LOG.warning("the records of a session cannot be deleted: %s", error)
        self._marked.pop(key, None)

    async def _insert(
        self, kind: str, id: str, data: JsonObject, *, seconds: float, group: str | None = None
    ) -> StateRecord | None:
        now = now_micros()
        expires_at = now + int(seconds * 1_000_000)
        return await self._states.insert(
            StateRecord(kind, id, "kept", json.dumps(data), now, group=group, expires_at=expires_at)
        )


def _place(session: McpSession, call_id: str) -> str:
    """Return where the executor spools the full result of a call of a client."""
    return f"{session.key}/{call_id}/{call_id}"


def _find_class(data: JsonObject, registry: ToolRegistry) -> Any:
    """Return the class of an artifact: the tool's own if it is still the same one, else the nearest known."""
    tool = registry.get(data["tool"])
    own: Any = None if tool is None else tool.artifact_constructor
    return own if isinstance(own, type) and own.__name__ == data["class"] else _CLASSES[data["base"]]
