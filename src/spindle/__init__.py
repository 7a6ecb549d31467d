"""Spindle: the tool layer between a language model and the world."""

from spindle import errors as errors
from spindle.artifacts.artifact import Artifact as Artifact
from spindle.artifacts.json_artifact import JsonArtifact as JsonArtifact
from spindle.artifacts.markdown_artifact import MarkdownArtifact as MarkdownArtifact
from spindle.artifacts.spool import Spool as Spool
from spindle.artifacts.table_artifact import TableArtifact as TableArtifact
from spindle.calls import Call as Call
from spindle.calls import CallOutcome as CallOutcome
from spindle.calls import Err as Err
from spindle.calls import Ok as Ok
from spindle.capabilities.declare import Capabilities as Capabilities
from spindle.events import Events as Events
from spindle.media import Media as Media
from spindle.stash import Stash as Stash
from spindle.tools.context import ToolContext as ToolContext
from spindle.tools.decorate import tool as tool
from spindle.tools.filters import ToolFilter as ToolFilter
from spindle.tools.registry import ToolRegistry as ToolRegistry
from spindle.tools.tool import Tool as Tool

__all__ = [
    "Artifact",
    "Call",
    "CallOutcome",
    "Capabilities",
    "Err",
    "Events",
    "JsonArtifact",
    "MarkdownArtifact",
    "Media",
    "Ok",
    "Spool",
    "Stash",
    "TableArtifact",
    "Tool",
    "ToolContext",
    "ToolFilter",
    "ToolRegistry",
    "errors",
    "tool",
]
