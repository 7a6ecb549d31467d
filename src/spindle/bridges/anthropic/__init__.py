"""Anthropic's Messages API."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.bridges.anthropic.callbacks import DIALECT as DIALECT
    from spindle.bridges.anthropic.callbacks import Stream as Stream
    from spindle.bridges.anthropic.callbacks import calls as calls
    from spindle.bridges.anthropic.callbacks import definitions as definitions
    from spindle.bridges.anthropic.callbacks import messages as messages
    from spindle.bridges.anthropic.callbacks import results as results
else:
    __getattr__, __dir__ = open_door(__name__)
