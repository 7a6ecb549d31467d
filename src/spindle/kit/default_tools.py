"""The list of ready-made tools, to register all of them or single toolsets."""

from collections.abc import Iterable, Mapping

from spindle.errors import UsageError
from spindle.kit.calculator import calculate
from spindle.kit.clock import time_now
from spindle.kit.commands import terminal
from spindle.kit.files import list_dir, patch_file, read_file, write_file
from spindle.kit.kanban import kanban_add, kanban_comment, kanban_list, kanban_move, kanban_show
from spindle.kit.memory import memory_forget, memory_recall, memory_remember
from spindle.kit.questions import ask_user
from spindle.kit.request_secrets import build_http_request
from spindle.kit.search import search_files
from spindle.kit.web import http_request, web_fetch
from spindle.tools.declaration import Tool

KIT: tuple[Tool, ...] = (
    read_file,
    write_file,
    patch_file,
    list_dir,
    search_files,
    terminal,
    web_fetch,
    http_request,
    kanban_list,
    kanban_show,
    kanban_add,
    kanban_move,
    kanban_comment,
    memory_remember,
    memory_recall,
    memory_forget,
    ask_user,
    time_now,
    calculate,
)
TOOLSETS: tuple[str, ...] = tuple(dict.fromkeys(str(tool.toolset) for tool in KIT))


def kit_tools(
    toolsets: Iterable[str] | None = None, *, http_secrets: Mapping[str, Iterable[str]] | None = None
) -> list[Tool]:
    """Return the tools of these toolsets, or all tools; a call needs the backends that its tool declares.

    `http_secrets` maps each secret that `http_request` may send to the hosts it may be sent to.

    Raises:
        UsageError: A toolset does not exist, or `http_secrets` is invalid.
    """
    if isinstance(toolsets, str):
        raise UsageError(
            f"toolsets: expected a list of names, got {toolsets!r}; write [{toolsets!r}]", field="toolsets"
        )
    wanted = TOOLSETS if toolsets is None else tuple(toolsets)
    unknown = [name for name in wanted if name not in TOOLSETS]
    if unknown:
        raise UsageError(f"unknown toolset {unknown[0]!r}; choose from {', '.join(TOOLSETS)}", field="toolsets")
    kit = [tool for tool in KIT if tool.toolset in wanted]
    if http_secrets is None:
        return kit
    with_secrets = build_http_request(http_secrets)
    return [with_secrets if tool is http_request else tool for tool in kit]
