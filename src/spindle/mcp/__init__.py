"""MCP client and server: use the tools of other servers (`client/`), and serve our own (`server/`)."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.mcp.client.confinement import ServerReach as ServerReach
    from spindle.mcp.client.lifecycle import Clock as Clock
    from spindle.mcp.client.servers import McpServers as McpServers
    from spindle.mcp.client.task_ledger import TaskLedger as TaskLedger
    from spindle.mcp.client.tools import make_tool as make_tool
    from spindle.mcp.client_requests import ListRoots as ListRoots
    from spindle.mcp.client_requests import Root as Root
    from spindle.mcp.client_requests import Sampled as Sampled
    from spindle.mcp.client_requests import Sampling as Sampling
    from spindle.mcp.client_requests import ask_all as ask_all
    from spindle.mcp.client_requests import can_ask as can_ask
    from spindle.mcp.client_requests import roots as roots
    from spindle.mcp.client_requests import sample as sample
    from spindle.mcp.server.http import HttpSettings as HttpSettings
    from spindle.mcp.server.http import http_app as http_app
    from spindle.mcp.server.replicas import Replica as Replica
    from spindle.mcp.server.serve import Gateway as Gateway
    from spindle.mcp.server.serve import serve_http as serve_http
    from spindle.mcp.server.serve import serve_stdio as serve_stdio
    from spindle.mcp.server.sessions import Caller as Caller
    from spindle.mcp.server.shared_records import SharedRecords as SharedRecords
    from spindle.mcp.server.tasks.settings import TaskSettings as TaskSettings
    from spindle.mcp.server.tool_server import ToolServer as ToolServer
    from spindle.mcp.spec import ServerSpec as ServerSpec
    from spindle.mcp.tool_settings import ToolSettings as ToolSettings
else:
    __getattr__, __dir__ = open_door(__name__)
