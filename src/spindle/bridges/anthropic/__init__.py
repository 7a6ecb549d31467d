"""Anthropic's Messages API."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.bridges.anthropic.callbacks import messages as messages
    from spindle.bridges.anthropic.conversation import DIALECT as DIALECT
    from spindle.bridges.anthropic.conversation import calls as calls
    from spindle.bridges.anthropic.conversation import definitions as definitions
    from spindle.bridges.anthropic.conversation import results as results
    from spindle.bridges.anthropic.stream import Stream as Stream
else:
    __getattr__, __dir__ = open_door(__name__)
