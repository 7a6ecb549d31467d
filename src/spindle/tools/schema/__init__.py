"""Schemas of tool arguments, from Python types or JSON Schema: description, validation and error texts."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.tools.schema.booleans import build_boolean_finder as build_boolean_finder
    from spindle.tools.schema.booleans import collect_node_kinds as collect_node_kinds
    from spindle.tools.schema.booleans import find_booleans_for_numbers as find_booleans_for_numbers
    from spindle.tools.schema.json_schema import RawSchema as RawSchema
    from spindle.tools.schema.pydantic_errors import translate_errors as translate_errors
    from spindle.tools.schema.python_types import TypedSchema as TypedSchema
    from spindle.tools.schema.role_paths import take_roles as take_roles
    from spindle.tools.schema.tool_flow import build_flow as build_flow
    from spindle.tools.schema.tool_flow import read_produces as read_produces
    from spindle.tools.schema.tool_flow import read_roles as read_roles
else:
    __getattr__, __dir__ = open_door(__name__)
