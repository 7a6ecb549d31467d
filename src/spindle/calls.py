"""Values that travel between the rings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from spindle.records import ToolCallRecord

ErrCode: TypeAlias = Literal[
    "input_invalid",
    "not_available",
    "execution_failed",
    "stale_write",
    "denied",
    "needs_approval",
    "timed_out",
    "cancelled",
    "interrupted",
]

RawArgs: TypeAlias = Mapping[str, Any] | str | bytes | None
"""A call's arguments as they arrive: a mapping, or the provider's JSON text."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a model: run the tool `name` with `args`."""

    tool_call_id: str
    """The provider's id; the outcome carries it back."""
    name: str
    args: RawArgs = None


@dataclass(frozen=True, slots=True)
class Ok:
    """What a call gave."""

    value: str = ""
    """The text the model sees."""
    structured: Any = None
    media: tuple[Any, ...] = ()
    artifact: Any = None
    """The whole result, when `value` shows only a part of it."""
    cost_usd: float | None = None
    trusted: bool = False

    @property
    def ok(self) -> Literal[True]:
        """Always true."""
        return True


@dataclass(frozen=True, slots=True)
class Err:
    """Why a call has no result."""

    code: ErrCode
    error: str
    """For the model; may be reworded. Programs look at `code`."""
    field: str | None = None
    retryable: bool = False
    cause: Any = None

    @property
    def ok(self) -> Literal[False]:
        """Always false."""
        return False


@dataclass(frozen=True)
class CallOutcome:
    """What became of one call; there is exactly one for each."""

    tool_call_id: str
    name: str
    checksum: str
    """The same call always has the same one; made when someone looks."""
    result: Ok | Err
    duration_ms: float = 0.0
    attempts: int = 1
    """How often the handler was started; 0 when it never was."""
    from_artifact_tool: bool = field(default=False, repr=False)
    """Whether a forged reader gave this, so that it is not read again."""
    args: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)
    """The call's arguments, parsed; empty where they could not be."""

    @property
    def ok(self) -> bool:
        """Whether the call gave a result."""
        return self.result.ok

    def to_record(self) -> ToolCallRecord:
        """Make the record a turn keeps of this call."""
        result = self.result
        facts: dict[str, Any] = {
            "id": self.tool_call_id or "call",
            "tool": self.name,
            "args": self.args,
            "checksum": self.checksum,
            "is_complete": True,
            "from_artifact_tool": self.from_artifact_tool,
        }
        if isinstance(result, Err):
            return ToolCallRecord(**facts, is_error=True, results=result.error, inline=True)
        facts |= {"is_error": False, "trusted": result.trusted}
        if result.artifact is not None:
            return ToolCallRecord(**facts, results=result.artifact, shown=result.value)
        if result.media:
            return ToolCallRecord(**facts, results=result.media, shown=result.value)
        return ToolCallRecord(**facts, results=result.value, inline=True)

    @classmethod
    def with_lazy_checksum(cls, make: Callable[[], str], **facts: Any) -> "CallOutcome":
        """Make an outcome whose checksum is worked out on first look."""
        outcome = object.__new__(cls)
        facts["_make_checksum"] = make
        vars(outcome).update(facts)
        return outcome

    def __getattr__(self, name: str) -> Any:
        if name != "checksum":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        vars(self)["checksum"] = made = vars(self).pop("_make_checksum")()
        return made

    def __getstate__(self) -> dict[str, Any]:
        self.checksum  # noqa: B018  a closure would not pickle
        return vars(self).copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
