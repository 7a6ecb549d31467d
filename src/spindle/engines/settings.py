"""Settings of an engine: its address, its task queues by toolset, and how long a silent worker keeps its calls."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from spindle.addresses import get_scheme
from spindle.errors import UsageError
from spindle.tools.declaration import Tool

EngineName: TypeAlias = Literal["temporal", "dbos"]

DEFAULT_QUEUE = "spindle"
MAX_STARTS = 3
"""How often the body of a repeatable call is started in all: one that kills its workers must not kill all of them."""

_SCHEMES: Mapping[str, EngineName] = {"temporal": "temporal", "dbos+postgresql": "dbos", "dbos+postgres": "dbos"}


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """Where calls run, for callers and workers alike.

    Raises:
        UsageError: A setting is invalid.
    """

    url: str
    """`temporal://host:port/namespace` or `dbos+postgresql://user@host/database`."""
    task_queues: Mapping[str, str] = field(default_factory=dict[str, str])
    """The task queue of each toolset."""
    default_queue: str | None = DEFAULT_QUEUE
    """The task queue of other tools; `None` runs them in the process of the caller."""
    worker_timeout_seconds: float = 15.0
    """After this time without a heartbeat, a worker counts as dead and others take over its calls."""
    connect_seconds: float = 10.0
    """How long the first call waits for an engine that cannot be reached."""
    retention_seconds: float = 86_400.0
    """How long the engine keeps a call after its end at least; for Temporal, the retention of its namespace."""
    api_key: str | None = field(default=None, repr=False)
    """The API key of a Temporal service; with one, the connection uses TLS."""

    def __post_init__(self) -> None:
        if get_scheme(self.url) not in _SCHEMES:
            expected = "temporal://host:port or dbos+postgresql://user@host/database"
            raise UsageError(f"The URL of an engine must be {expected}", field="url")
        for name in ("worker_timeout_seconds", "connect_seconds", "retention_seconds"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise UsageError(f"{name} must be a number above 0, got {value!r}", field=name)
        for queue in (*self.task_queues.values(), self.default_queue):
            if queue is not None and (not queue or queue.startswith("_")):
                raise UsageError(f"A task queue needs a name that does not begin with _, got {queue!r}", field="queue")

    @property
    def engine(self) -> EngineName:
        """The engine that the URL names."""
        return _SCHEMES[get_scheme(self.url) or ""]

    @property
    def queues(self) -> tuple[str, ...]:
        """All task queues, the default one first."""
        first = () if self.default_queue is None else (self.default_queue,)
        return tuple(dict.fromkeys((*first, *self.task_queues.values())))

    def find_queue(self, toolset: str | None) -> str | None:
        """Return the task queue of a toolset, or `None` if its tools run in the process of the caller."""
        return self.task_queues.get(toolset or "", self.default_queue)

    def get_turn_queue(self, name: str) -> str:
        """Return the task queue of the turns of a runner; each has one, so that only workers that know it take them."""
        return f"{self.default_queue or DEFAULT_QUEUE}-turns-{name}"

    def runs_on_engine(self, tool: Tool) -> bool:
        """Return whether calls of a tool run on the engine.

        Tools that exist for one turn only, and tools that read the attachments of a batch, stay with the caller.
        """
        is_local = tool.ephemeral or tool.is_artifact_reader or tool.capabilities.attachments is not None
        return not is_local and self.find_queue(tool.toolset) is not None
