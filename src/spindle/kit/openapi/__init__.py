"""Tools from an OpenAPI 3.x description; open `operation_tools.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.kit.openapi.document import parse_description as parse_description
    from spindle.kit.openapi.operation_tools import ApiTools as ApiTools
    from spindle.kit.openapi.operation_tools import build_api_tools as build_api_tools
else:
    __getattr__, __dir__ = open_door(__name__)
