"""What replicas of a server know in common about the information flow of a conversation.

The user's words, the records that calls made and the label of the session are kept; the texts of results are not. So a
replica that takes over asks more than the one that ran the calls, and never less. All of it is sealed
under the state key.
"""

import json
import logging
from collections import OrderedDict
from typing import Final, NamedTuple

from spindle.errors import JournalError, SecretError
from spindle.journal.states import StateRecord
from spindle.json_types import JsonObject
from spindle.mcp.server.replicas import Replica, digest, now_micros
from spindle.mcp.server.sessions import TAINT_SECONDS
from spindle.trust.flow.ledger import FlowLedger
from spindle.trust.labels import UNKNOWN

FLOW: Final = "mcp_flow"
MAX_USER_CHARS: Final = 100_000
"""Of the user's words; the newest are kept."""
MAX_SAVED_CHARS: Final = 1_000_000
"""Of all that is kept; beyond it, only the user's words and the label are."""
_MAX_KNOWN: Final = 10_000
_ATTEMPTS: Final = 5
_LOG: Final = logging.getLogger("spindle.mcp.server")


class _Known(NamedTuple):
    """What was last read or written here of a conversation."""

    version: int
    saved: JsonObject


_NOTHING: Final = _Known(0, {})


class SharedLedgers:
    """The ledgers of conversations in the store of the replicas."""

    def __init__(self, replica: Replica) -> None:
        self._replica, self._states = replica, replica.states
        self._known: OrderedDict[str, _Known] = OrderedDict()
        replica.clean(FLOW)

    async def restore(self, conversation: str, ledger: FlowLedger) -> None:
        """Add what other replicas know to a ledger.

        Raises:
            JournalError: The store cannot be read.
        """
        own = digest(conversation)
        record, known = await self._states.get(FLOW, own), self._known.get(conversation)
        if record is None or (known is not None and known.version == record.version):
            return
        try:
            saved: JsonObject = json.loads(self._replica.key.unseal(record.sealed or b"", bound=own))
        except SecretError as error:
            _LOG.warning("what other replicas know about a conversation cannot be read: %s", error)
            ledger.taint()
            ledger.has_lost_private = True
            return
        ledger.restore(saved)
        if saved["by"] != [self._replica.id] and saved["label"] == UNKNOWN:
            ledger.has_lost_private = True  # it is in the memory of another replica
        self._remember(conversation, _Known(record.version, saved))

    async def keep(self, conversation: str, ledger: FlowLedger) -> None:
        """Write what is new in a ledger; if it cannot be written, other replicas ask more."""
        try:
            for _ in range(_ATTEMPTS):
                if await self._try_to_keep(conversation, ledger):
                    return
            _LOG.warning("what a user said cannot be shared with other replicas: too many of them write it")
        except JournalError as error:
            self._known.pop(conversation, None)  # the record may be gone
            _LOG.warning("what a user said cannot be shared with other replicas: %s", error)

    async def _try_to_keep(self, conversation: str, ledger: FlowLedger) -> bool:
        known = self._known.get(conversation, _NOTHING)
        saved = _limit(ledger.save())
        if saved == {name: value for name, value in known.saved.items() if name != "by"} or _is_empty(saved):
            return True
        saved["by"] = sorted({*known.saved.get("by", ()), self._replica.id})
        own, now = digest(conversation), now_micros()
        sealed = self._replica.key.seal(json.dumps(saved).encode(), bound=own)
        expires_at = now + TAINT_SECONDS * 1_000_000
        record = StateRecord(
            FLOW, own, "kept", "{}", now, version=known.version + 1, sealed=sealed, expires_at=expires_at
        )
        write = self._states.replace if known.version else self._states.insert
        if await write(record) is None:
            self._remember(conversation, _Known(record.version, saved))
            return True
        self._known.pop(conversation, None)
        await self.restore(conversation, ledger)
        return False

    def _remember(self, conversation: str, known: "_Known") -> None:
        self._known.pop(conversation, None)
        self._known[conversation] = known
        while len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)


def _is_empty(saved: JsonObject) -> bool:
    return not saved["tainted"] and not any(saved.get(name) for name in ("user", "made", "records"))


def _limit(saved: JsonObject) -> JsonObject:
    """Return what is kept of a ledger: the newest words of the user, and the rest unless it is too long."""
    texts: list[str] = []
    chars = 0
    for text in reversed(saved["user"]):
        chars += len(text)
        if chars > MAX_USER_CHARS:
            break
        texts.insert(0, text)
    # The labels of single calls are left out: an artifact of a call without one has that of the session.
    kept = {name: value for name, value in saved.items() if name != "labels"} | {"user": texts}
    if len(json.dumps(kept)) <= MAX_SAVED_CHARS:
        return kept
    return {"label": saved["label"], "tainted": True, "user": texts}
