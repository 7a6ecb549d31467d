"""Spindle: the tool layer between a language model and the world."""

from spindle import errors as errors
from spindle.calls import Call as Call
from spindle.calls import Err as Err
from spindle.calls import Ok as Ok
from spindle.capabilities.declare import Capabilities as Capabilities
from spindle.events import Events as Events
from spindle.stash import Stash as Stash
from spindle.tools.context import ToolContext as ToolContext
from spindle.tools.decorate import tool as tool
from spindle.tools.filters import ToolFilter as ToolFilter
from spindle.tools.registry import ToolRegistry as ToolRegistry
from spindle.tools.tool import Tool as Tool

__all__ = [
    "Call",
    "Capabilities",
    "Err",
    "Events",
    "Ok",
    "Stash",
    "Tool",
    "ToolContext",
    "ToolFilter",
    "ToolRegistry",
    "errors",
    "tool",
]
