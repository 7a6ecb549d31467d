"""Value types shared by all packages: calls, their results and outcomes, and the records a turn keeps of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import field as dataclass_field  # `Err` has a field of that name
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from jiter import from_json

from spindle.errors import InvalidToolCallRecordError
from spindle.json_types import JsonObject, JsonValue, is_list_or_tuple, is_mapping, untyped

if TYPE_CHECKING:
    from spindle.media import Media


NO_NAME: Final = "(no name)"
"""The tool in the record of a call that came without a name."""

Label: TypeAlias = Literal["trusted", "first-party", "third-party-public", "third-party-private"]
"""Instructions in `trusted` content may be followed. `first-party` is the application's own data; the third-party
labels are for outside content, public or private. All labels but the first are also the trust tiers of `Media`."""

LABELS: Final[tuple[Label, ...]] = get_args(Label)
"""From most to least trusted."""


@runtime_checkable
class ArtifactShape(Protocol):
    """The methods that a tool's `artifact_constructor` must have."""

    async def head(self, n: int = 10) -> list[str]:
        """Return the first lines."""
        ...

    async def tail(self, n: int = 10) -> list[str]:
        """Return the last lines, in order."""
        ...

    async def grep(self, pattern: str, flags: str = "") -> Sequence[object]:
        """Return the lines that match a regular expression."""
        ...

    async def cat(self, start: int | None = None, end: int | None = None) -> list[str]:
        """Return a half-open range of lines."""
        ...

    async def byte_length(self) -> int:
        """Return the size in bytes."""
        ...

    async def line_count(self) -> int:
        """Return the number of lines."""
        ...

    async def estimate_tokens(self) -> int:
        """Return about how many tokens the content has."""
        ...


@runtime_checkable
class ArtifactLike(ArtifactShape, Protocol):
    """The methods that every artifact has; an object with all of them is an artifact."""

    async def as_text(self) -> str:
        """Return the full content."""
        ...


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
    args: JsonValue
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
    code: "ErrCode | None" = None
    """The code of the error; `None` if the call succeeded."""
    by: "ErrBy | None" = None
    """Who wrote the error; `None` if the call succeeded. An error that the tool wrote is shown as untrusted content."""
    raw_args: str | None = None
    """The arguments as the model sent them, redacted, if they could not be read; `args` is then empty."""
    media: "tuple[Media, ...]" = ()
    """Media beside a text that is kept as an artifact; media alone, or beside a text that is shown, are `results`."""
    label: Label | None = None
    """The trust label of the results; `None` for errors, and in records of earlier versions."""

    def __post_init__(self) -> None:
        wrong = [name for name in ("id", "tool", "checksum") if not _is_text(getattr(self, name))]
        flags = ("is_complete", "is_error", "from_artifact_tool", "inline", "trusted")
        wrong += [name for name in flags if not isinstance(getattr(self, name), bool)]
        times = ("created_at", "updated_at", "completed_at")
        wrong += [name for name in times if not isinstance(getattr(self, name), datetime)]
        wrong += [name for name in ("code", "by", "raw_args") if not _is_text_or_none(getattr(self, name))]
        wrong += ["label"] if self.label not in (None, *LABELS) else []
        media = tuple(self.media) if is_list_or_tuple(untyped(self.media)) else (None,)
        wrong += ["media"] if any(_kind(each) != "media" for each in media) else []
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
        object.__setattr__(self, "media", media)
        object.__setattr__(self, "results", results)

    @classmethod
    def from_outcome(cls, outcome: "CallOutcome", *, id: str | None = None) -> "ToolCallRecord":
        """Build the record of a call from its outcome; `id` replaces the call's own id."""
        result = outcome.result
        facts: dict[str, Any] = {
            "id": id or outcome.tool_call_id or "call",
            "tool": outcome.name or NO_NAME,
            "args": outcome.args,
            "checksum": outcome.checksum,
            "is_complete": True,
            "from_artifact_tool": outcome.from_artifact_tool,
            "raw_args": outcome.raw_args,
        }
        if isinstance(result, Err):
            facts |= {"is_error": True, "code": result.code, "by": result.by}
            return cls(**facts, results=result.error, inline=True)
        facts |= {"is_error": False, "trusted": result.trusted, "label": result.label}
        if result.artifact is not None:
            return cls(**facts, results=result.artifact, shown=result.value, media=tuple(result.media))
        if result.media:
            results = result.media[0] if isinstance(result.media, SingleMedia) else result.media
            return cls(**facts, results=results, shown=result.value)
        return cls(**facts, results=result.value, inline=True)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _args(value: object) -> dict[object, object] | None:
    if isinstance(value, (str, bytes)):
        try:
            value = untyped(from_json(value.encode() if isinstance(value, str) else value))
        except ValueError:
            return None
    return dict(value) if is_mapping(value) else None


def _results(value: object) -> object:
    if is_list_or_tuple(value):
        items = tuple(value)
        kinds = {_kind(item) for item in items}
        return items if len(kinds) == 1 and None not in kinds else None
    return value if _kind(value) else None


