"""Value types shared by all packages: calls, their results and outcomes, and the records a turn keeps of them."""

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
    """The immutable record of one finished call of a turn.

    Raises:
        InvalidToolCallRecordError: A value is invalid or missing; the message names all of them.
    """

    id: str
    """Usually the provider's id of the call."""
    tool: str
    args: Any
    """A mapping, or the JSON text of an object; stored as a dict."""
    checksum: str
    is_complete: bool
    is_error: bool
    results: Any
    """Text, an artifact, media, or a tuple of one of these kinds."""
    from_artifact_tool: bool = False
    """Whether a forged artifact reader returned it; no further readers are forged for such a result."""
    inline: bool = False
    """Whether an artifact is shown in full instead of as a handle."""
    trusted: bool = False
    """Fixed when the call is recorded."""
    created_at: datetime = field(default_factory=_now)
    updated_at: datetime = field(default_factory=_now)
    completed_at: datetime = field(default_factory=_now)
    shown: str | None = None
    """The text the model saw, if that is only a part of the results."""

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
                f"Invalid values in the record of tool {self.tool!r}: {', '.join(wrong)}. Expected results as text, an "
                "artifact, media, or a non-empty list of one of these, and args as one JSON object.",
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
    """Classify a result; media and artifacts are recognized by their methods, since outer rings cannot be imported."""
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
"""A call's arguments as received: a mapping, or the provider's JSON text."""


@dataclass(frozen=True, slots=True)
class Call:
    """A model's request to run the tool `name` with `args`."""

    tool_call_id: str
    """The provider's id; copied into the outcome."""
    name: str
    args: RawArgs = None


@dataclass(frozen=True, slots=True)
class Ok:
    """The result of a successful call."""

    value: str = ""
    """The text shown to the model."""
    structured: Any = None
    media: tuple[Any, ...] = ()
    artifact: Any = None
    """The full result, if `value` shows only a part of it."""
    cost_usd: float | None = None
    trusted: bool = False

    @property
    def ok(self) -> Literal[True]:
        """Always true."""
        return True


@dataclass(frozen=True, slots=True)
class Err:
    """A failed call: a code for programs and a message for the model."""

    code: ErrCode
    error: str
    """Shown to the model; wording may change. Programs use `code`."""
    field: str | None = None
    retryable: bool = False
    cause: Any = None

    @property
    def ok(self) -> Literal[False]:
        """Always false."""
        return False


@dataclass(frozen=True)
class CallOutcome:
    """The outcome of one call; each call has exactly one."""

    tool_call_id: str
    name: str
    checksum: str
    """Equal for equal calls; computed on first access."""
    result: Ok | Err
    duration_ms: float = 0.0
    attempts: int = 1
    """Number of times the handler was started; 0 if it never was."""
    from_artifact_tool: bool = field(default=False, repr=False)
    """Whether a forged artifact reader returned this; no further readers are forged for it."""
    args: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)
    """The parsed arguments; empty if they could not be parsed."""

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.result.ok

    def to_record(self) -> ToolCallRecord:
        """Build the record that a turn keeps of this call."""
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
    def with_lazy_checksum(cls, compute_checksum: Callable[[], str], **facts: Any) -> "CallOutcome":
        """Build an outcome whose checksum is computed on first access."""
        outcome = object.__new__(cls)
        facts["_make_checksum"] = compute_checksum
        vars(outcome).update(facts)
        return outcome

    def __getattr__(self, name: str) -> Any:
        if name != "checksum":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        vars(self)["checksum"] = made = vars(self).pop("_make_checksum")()
        return made

    def __getstate__(self) -> dict[str, Any]:
        self.checksum  # noqa: B018  computed now, because its closure does not pickle
        return vars(self).copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
