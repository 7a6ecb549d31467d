"""How long a tool's results may be given again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """Keep a tool's good results for a while; `Tool(cache=True)` means the defaults."""

    ttl_seconds: float = 300
    scope: Literal["session", "turn", "global"] = "session"
    key: Callable[[Any], str] | None = None
    """Makes the key from the validated arguments; without it, their checksum."""
