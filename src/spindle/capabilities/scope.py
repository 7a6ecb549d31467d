"""For whom a backend opens a handle."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class CallScope:
    """The call a handle is opened for."""

    tool: str
    session_id: str
    turn_id: str | None = None
    toolset: str | None = None
    """Its tools share their storage."""
    spool: Any = None
    events: Any = None
    attachments: tuple[Any, ...] = ()
    """What the user sent with the turn."""
    redactor: Any = None
    """Is told every secret that is handed out, to mask it wherever it turns up."""
