"""Calls of MCP clients as tasks, kept in the journal: created, polled, answered, cancelled; open `service.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.mcp.server.tasks.settings import TaskSettings as TaskSettings
    from spindle.mcp.server.tasks.state import TaskState as TaskState
else:
    __getattr__, __dir__ = open_door(__name__)
