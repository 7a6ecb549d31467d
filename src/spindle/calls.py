"""Values that travel between the rings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, cast

from jiter import from_json

from spindle.errors import InvalidToolCallRecordError

_ARTIFACT_METHODS = ("head", "tail", "grep", "cat", "byte_length", "line_count")


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class ToolCallRecord:
    """What became of one call of a turn; immutable, and never of a call that is still running.

    Raises:
        InvalidToolCallRecordError: A value is bad or missing; every one of them is named.
    """

    id: str
    """Usually the provider's id of the call."""
    tool: str
    args: Any
    """A mapping, or JSON text of an object; kept as a dict."""
    checksum: str
    is_complete: bool
    is_error: bool
    results: Any
    """Text, an artifact, media, or a tuple of one of these kinds."""
    from_artifact_tool: bool = False
    """Whether a forged reader gave it, so that it cannot be read again."""
    inline: bool = False
    """Whether an artifact is shown whole instead of as a handle."""
    trusted: bool = False
    """Decided when the call was recorded."""
    created_at: datetime = field(default_factory=_now)
    updated_at: datetime = field(default_factory=_now)
    completed_at: datetime = field(default_factory=_now)
    shown: str | None = None
    """What the model saw, where that is only a part of the results."""

    def __post_init__(self) -> None:
        wrong = [name for name in ("id", "tool", "checksum") if not _is_text(getattr(self, name))]
        flags = ("is_complete", "is_error", "from_artifact_tool", "inline", "trusted")
        wrong += [name for name in flags if not isinstance(getattr(self, name), bool)]
        times = ("created_at", "updated_at", "completed_at")
        wrong += [name for name in times if not isinstance(getattr(self, name), datetime)]
        args, results = _args(self.args), _results(self.results)
        wrong += [name for name, value in (("args", args), ("results", results)) if value is None]
        if wrong:
            raise InvalidToolCallRecordError(
                f"a record of {self.tool!r} has bad values: {', '.join(wrong)}; results are text, an artifact, media, "
                "or a list of one of these that is not empty, and args are one object",
                tool=self.tool if _is_text(self.tool) else None,
                field=wrong[0],
            )
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "results", results)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _args(value: object) -> dict[str, Any] | None:
    if isinstance(value, (str, bytes)):
        try:
            value = cast("object", from_json(value.encode() if isinstance(value, str) else value))
        except ValueError:
            return None
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else None


def _results(value: object) -> Any:
    if isinstance(value, (list, tuple)):
        items = tuple(cast("list[object]", value))
        kinds = {_kind(item) for item in items}
        return items if len(kinds) == 1 and None not in kinds else None
    return value if _kind(value) else None


def _kind(value: object) -> str | None:
    """Tell text, media and artifacts apart, the latter by their shape: their rings are further out."""
    if isinstance(value, str):
        return "text"
    if all(callable(getattr(value, name, None)) for name in _ARTIFACT_METHODS):
        return "artifact"
    return "media" if hasattr(value, "trust_tier") and callable(getattr(value, "stream", None)) else None


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
