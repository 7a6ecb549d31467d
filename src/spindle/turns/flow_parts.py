"""Parts of a turn that only a flow policy needs; their module is loaded on first use, as by a package's door."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.turns.flow_feed import get_feed as get_feed
    from spindle.turns.flow_feed import save_flow as save_flow
else:
    __getattr__, __dir__ = open_door(__name__)
