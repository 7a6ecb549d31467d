"""What a context knows about information flow: the ledger of its session, and reasons to ask about its call."""

from typing import Final

from spindle.errors import InvalidContextError
from spindle.text import to_line
from spindle.trust.flow.ledger import FlowLedger
from spindle.trust.labels import Label

_MAX_REASON_CHARS: Final = 400


class _Session:
    """The ledger that the contexts of one session share."""

    __slots__ = ("has_past", "id", "ledger")

    def __init__(self, ledger: FlowLedger) -> None:
        self.ledger = ledger
        self.id: str | None = None
        self.has_past = True


class ContextFlow:
    """The information flow of a session, as one context sees it; `ToolContext.flow`."""

    __slots__ = ("_session", "inner_label", "reasons")

    def __init__(self, session: _Session | None = None) -> None:
        self._session = _Session(FlowLedger()) if session is None else session
        self.reasons: list[str] = []
        """Why a person must approve the call of this context, besides the policy."""
        self.inner_label: Label = "trusted"
        """The least trusted label of what the handler of this call received from calls of its own."""

    @property
    def ledger(self) -> FlowLedger:
        """What was said and returned in the session, each with its label."""
        return self._session.ledger

    @property
    def session_id(self) -> str | None:
        """The session whose ledger judges the calls; `None` for that of the context's own `session_id`."""
        return self._session.id

    @session_id.setter
    def session_id(self, session_id: str) -> None:
        self._session.id = session_id

    @property
    def has_past(self) -> bool:
        """Whether the journal may know earlier calls of the session."""
        return self._session.has_past

    def begin_session(self, session_id: str) -> None:
        """Judge the calls by the ledger of a session that begins now, whatever the journal knows of the context's."""
        self._session.id, self._session.has_past = session_id, False

    def add_user_text(self, text: str) -> None:
        """Add words of the user, outside a turn or from a tool that asked the user; they vouch for the values in them.

        Raises:
            InvalidContextError: It is not text.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
            raise InvalidContextError(f"add_user_text: expected text, got {type(text).__name__}.", field="text")
        self.ledger.add_user_text(text)

    def require_approval(self, reason: str) -> None:
        """Let a person approve the call before it runs; for interceptors and checks, which run before the handler.

        Raises:
            InvalidContextError: The reason is not text, or empty.
        """
        if not isinstance(reason, str) or not reason.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidContextError("require_approval: expected a sentence that says why.", field="reason")
        self.reasons.append(to_line(reason)[:_MAX_REASON_CHARS])

    def bind(self, ledger: FlowLedger) -> None:
        """Move to the ledger of the session, and bring along what this one knew."""
        own = self.ledger
        if own is ledger:
            return
        self._session.ledger = ledger
        ledger.absorb(own)

    def for_call(self) -> "ContextFlow":
        """Return the flow of one call in this context."""
        return ContextFlow(self._session)
