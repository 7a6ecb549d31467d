"""Spindle: the tool layer between a language model and the world.

Every public name is here, and loads its part of the house when it is first looked at.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from spindle.capabilities.resolve import Backends as Backends
    from spindle.events import Events as Events
    from spindle.execution.budget import Budget as Budget
    from spindle.execution.executor import Executor as Executor
    from spindle.execution.reduce import Reducer as Reducer
    from spindle.execution.reduce import ReducerRegistry as ReducerRegistry
    from spindle.journal.journal import Journal as Journal
    from spindle.media import Media as Media
    from spindle.records import ToolCallRecord as ToolCallRecord
    from spindle.stash import Stash as Stash
    from spindle.tools.context import ToolContext as ToolContext
    from spindle.tools.decorate import tool as tool
    from spindle.tools.filters import ToolFilter as ToolFilter
    from spindle.tools.registry import ToolRegistry as ToolRegistry
    from spindle.tools.tool import Tool as Tool
    from spindle.turns.context import DispatchContext as DispatchContext
    from spindle.turns.context import TurnContext as TurnContext
    from spindle.turns.dispatch import DispatchRunner as DispatchRunner
    from spindle.turns.dispatch import Reply as Reply
    from spindle.turns.gate import Gate as Gate
    from spindle.turns.runner import TurnReport as TurnReport
    from spindle.turns.runner import TurnRunner as TurnRunner

_HOMES = {
    "Artifact": "spindle.artifacts.artifact",
    "Backends": "spindle.capabilities.resolve",
    "Budget": "spindle.execution.budget",
    "Call": "spindle.calls",
    "CallOutcome": "spindle.calls",
    "Capabilities": "spindle.capabilities.declare",
    "DispatchContext": "spindle.turns.context",
    "DispatchRunner": "spindle.turns.dispatch",
    "Err": "spindle.calls",
    "Events": "spindle.events",
    "Executor": "spindle.execution.executor",
    "Gate": "spindle.turns.gate",
    "Journal": "spindle.journal.journal",
    "JsonArtifact": "spindle.artifacts.json_artifact",
    "MarkdownArtifact": "spindle.artifacts.markdown_artifact",
    "Media": "spindle.media",
    "Ok": "spindle.calls",
    "Reducer": "spindle.execution.reduce",
    "ReducerRegistry": "spindle.execution.reduce",
    "Reply": "spindle.turns.dispatch",
    "Spool": "spindle.artifacts.spool",
    "Stash": "spindle.stash",
    "TableArtifact": "spindle.artifacts.table_artifact",
    "Tool": "spindle.tools.tool",
    "ToolCallRecord": "spindle.records",
    "ToolContext": "spindle.tools.context",
    "ToolFilter": "spindle.tools.filters",
    "ToolRegistry": "spindle.tools.registry",
    "TurnContext": "spindle.turns.context",
    "TurnReport": "spindle.turns.runner",
    "TurnRunner": "spindle.turns.runner",
    "tool": "spindle.tools.decorate",
}

__all__ = [
    "Artifact",
    "Backends",
    "Budget",
    "Call",
    "CallOutcome",
    "Capabilities",
    "DispatchContext",
    "DispatchRunner",
    "Err",
    "Events",
    "Executor",
    "Gate",
    "Journal",
    "JsonArtifact",
    "MarkdownArtifact",
    "Media",
    "Ok",
    "Reducer",
    "ReducerRegistry",
    "Reply",
    "Spool",
    "Stash",
    "TableArtifact",
    "Tool",
    "ToolCallRecord",
    "ToolContext",
    "ToolFilter",
    "ToolRegistry",
    "TurnContext",
    "TurnReport",
    "TurnRunner",
    "errors",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Open the part of the house that has a public name."""
    if name == "errors":
        return import_module("spindle.errors")
    if name not in _HOMES:
        raise AttributeError(f"module 'spindle' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
