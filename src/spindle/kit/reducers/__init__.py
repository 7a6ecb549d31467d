"""Reducers for the output of the kit's tools; open `registry.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.kit.reducers.registry import CLOSED as CLOSED
    from spindle.kit.reducers.registry import MANY_TICKETS as MANY_TICKETS
    from spindle.kit.reducers.registry import MILLISECONDS_FROM as MILLISECONDS_FROM
    from spindle.kit.reducers.registry import READ_FILE_LINES as READ_FILE_LINES
    from spindle.kit.reducers.registry import TOP_TICKETS as TOP_TICKETS
    from spindle.kit.reducers.registry import argument as argument
    from spindle.kit.reducers.registry import default_reducers as default_reducers
    from spindle.kit.reducers.registry import kanban_list_reducer as kanban_list_reducer
    from spindle.kit.reducers.registry import read_file_reducer as read_file_reducer
    from spindle.kit.reducers.registry import reduce_kanban_list as reduce_kanban_list
    from spindle.kit.reducers.registry import reduce_read_file as reduce_read_file
    from spindle.kit.reducers.registry import reduce_terminal as reduce_terminal
    from spindle.kit.reducers.registry import shortened as shortened
    from spindle.kit.reducers.registry import summarise_board as summarise_board
    from spindle.kit.reducers.registry import terminal_reducer as terminal_reducer
    from spindle.kit.reducers.registry import with_text as with_text
else:
    __getattr__, __dir__ = open_door(__name__)
