"""The settings of tasks."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spindle.errors import UsageError
from spindle.json_types import untyped

if TYPE_CHECKING:
    from spindle.journal.journal import Journal
    from spindle.mcp.client.task_ledger import TaskLedger

AFTER_SECONDS: Final = 20.0
TTL_SECONDS: Final = 86_400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskSettings:
    """When a call becomes a task, and where and how long tasks are kept.

    Raises:
        UsageError: A number of seconds is negative or not finite, or `ttl_seconds` is 0.
    """

    after_seconds: float = AFTER_SECONDS
    """A call that takes longer becomes a task for a client of the newer protocol; 0 makes every call one at once."""
    ttl_seconds: float = TTL_SECONDS
    """The longest time that a task is kept, from its creation; a client of the older protocol may ask for less."""
    journal: "Journal | None" = None
    """Where tasks are kept; without one they are lost with the process."""
    upstream: "TaskLedger | None" = None
    """The tasks of upstream servers, so that a call which waits for one can go on after a restart."""

    def __post_init__(self) -> None:
        for name in ("after_seconds", "ttl_seconds"):
            value = untyped(getattr(self, name))
            is_valid = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf
            if not is_valid or (name == "ttl_seconds" and value == 0):
                raise UsageError(f"{name} must be a number of seconds, got {value!r:.80}", field=name)


DEFAULT_TASKS: Final = TaskSettings()
