"""What replicas of a server know in common about the information flow of a conversation.

The user's words, the records that calls made and the label of the session are kept; the texts of results are not. So a
replica that takes over asks more than the one that ran the calls, and never less.
"""

import json
import logging
from collections import OrderedDict
from typing import Final

from spindle.errors import JournalError
from spindle.journal.states import StateRecord
from spindle.json_types import JsonObject
from spindle.mcp.server.replicas import Replica, now_micros
from spindle.mcp.server.sessions import TAINT_SECONDS
from spindle.mcp.server.shared_records import digest
from spindle.trust.flow.ledger import FlowLedger

FLOW: Final = "mcp_flow"
MAX_USER_CHARS: Final = 100_000
"""Of the user's words; the newest are kept."""
MAX_MADE: Final = 5_000
"""Of the records that the calls of a conversation made."""
_MAX_KNOWN: Final = 10_000
_ATTEMPTS: Final = 5
_LOG: Final = logging.getLogger("spindle.mcp.server")


class SharedLedgers:
    """The ledgers of conversations in the store of the replicas."""

    def __init__(self, replica: Replica) -> None:
        self._replica, self._states = replica, replica.states
        self._known: OrderedDict[str, tuple[int, str]] = OrderedDict()
        """The version of each record that was last read or written here, and its content."""
        replica.clean(FLOW)

    async def restore(self, conversation: str, ledger: FlowLedger) -> StateRecord | None:
        """Add what other replicas know to a ledger; return the record, if there is one.

        Raises:
            JournalError: The store cannot be read.
        """
        record = await self._states.get(FLOW, digest(conversation))
        known = self._known.get(conversation)
        if record is None or (known is not None and known[0] == record.version):
            return record
        data: JsonObject = json.loads(record.data)
        ledger.restore(data)
        if data["by"] != [self._replica.id] and data["label"] == "third-party-private":
            ledger.has_lost_private = True  # it is in the memory of another replica
        self._remember(conversation, record.version, record.data)
        return record

    async def keep(self, conversation: str, ledger: FlowLedger) -> None:
        """Write what is new in a ledger; if it cannot be written, other replicas ask more."""
        try:
            for _ in range(_ATTEMPTS):
                if await self._try_to_keep(conversation, ledger):
                    return
            _LOG.warning("what a user said cannot be shared with other replicas: too many of them write it")
        except JournalError as error:
            _LOG.warning("what a user said cannot be shared with other replicas: %s", error)

    async def _try_to_keep(self, conversation: str, ledger: FlowLedger) -> bool:
        version, written = self._known.get(conversation, (0, "{}"))
        before: JsonObject = json.loads(written)
        saved = _limit(ledger.save())
        if saved == {name: value for name, value in before.items() if name != "by"} or _is_empty(saved):
            return True
        saved["by"] = sorted({*before.get("by", ()), self._replica.id})
        now, data = now_micros(), json.dumps(saved)
        record = StateRecord(
            FLOW, digest(conversation), "kept", data, now, expires_at=now + TAINT_SECONDS * 1_000_000
        )
        if version:
            other = await self._states.replace(record._replace(version=version + 1))
            is_written, version = other is None, version + 1
        else:
            is_written, version = await self._states.insert(record) is None, record.version
        if is_written:
            self._remember(conversation, version, data)
            return True
        self._known.pop(conversation, None)
        await self.restore(conversation, ledger)
        return False

    def _remember(self, conversation: str, version: int, data: str) -> None:
        self._known.pop(conversation, None)
        self._known[conversation] = version, data
        while len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)


def _is_empty(saved: JsonObject) -> bool:
    return not saved["tainted"] and not saved["user"] and not saved["made"]


def _limit(saved: JsonObject) -> JsonObject:
    """Return what is kept of a ledger: the newest words of the user, and the records that calls made."""
    texts: list[str] = []
    chars = 0
    for text in reversed(saved["user"]):
        chars += len(text)
        if chars > MAX_USER_CHARS:
            break
        texts.insert(0, text)
    left, made = MAX_MADE, dict[str, list[str]]()
    for kind, ids in saved["made"].items():
        made[kind] = ids[:left]
        left -= len(made[kind])
    # The labels of single calls are left out: an artifact of a call without one has that of the session.
    return {"label": saved["label"], "tainted": saved["tainted"], "user": texts, "made": made}
