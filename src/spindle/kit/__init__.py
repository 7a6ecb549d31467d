"""Ready-made tools and the reducers that know their output; open `reducers.py` first.

A tool's name here loads the part that has it. `terminal` alone is asked of its own file, which has the same name:
`from spindle.kit.terminal import terminal`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spindle.kit.all import kit_tools as kit_tools
    from spindle.kit.arithmetic import calculate as calculate
    from spindle.kit.clock import time_now as time_now
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
    from spindle.kit.people import ask_user as ask_user
    from spindle.kit.search import search_files as search_files
    from spindle.kit.web import http_request as http_request
    from spindle.kit.web import web_fetch as web_fetch

_HOMES = {
    "ask_user": "people",
    "calculate": "arithmetic",
    "http_request": "web",
    "kanban_add": "kanban",
    "kanban_comment": "kanban",
    "kanban_list": "kanban",
    "kanban_move": "kanban",
    "kanban_show": "kanban",
    "kit_tools": "all",
    "list_dir": "files",
    "memory_forget": "memory",
    "memory_recall": "memory",
    "memory_remember": "memory",
    "patch_file": "files",
    "read_file": "files",
    "search_files": "search",
    "time_now": "clock",
    "web_fetch": "web",
    "write_file": "files",
}


def __getattr__(name: str) -> Any:
    """Open the part of the kit that has a tool."""
    if name not in _HOMES:
        raise AttributeError(f"module 'spindle.kit' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"spindle.kit.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
