"""Tools, their schemas, and the registry that holds them; open `declaration.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.tools.arguments import read_arguments as read_arguments
    from spindle.tools.context import ToolContext as ToolContext
    from spindle.tools.declaration import FunctionTool as FunctionTool
    from spindle.tools.declaration import Tool as Tool
    from spindle.tools.declaration import tool as tool
    from spindle.tools.entry import Entry as Entry
    from spindle.tools.filters import ToolFilter as ToolFilter
    from spindle.tools.identity import canonical_json as canonical_json
    from spindle.tools.identity import checksum as checksum
    from spindle.tools.registry import ToolRegistry as ToolRegistry
    from spindle.tools.schema.json_schema import RawSchema as RawSchema
    from spindle.tools.schema.repair import repair_schema as repair_schema
    from spindle.tools.tool_fields import CachePolicy as CachePolicy
    from spindle.tools.tool_fields import ToolOptions as ToolOptions
else:
    __getattr__, __dir__ = open_door(__name__)
