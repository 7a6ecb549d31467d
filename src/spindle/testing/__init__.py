"""What tests and examples need, shipped; open `calling.py` first."""

from spindle.testing.calling import call as call
from spindle.testing.clock import FakeClock as FakeClock
from spindle.testing.recording import RecordingSink as RecordingSink
from spindle.testing.recording import Told as Told
from spindle.testing.scripted import ScriptedModel as ScriptedModel
