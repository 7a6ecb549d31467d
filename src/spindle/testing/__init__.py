"""Helpers for testing programs that use Spindle; open `model.py` first. `engine_suite` has a door of its own."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.testing.clock import FakeClock as FakeClock
    from spindle.testing.model import ScriptedModel as ScriptedModel
    from spindle.testing.model import call as call
    from spindle.testing.recording import RecordedEvent as RecordedEvent
    from spindle.testing.recording import RecordingSink as RecordingSink
else:
    __getattr__, __dir__ = open_door(__name__)
