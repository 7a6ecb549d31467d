"""Ready-made tools and reducers for their output; open `default_tools.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.kit.calculator import calculate as calculate
    from spindle.kit.clock import time_now as time_now
    from spindle.kit.commands import terminal as terminal
    from spindle.kit.default_tools import TOOLSETS as TOOLSETS
    from spindle.kit.default_tools import kit_tools as kit_tools
    from spindle.kit.files import list_dir as list_dir
    from spindle.kit.files import patch_file as patch_file
    from spindle.kit.files import read_file as read_file
    from spindle.kit.files import write_file as write_file
    from spindle.kit.kanban import kanban_add as kanban_add
    from spindle.kit.kanban import kanban_comment as kanban_comment
    from spindle.kit.kanban import kanban_list as kanban_list
    from spindle.kit.kanban import kanban_move as kanban_move
    from spindle.kit.kanban import kanban_show as kanban_show
    from spindle.kit.memory import memory_forget as memory_forget
    from spindle.kit.memory import memory_recall as memory_recall
    from spindle.kit.memory import memory_remember as memory_remember
    from spindle.kit.questions import ask_user as ask_user
    from spindle.kit.search import search_files as search_files
    from spindle.kit.web import http_request as http_request
    from spindle.kit.web import web_fetch as web_fetch
else:
    __getattr__, __dir__ = open_door(__name__)
