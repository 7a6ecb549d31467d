"""The MCP client: registers the tools of upstream MCP servers as our own; open `servers.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.mcp.client.lifecycle import ServerStatus as ServerStatus
    from spindle.mcp.client.servers import McpServers as McpServers
    from spindle.mcp.client.task_ledger import TaskLedger as TaskLedger
else:
    __getattr__, __dir__ = open_door(__name__)
