"""The ledgers of the sessions of one executor; a session that was forgotten stays tainted."""

from collections import OrderedDict
from functools import partial
from threading import Lock
from typing import Final
from weakref import WeakValueDictionary

from spindle.trust.flow.ledger import FlowLedger

MAX_SESSIONS: Final = 1_000
MAX_FORGOTTEN: Final = 100_000
MAX_CHARS: Final = 100_000_000
"""Of the texts of all sessions together."""


class FlowSessions:
    """The ledgers of recent sessions, by session id; safe to use from any thread."""

    def __init__(
        self, max_sessions: int = MAX_SESSIONS, max_forgotten: int = MAX_FORGOTTEN, max_chars: int = MAX_CHARS
    ) -> None:
        self._lock = Lock()
        self._ledgers: OrderedDict[str, FlowLedger] = OrderedDict()
        self._forgotten: OrderedDict[str, None] = OrderedDict()
        self._in_use: WeakValueDictionary[str, FlowLedger] = WeakValueDictionary()
        """Dropped ledgers to which running calls will still add their results."""
        self._max_sessions, self._max_forgotten, self._max_chars = max_sessions, max_forgotten, max_chars
        self._is_full = False

    def get(self, session_id: str) -> FlowLedger:
        """Return the ledger of a session; that of a session whose ledger was dropped is new, and tainted if it was."""
        with self._lock:
            ledger = self._ledgers.pop(session_id, None) or self._in_use.pop(session_id, None)
            is_new = ledger is None
            if ledger is None:
                ledger = FlowLedger()
                if self._is_full or session_id in self._forgotten:
                    ledger.lose_past()
            ledger.on_taint = None
            self._ledgers[session_id] = ledger
            while len(self._ledgers) > self._max_sessions:
                self._drop_oldest()
            if is_new:  # the sizes of a thousand ledgers are added up once for each session
                chars = sum(each.chars for each in self._ledgers.values())
                while chars > self._max_chars and len(self._ledgers) > 1:
                    chars -= self._drop_oldest()
            return ledger

    def find(self, session_id: str) -> FlowLedger | None:
        """Return the ledger of a session, if it is known."""
        return self._ledgers.get(session_id)

    def forget(self, session_id: str) -> None:
        """Forget a session that has ended for good."""
        with self._lock:
            for known in (self._ledgers, self._forgotten, self._in_use):
                known.pop(session_id, None)

    def _drop_oldest(self) -> int:
        """Drop the ledger that was not used for the longest time, and return its size."""
        session_id, ledger = self._ledgers.popitem(last=False)
        if ledger.is_tainted:
            self._note_tainted(session_id)
        ledger.on_taint = partial(self._note_tainted, session_id)
        self._in_use[session_id] = ledger
        return ledger.chars

    def _note_tainted(self, session_id: str) -> None:
        if len(self._forgotten) >= self._max_forgotten:
            self._is_full = True  # forgetting that one was tainted would let its calls run
        else:
            self._forgotten[session_id] = None
