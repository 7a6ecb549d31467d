"""How long a tool's results may be given again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from spindle.errors import InvalidToolError

CacheScope: TypeAlias = Literal["session", "turn", "global"]


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """Keep a tool's good results for a while; `Tool(cache=True)` means the defaults.

    Raises:
        InvalidToolError: A value is not of its kind.
    """

    ttl_seconds: float = 300
    scope: CacheScope = "session"
    key: Callable[[Any], str] | None = None
    """Makes the key from the validated arguments; without it, their checksum."""

    def __post_init__(self) -> None:
        if not _is_time(self.ttl_seconds):
            raise _wrong("ttl_seconds must be a number of seconds above 0", self.ttl_seconds)
        if self.scope not in get_args(CacheScope):
            raise _wrong(f"scope must be one of {', '.join(get_args(CacheScope))}", self.scope)
        if self.key is not None and not callable(self.key):
            raise _wrong("key must be a function of the arguments", self.key)


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0  # which NaN is not


def _wrong(rule: str, value: object) -> InvalidToolError:
    return InvalidToolError(f"CachePolicy: {rule}, got {value!r}", field="cache")
