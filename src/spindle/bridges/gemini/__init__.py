"""Google's Gemini API."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.bridges.gemini.callbacks import DIALECT as DIALECT
    from spindle.bridges.gemini.callbacks import Stream as Stream
    from spindle.bridges.gemini.callbacks import calls as calls
    from spindle.bridges.gemini.callbacks import definitions as definitions
    from spindle.bridges.gemini.callbacks import generate as generate
    from spindle.bridges.gemini.callbacks import results as results
else:
    __getattr__, __dir__ = open_door(__name__)
