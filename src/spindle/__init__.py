"""Spindle: a tool layer for language models.

Every public name can be imported from here; its module is loaded on first use. Each package below has its own door.
"""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle import errors as errors
    from spindle.artifacts.artifact import Artifact as Artifact
    from spindle.artifacts.json_artifact import JsonArtifact as JsonArtifact
    from spindle.artifacts.markdown.artifact import MarkdownArtifact as MarkdownArtifact
    from spindle.artifacts.spool import Spool as Spool
    from spindle.artifacts.table_artifact import TableArtifact as TableArtifact
    from spindle.calls import Call as Call
    from spindle.calls import CallOutcome as CallOutcome
    from spindle.calls import Err as Err
    from spindle.calls import Ok as Ok
    from spindle.calls import ToolCallRecord as ToolCallRecord
    from spindle.capabilities.declare import Capabilities as Capabilities
    from spindle.capabilities.resolve import Backends as Backends
    from spindle.events import Events as Events
    from spindle.execution.budget import Budget as Budget
    from spindle.execution.executor import Executor as Executor
    from spindle.execution.reducers import Reducer as Reducer
    from spindle.execution.reducers import ReducerRegistry as ReducerRegistry
    from spindle.journal.journal import Journal as Journal
    from spindle.media import Media as Media
    from spindle.stash import Stash as Stash
    from spindle.tools.context import ToolContext as ToolContext
    from spindle.tools.declaration import Tool as Tool
    from spindle.tools.declaration import tool as tool
    from spindle.tools.filters import ToolFilter as ToolFilter
    from spindle.tools.registry import ToolRegistry as ToolRegistry
    from spindle.turns.context import DispatchContext as DispatchContext
    from spindle.turns.context import TurnContext as TurnContext
    from spindle.turns.dispatch import DispatchRunner as DispatchRunner
    from spindle.turns.gates import Gate as Gate
    from spindle.turns.report import Reply as Reply
    from spindle.turns.report import TurnReport as TurnReport
    from spindle.turns.runner import TurnRunner as TurnRunner
else:
    __getattr__, __dir__ = open_door(__name__)