def _kind(value: object) -> str | None:
    """Classify a result; media are recognized by their members, because loading their module takes long."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, ArtifactLike) and not isinstance(value, type):
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

ErrBy: TypeAlias = Literal["spindle", "tool"]

RawArgs: TypeAlias = Mapping[str, JsonValue] | str | bytes | None
"""A call's arguments as received: a mapping, or the provider's JSON text."""


@dataclass(frozen=True, slots=True)
class Call:
    """A model's request to run the tool `name` with `args`."""

    tool_call_id: str
    """The provider's id; copied into the outcome."""
    name: str
    args: RawArgs = None


def build_media_markers(media: "Iterable[Media]") -> str:
    """Return the text that stands for media in a result, one line for each."""
    return "\n".join([f"[media id: {each.id} | {each.safe_filename}]" for each in media])


class SingleMedia(tuple[Any, ...]):
    """The media of a handler that returned one `Media` instead of a list; it is recorded as one."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Ok:
    """The result of a successful call."""

    value: str = ""
    """The text shown to the model."""
    structured: JsonValue = None
    media: "tuple[Media, ...]" = ()
    artifact: ArtifactLike | None = None
    """The full result, if `value` shows only a part of it."""
    cost_usd: float | None = None
    trusted: bool = False
    ok: ClassVar[Literal[True]] = True
    """Always true; `result.ok is True` narrows `Ok | Err` to `Ok`."""
    wire: Mapping[str, JsonValue] | None = dataclass_field(default=None, kw_only=True, compare=False, repr=False)
    """What an MCP server sent beyond text and media, for MCP clients: its content blocks and its `_meta`."""
    label: Label | None = dataclass_field(default=None, kw_only=True, compare=False, repr=False)
    """The trust label, set by the executor; a handler can lower it below its tool's, but not raise it."""


@dataclass(frozen=True, slots=True)
class Err:
    """A failed call: a code for programs and a message for the model."""

    code: ErrCode
    error: str
    """Shown to the model; wording may change. Programs use `code`."""
    field: str | None = None
    retryable: bool = False
    cause: object = None
    """Usually the exception; not shown to the model."""
    ok: ClassVar[Literal[False]] = False
    """Always false; `result.ok is False` narrows `Ok | Err` to `Err`."""
    by: ErrBy = dataclass_field(default="tool", kw_only=True, compare=False)
    """Who wrote `error`; set by the executor, whatever a handler returns.

    A handler's own `Err`, exposed exception texts and the texts of checks are the tool's: untrusted for the model.
    """
    ticket: str | None = dataclass_field(default=None, kw_only=True, compare=False, repr=False)
    """With `needs_approval`: the ticket with which `Executor.resume` answers for a person, if there is a journal."""
    reason: str | None = dataclass_field(default=None, kw_only=True)
    """With `denied` and the field `ticket`: why the ticket was refused."""


class _LazyText:
    """A text attribute that may be stored as a function, which is called when the text is first read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> str:
        if instance is None:
            raise AttributeError(self._name)  # a dataclass reads it as "no default"
        values = vars(instance)
        value: str | Callable[[], str] = values[self._name]
        if not isinstance(value, str):
            value = values[self._name] = value()
        return value

    def __set__(self, instance: object, value: str | Callable[[], str]) -> None:
        vars(instance)[self._name] = value  # with `__set__`, Python asks `__get__` before the instance


@dataclass(frozen=True, init=False)
class CallOutcome:
    """The outcome of one call; each call has exactly one."""

    tool_call_id: str
    name: str
    checksum: str
    """Equal for equal calls; computed on first access."""
    if not TYPE_CHECKING:
        checksum = _LazyText()  # type checkers would read it as a default
    result: Ok | Err
    duration_ms: float = 0.0
    attempts: int = 1
    """Number of times the handler was started; 0 if it never was."""
    from_artifact_tool: bool = field(default=False, repr=False)
    """Whether a forged artifact reader returned this; no further readers are forged for it."""
    args: Mapping[str, JsonValue] = field(default_factory=JsonObject, repr=False, compare=False)
    """The parsed arguments; empty if they could not be parsed."""
    raw_args: str | None = field(default=None, repr=False, compare=False)
    """The arguments as they were sent, redacted, if they could not be parsed."""

    def __init__(  # noqa: PLR0917  as published
        self,
        tool_call_id: str,
        name: str,
        checksum: str | Callable[[], str],
        result: Ok | Err,
        duration_ms: float = 0.0,
        attempts: int = 1,
        from_artifact_tool: bool = False,  # noqa: FBT001, FBT002  as published
        args: Mapping[str, JsonValue] | None = None,
        raw_args: str | None = None,
    ) -> None:
        """`checksum` may be a function, which is called when the checksum is first read."""
        # All at once, because every call has an outcome: setting a frozen class's attributes one by one takes longer.
        values: dict[str, object] = {
            "tool_call_id": tool_call_id,
            "name": name,
            "checksum": checksum,
            "result": result,
            "duration_ms": duration_ms,
            "attempts": attempts,
            "from_artifact_tool": from_artifact_tool,
            "args": {} if args is None else args,
            "raw_args": raw_args,
        }
        object.__setattr__(self, "__dict__", values)

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.result.ok

    def to_record(self) -> ToolCallRecord:
        """Build the record that a turn keeps of this call; `ToolCallRecord.from_outcome` does the same."""
        return ToolCallRecord.from_outcome(self)

    def __getstate__(self) -> Mapping[str, object]:
        return vars(self) | {"checksum": self.checksum}  # the function that computes it does not pickle
