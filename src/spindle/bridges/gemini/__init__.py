"""Google's Gemini API."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.bridges.gemini.callbacks import generate as generate
    from spindle.bridges.gemini.conversation import DIALECT as DIALECT
    from spindle.bridges.gemini.conversation import calls as calls
    from spindle.bridges.gemini.conversation import definitions as definitions
    from spindle.bridges.gemini.conversation import results as results
    from spindle.bridges.gemini.stream import Stream as Stream
else:
    __getattr__, __dir__ = open_door(__name__)
