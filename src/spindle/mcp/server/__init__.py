"""The MCP server: offers our tools to MCP clients; open `tool_server.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.mcp.server.http import HttpSettings as HttpSettings
    from spindle.mcp.server.http import http_app as http_app
    from spindle.mcp.server.http_oauth import ResourceServer as ResourceServer
    from spindle.mcp.server.http_page import PageRoute as PageRoute
    from spindle.mcp.server.replicas import Replica as Replica
    from spindle.mcp.server.serve import Gateway as Gateway
    from spindle.mcp.server.serve import serve_http as serve_http
    from spindle.mcp.server.serve import serve_stdio as serve_stdio
    from spindle.mcp.server.shared_records import SharedRecords as SharedRecords
    from spindle.mcp.server.tasks.settings import TaskSettings as TaskSettings
    from spindle.mcp.server.tool_server import ToolServer as ToolServer
else:
    __getattr__, __dir__ = open_door(__name__)
