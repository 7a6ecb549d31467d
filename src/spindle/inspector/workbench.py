"""What the page may use of a running server."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.artifacts.spool import Spool
from spindle.events import Events
from spindle.execution.executor import Executor
from spindle.execution.tickets import TicketOffice
from spindle.inspector.artifact_shelf import ArtifactShelf
from spindle.inspector.health_monitor import HealthMonitor
from spindle.inspector.tool_checks import ToolChecks
from spindle.inspector.trials import Trials
from spindle.journal.journal import Journal
from spindle.json_types import JsonObject
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from spindle import mcp
    from spindle.trust.flow.policy import FlowPolicy
    from spindle.trust.labels import SinkPolicy


def _allow_all(_profile: str | None) -> ToolFilter | None:
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Workbench:
    """The parts of a running server that the page shows and uses."""

    registry: ToolRegistry
    executor: Executor
    journal: Journal
    spool: Spool
    events: Events = field(default_factory=Events)
    servers: "mcp.McpServers | None" = None
    """`None` if no upstream server is configured."""
    tickets: TicketOffice | None = None
    """`None` where calls cannot wait for approval."""
    policy: "FlowPolicy | SinkPolicy | None" = None
    get_filter: Callable[[str | None], ToolFilter | None] = _allow_all
    """Returns the tool filter of a profile."""
    get_health: Callable[[], Mapping[str, object]] = dict
    """Returns what /health answers."""
    count_running: Callable[[], int] = int
    """Returns how many calls of clients are in progress."""
    count_sessions: Callable[[], int] = int
    """Returns how many clients are connected."""
    measure_stores: Callable[[], Awaitable[JsonObject]] | None = None
    """Returns the sizes of the spool and of the journal."""
    find_sandbox: Callable[[], JsonObject] | None = None
    """Returns how commands of tools are confined; it blocks."""
    retention: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    """The limits of the spool: `max_bytes`, `max_age_days`."""
    monitor: HealthMonitor = field(default_factory=HealthMonitor)
    journal_file: Path | None = None
    """The file of the journal; `None` if it is elsewhere."""
    lint_ignore: tuple[str, ...] = ()
    """Rules that `[lint]` ignores."""
    checks: ToolChecks = field(default_factory=ToolChecks)
    """Prices and lint findings of the tools."""
    trials: Trials = field(default_factory=Trials)
    """The calls that are made on the page."""
    profiles: tuple[str, ...] = ()
    """The names of the configured profiles."""
    examples: Mapping[str, tuple[JsonObject, ...]] = field(default_factory=dict[str, tuple[JsonObject, ...]])
    """Tool → arguments that work here, such as the path of a sample."""
    is_fenced: bool = True
    """Whether MCP clients get results in a fence."""
    is_structured: bool = True
    """Whether MCP clients get structured content."""
    name: str = "spindle"
    version: str = ""
    artifacts: ArtifactShelf = field(init=False, repr=False)
    """The spool, with what the page knows of open artifacts."""

    def __post_init__(self) -> None:
        """Open the spool for the page."""
        object.__setattr__(self, "artifacts", ArtifactShelf(self.spool))
