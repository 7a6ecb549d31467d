"""Reducers for the ready-made tools `terminal`, `read_file` and `kanban_list`."""

import shlex
from typing import Any, cast

from spindle.calls import Err, Ok
from spindle.execution.reduce import ReduceInfo, Reducer, ReducerRegistry
from spindle.kit.board import summarise_board
from spindle.kit.shorten import argument, with_text
from spindle.kit.terminal_output.screen import plain_lines
from spindle.kit.terminal_output.terminal import shortened

READ_FILE_LINES = 200


def reduce_terminal(result: Ok | Err, info: ReduceInfo) -> Ok | Err:
    """What a command did, without the noise: git status, test runs, installs, or the head and tail of anything long."""
    if isinstance(result, Err):
        return result
    command = _line(argument(info.args, "command"))
    exit_code = argument(result.structured, "exit_code")
    failed = isinstance(exit_code, int) and exit_code != 0
    return with_text(result, shortened(result.value, command, failed=failed))


def _line(command: Any) -> str:
    """The command as a line; the tool also takes it as a list of words."""
    if isinstance(command, list) and all(isinstance(word, str) for word in cast("list[Any]", command)):
        return shlex.join(cast("list[str]", command))
    return command if isinstance(command, str) else ""


def reduce_read_file(result: Ok | Err, info: ReduceInfo) -> Ok | Err:
    """The first 200 lines of a file that was read without a range, and how to get the others."""
    is_range = any(argument(info.args, name) is not None for name in ("start_line", "end_line"))
    if isinstance(result, Err) or is_range:
        return result
    note = argument(result.structured, "note")
    told = f"{note}\n" if isinstance(note, str) else ""
    lines = plain_lines(result.value.removeprefix(told))
    if len(lines) <= READ_FILE_LINES:
        return result
    hint = (
        f"File is {len(lines)} lines. Showing lines 1-{READ_FILE_LINES}. "
        f"Call read_file with start_line/end_line for more."
    )
    return with_text(result, told + "\n".join([hint, *lines[:READ_FILE_LINES]]))


def reduce_kanban_list(result: Ok | Err, info: ReduceInfo) -> Ok | Err:  # noqa: ARG001 -- the signature of a reducer
    """A board of more than ten tickets: counts by status, and the five open ones that were updated last."""
    if isinstance(result, Err):
        return result
    summary = summarise_board(result.value)
    return result if summary is None else with_text(result, summary)


terminal_reducer = Reducer(tool_name="terminal", reduce=reduce_terminal)
read_file_reducer = Reducer(tool_name="read_file", reduce=reduce_read_file)
kanban_list_reducer = Reducer(tool_name="kanban_list", reduce=reduce_kanban_list)


def default_reducers() -> ReducerRegistry:
    """A fresh registry with the three reducers of this page, to which others may be added."""
    registry = ReducerRegistry()
    for reducer in (terminal_reducer, read_file_reducer, kanban_list_reducer):
        registry.register(reducer)
    return registry
