"""The port of an engine that runs turns on its workers, and what a turn keeps about its run there.

The journal has the state of the turn. The engine only knows the id of the run, the id of the turn, and how far it is:
it calls `TurnRunner.advance` on a worker again and again, and waits while the turn waits for answers.
"""

from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import Final, Literal, Protocol, TypeAlias

from spindle.json_types import JsonObject, JsonValue, is_object

MAX_STARTS: Final = 5
"""How many workers may die in one iteration of a turn until it fails: it must not kill all of them."""

_MAX_ID_CHARS: Final = 200


TurnRest: TypeAlias = Literal["ended", "suspended", "lost"]
"""Why a turn does not go on: `lost` if the engine does not run it any more although it has not ended."""


class TurnEngine(Protocol):
    """An engine, seen by a runner that starts turns. All methods may be repeated.

    All of them raise `EngineUnavailableError` if the engine cannot be reached.
    """

    async def start(self, run_id: str, turn_id: str) -> None:
        """Start the run of a saved turn; do nothing if the engine knows its id."""
        ...

    async def wait(self, run_id: str, *, after: int) -> TurnRest:
        """Wait until the turn has ended, or was suspended at a step later than `after`."""
        ...

    async def answer(self, run_id: str, *, step: int) -> None:
        """Let a suspended turn go on: at `step`, the journal has its answers."""
        ...

    async def cancel(self, run_id: str) -> None:
        """Ask for the turn to be aborted; a turn that has ended stays as it is."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineRun:
    """The run of a turn on an engine, as the turn's state has it."""

    id: str
    """Names the run on the engine; a turn that has failed and is resumed gets a new run."""
    stage: Literal["turn-input", "dispatch"]
    """Where the turn goes on; its input pipeline runs once."""
    started_at: str
    counted_from: str
    """When the turn was started or resumed, from where its time limit counts."""
    starts: int = 0
    """How often the current iteration was started; workers that died have started it, too."""

    @classmethod
    def create(cls, turn_id: str, *, stage: Literal["turn-input", "dispatch"]) -> "EngineRun":
        """Create the first run of a turn; the id is new, because other journals may have a turn of the same name."""
        now = datetime.now(UTC).isoformat()
        run_id = f"spindle-turn-{turn_id[:_MAX_ID_CHARS]}-{token_hex(8)}"
        return cls(id=run_id, stage=stage, started_at=now, counted_from=now)

    @classmethod
    def read(cls, state: JsonObject) -> "EngineRun | None":
        """Return the run that a state names, or `None`."""
        plain: JsonValue = state.get("engine")
        return cls(**{each.name: plain[each.name] for each in fields(cls)}) if is_object(plain) else None

    @classmethod
    def resume(cls, state: JsonObject, status: str) -> "EngineRun":
        """Return the run in which a turn goes on: that of its state, or a new one if that has ended or is none."""
        known, turn_id = cls.read(state), state["turn_id"]
        if known is None:
            return cls.create(turn_id, stage="dispatch")
        fresh = cls.create(turn_id, stage=known.stage)
        run_id = fresh.id if status == "failed" else known.id
        return replace(known, id=run_id, counted_from=fresh.counted_from, starts=0)

    @property
    def is_resumed(self) -> bool:
        """Whether the turn was resumed since it was started."""
        return self.counted_from != self.started_at

    def to_json(self) -> JsonObject:
        """Return the run as JSON."""
        return asdict(self)

    def count_seconds(self) -> float:
        """Return the time since the turn was started or resumed, by the clocks of two machines."""
        return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(self.counted_from)).total_seconds())
