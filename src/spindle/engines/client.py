"""The ports of an engine for callers: start a call or a turn by its id, wait for its answer, cancel it."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from spindle.json_types import JsonObject
from spindle.turns.engine import TurnRest

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


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineTurn:
    """One run of a turn for an engine: its id, its task queue, and its message, which names the turn in the journal."""

    id: str
    """Names the run on the engine; a second start with the same id is the same run."""
    queue: str
    message: JsonObject
    summary: str
    """A name for people who look at the engine."""


class TurnClient(EngineClient, Protocol):
    """An engine that also runs turns, seen by a caller; the rules are those of `EngineClient`."""

    async def start_turn(self, turn: EngineTurn) -> None:
        """Start the run of a turn; do nothing if the engine knows its id."""
        ...

    async def wait_turn(self, run_id: str, after: int) -> TurnRest:
        """Wait until a turn has ended, or was suspended at a step later than `after`."""
        ...

    async def answer_turn(self, run_id: str, step: int) -> None:
        """Let a turn go on that was suspended before `step`; any other stays as it is."""
        ...

    async def cancel_turn(self, run_id: str) -> None:
        """Ask for a turn to be aborted; one that has ended stays as it is."""
        ...
