"""What a tool may reach, declared on the tool; open `declare.py` first."""

from spindle.capabilities.declare import Capabilities as Capabilities
from spindle.capabilities.declare import FileReach as FileReach
