"""What a tool may reach, declared on the tool and served by backends; open `declare.py` first."""

from spindle.capabilities.declare import Capabilities as Capabilities
from spindle.capabilities.declare import FileReach as FileReach
from spindle.capabilities.validating import validate as validate
