"""Runs one turn of the model loop, from its messages to its report; open `runner.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.turns.context import DispatchContext as DispatchContext
    from spindle.turns.context import TurnContext as TurnContext
    from spindle.turns.dispatch import DispatchRunner as DispatchRunner
    from spindle.turns.engine import TurnEngine as TurnEngine
    from spindle.turns.engine import TurnRest as TurnRest
    from spindle.turns.gate_desk import GateDesk as GateDesk
    from spindle.turns.gates import Gate as Gate
    from spindle.turns.gates import GateInfo as GateInfo
    from spindle.turns.middleware import Middleware as Middleware
    from spindle.turns.record_types import Memory as Memory
    from spindle.turns.record_types import Message as Message
    from spindle.turns.record_types import Retrievable as Retrievable
    from spindle.turns.record_types import Thought as Thought
    from spindle.turns.records import Records as Records
    from spindle.turns.report import Advance as Advance
    from spindle.turns.report import DispatchReport as DispatchReport
    from spindle.turns.report import Reply as Reply
    from spindle.turns.report import TurnReport as TurnReport
    from spindle.turns.runner import TurnRunner as TurnRunner
    from spindle.turns.story import ContextPart as ContextPart
    from spindle.turns.story import StoryArtifact as StoryArtifact
    from spindle.turns.story import StoryCall as StoryCall
    from spindle.turns.story import StoryGate as StoryGate
    from spindle.turns.story import StoryIteration as StoryIteration
    from spindle.turns.story import StoryStatus as StoryStatus
    from spindle.turns.story import TurnPage as TurnPage
    from spindle.turns.story import TurnStory as TurnStory
    from spindle.turns.story import delete_turn as delete_turn
    from spindle.turns.story import list_turns as list_turns
    from spindle.turns.story import prune_turns as prune_turns
    from spindle.turns.story import read_turn as read_turn
    from spindle.turns.stream import StreamedEvent as StreamedEvent
else:
    __getattr__, __dir__ = open_door(__name__)
