"""Amazon Bedrock's Converse API."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.bridges.bedrock.callbacks import DIALECT as DIALECT
    from spindle.bridges.bedrock.callbacks import SEES as SEES
    from spindle.bridges.bedrock.callbacks import Stream as Stream
    from spindle.bridges.bedrock.callbacks import calls as calls
    from spindle.bridges.bedrock.callbacks import converse as converse
    from spindle.bridges.bedrock.callbacks import definitions as definitions
    from spindle.bridges.bedrock.callbacks import results as results
else:
    __getattr__, __dir__ = open_door(__name__)
