"""The record of one completed call, as a turn keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

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
