"""Values that travel between the rings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

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
