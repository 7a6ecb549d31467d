"""Parts that not every turn needs; each one loads its module on first use, like the names of a package's door."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.artifacts.artifact import Artifact as Artifact
    from spindle.artifacts.forge import ReaderSession as ReaderSession
    from spindle.turns.flow_feed import label_records as label_records
    from spindle.turns.remote import RemoteTurns as RemoteTurns
    from spindle.turns.resumption import Resumption as Resumption
    from spindle.turns.resumption import TurnParts as TurnParts
    from spindle.turns.story_writer import StoryWriter as StoryWriter
    from spindle.turns.stream import EventBuffer as EventBuffer
    from spindle.turns.stream import forward_events as forward_events
    from spindle.turns.stream import stream_turn as stream_turn
    from spindle.turns.suspension import DurableCalls as DurableCalls
    from spindle.turns.turn_saver import TurnSaver as TurnSaver
    from spindle.turns.turn_store import TurnStore as TurnStore
    from spindle.turns.wait_policy import UnattendedGates as UnattendedGates
    from spindle.turns.wait_policy import ask_at_gate as ask_at_gate
    from spindle.turns.wait_policy import build_store_error as build_store_error
else:
    __getattr__, __dir__ = open_door(__name__)
