"""What is known of an upstream server, for people and for `spindle doctor`."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

ServerState: TypeAlias = Literal["idle", "starting", "ready", "failed", "stopped"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerStatus:
    """One upstream server, now."""

    name: str
    state: ServerState
    required: bool
    tools: int
    """How many of its tools are registered."""
    error: str | None = None
    """Why it last failed; gone when it is ready again."""
    restarts: int = 0
    """How often it was started again after it had been ready."""
    protocol_version: str | None = None
