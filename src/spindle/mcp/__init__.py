"""MCP in and out: tools of other servers as ours (`client.py`), and ours as one server (`server.py`)."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.mcp.asking import ListRoots as ListRoots
    from spindle.mcp.asking import Root as Root
    from spindle.mcp.asking import Sampled as Sampled
    from spindle.mcp.asking import Sampling as Sampling
    from spindle.mcp.asking import ask_all as ask_all
    from spindle.mcp.asking import can_ask as can_ask
    from spindle.mcp.asking import roots as roots
    from spindle.mcp.asking import sample as sample
    from spindle.mcp.client import McpServers as McpServers
    from spindle.mcp.client_backoff import Clock as Clock
    from spindle.mcp.gateway import Gateway as Gateway
    from spindle.mcp.http import Door as Door
    from spindle.mcp.http import http_app as http_app
    from spindle.mcp.server import ToolServer as ToolServer
    from spindle.mcp.serving import serve_http as serve_http
    from spindle.mcp.serving import serve_stdio as serve_stdio
    from spindle.mcp.spec import ServerSpec as ServerSpec
else:
    __getattr__, __dir__ = open_door(__name__)
