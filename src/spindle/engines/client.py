"""The port of an engine for callers: start a call by its id, wait for its answer, cancel it."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from spindle.json_types import JsonObject

AnswerStatus: TypeAlias = Literal["finished", "cancelled", "timed_out", "lost", "refused"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineCall:
    """One call for an engine: its id, its task queue and its message, which is small JSON."""

    id: str
    """Names the call on the engine; a second start with the same id is the same call."""
    queue: str
    message: JsonObject
    seconds_left: float | None
    summary: str
    """A name for people who look at the engine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineAnswer:
    """How a call ended on the engine."""

    status: AnswerStatus
    """`finished` with a message; `lost` if the engine gave up the call; `refused` if it never accepted it."""
    message: JsonObject | None = None


class EngineClient(Protocol):
    """An engine, seen by a caller. All methods run on one asyncio event loop and may be repeated.

    All of them raise `EngineUnavailableError` if the engine cannot be reached. Any other exception of `start` means
    that the engine refused the call.
    """

    async def connect(self) -> None:
        """Connect for the first time."""
        ...

    async def start(self, call: EngineCall) -> None:
        """Start a call; do nothing if the engine knows its id."""
        ...

    async def wait(self, call_id: str) -> EngineAnswer:
        """Wait until a call has ended."""
        ...

    async def cancel(self, call_id: str) -> None:
        """Ask for the cancellation of a call; a call that has ended stays as it is."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...
