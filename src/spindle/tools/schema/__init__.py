"""Schemas of tool arguments, from Python types or JSON Schema: description, validation and error texts."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.tools.schema.json_schema import RawSchema as RawSchema
else:
    __getattr__, __dir__ = open_door(__name__)
