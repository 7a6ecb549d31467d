"""Amazon Bedrock's Converse API."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.bridges.bedrock.callbacks import converse as converse
    from spindle.bridges.bedrock.conversation import DIALECT as DIALECT
    from spindle.bridges.bedrock.conversation import SEES as SEES
    from spindle.bridges.bedrock.conversation import calls as calls
    from spindle.bridges.bedrock.conversation import definitions as definitions
    from spindle.bridges.bedrock.conversation import results as results
    from spindle.bridges.bedrock.stream import Stream as Stream
else:
    __getattr__, __dir__ = open_door(__name__)
