"""The reducers of the ready-made tools `terminal`, `read_file` and `kanban_list`."""

import json
import math
import shlex
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

from spindle.calls import Err, Ok
from spindle.execution.reducers import ReduceInfo, Reducer, ReducerRegistry
from spindle.json_types import JsonObject, JsonValue, is_array, is_mapping, is_object
from spindle.kit.reducers.git_status import is_git_status, summarise_git_status
from spindle.kit.reducers.installs import get_install_noise
from spindle.kit.reducers.lines import drop_noise, split_lines, truncate_middle
from spindle.kit.reducers.test_runners import get_test_noise


def argument(args: object, name: str) -> JsonValue:
    """Return an argument by name from a mapping or an object's attributes; `None` if missing."""
    if is_mapping(args):
        return args.get(name)
    return getattr(args, name, None)


def with_text(result: Ok, text: str) -> Ok:
    """Return `result` with `text` as its value, or `result` unchanged unless `text` is shorter."""
    return replace(result, value=text) if len(text) < len(result.value) else result


MANY_TICKETS = 10
TOP_TICKETS = 5
MILLISECONDS_FROM = 1e11
"""Larger timestamps are milliseconds; as seconds this is the year 5138."""
CLOSED = frozenset({"done", "cancelled"})


def summarise_board(text: str) -> str | None:
    """Summarize a JSON list of more than ten tickets; return `None` for anything else."""
    tickets = _tickets(text)
    if tickets is None or len(tickets) <= MANY_TICKETS:
        return None
    counts = Counter(_status(ticket) for ticket in tickets)  # keeps the order of first occurrence
    still_open = [ticket for ticket in tickets if _status(ticket) not in CLOSED]
    top = sorted(still_open, key=_get_update_time, reverse=True)[:TOP_TICKETS]
    by_status = ", ".join(f"{status}={count}" for status, count in counts.items())
    return f"Counts by status: {by_status}. Top {len(top)} open: {'; '.join(map(_ticket_line, top))}"


def _tickets(text: str) -> list[JsonObject] | None:
    try:
        found: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if is_array(found) and all(_is_ticket(item) for item in found) else None


def _is_ticket(item: JsonValue) -> bool:
    if not is_object(item):
        return False
    texts = (item.get("status"), item.get("title"))
    return all(text is None or isinstance(text, str) for text in texts) and not isinstance(item.get("id"), dict | list)


def _status(ticket: JsonObject) -> str:
    return ticket.get("status") or "unknown"


def _ticket_line(ticket: JsonObject) -> str:
    number, title = ticket.get("id"), ticket.get("title")
    return f"{'?' if number is None else number}: {'(no title)' if title is None else title}"


def _get_update_time(ticket: JsonObject) -> float:
    """Return the update time in seconds since 1970; a ticket without one counts as the oldest."""
    moment: JsonValue = ticket.get("updated_at")
    try:
        if isinstance(moment, str):
            parsed = datetime.fromisoformat(moment)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
        seconds = float(moment)
    except (TypeError, ValueError, OverflowError):
        return float("-inf")
    if math.isnan(seconds):  # it cannot be ordered
        return float("-inf")
    return seconds / 1000 if abs(seconds) > MILLISECONDS_FROM else seconds


def shortened(text: str, command: str, *, failed: bool) -> str:
    """Return the output of `command` without noise; never longer, and deterministic."""
    if is_git_status(command):
        return summarise_git_status(text) or truncate_middle(text, failed=failed)
    for noise_of in (get_test_noise, get_install_noise):
        noise = noise_of(command)
        shorter = drop_noise(text, noise, failed=failed) if noise else None
        if shorter is not None:
            return shorter
    return truncate_middle(text, failed=failed)


READ_FILE_LINES = 200


def reduce_terminal(result: Ok | Err, info: ReduceInfo) -> Ok | Err:
    """Remove noise from a command's output: git status, test runs, installs, or the middle of any long output."""
    if isinstance(result, Err):
        return result
    command = _command_text(argument(info.args, "command"))
    exit_code = argument(result.structured, "exit_code")
    failed = isinstance(exit_code, int) and exit_code != 0
    return with_text(result, shortened(result.value, command, failed=failed))


def _command_text(command: JsonValue) -> str:
    """Return the command as one line; the tool also accepts a list of words."""
    if is_array(command) and all(isinstance(word, str) for word in command):
        return shlex.join(command)
    return command if isinstance(command, str) else ""


def reduce_read_file(result: Ok | Err, info: ReduceInfo) -> Ok | Err:
    """Return the first 200 lines of a file that was read without a range, and how to read the rest."""
    is_range = any(argument(info.args, name) is not None for name in ("start_line", "end_line"))
    if isinstance(result, Err) or is_range:
        return result
    note = argument(result.structured, "note")
    note_line = f"{note}\n" if isinstance(note, str) else ""
    lines = split_lines(result.value.removeprefix(note_line))
    if len(lines) <= READ_FILE_LINES:
        return result
    hint = (
        f"File is {len(lines)} lines. Showing lines 1-{READ_FILE_LINES}. "
        f"Call read_file with start_line/end_line for more."
    )
    return with_text(result, note_line + "\n".join([hint, *lines[:READ_FILE_LINES]]))


def reduce_kanban_list(result: Ok | Err, info: ReduceInfo) -> Ok | Err:  # noqa: ARG001 -- the signature of a reducer
    """Summarize a board of more than ten tickets: counts by status, and the five most recently updated open ones."""
    if isinstance(result, Err):
        return result
    summary = summarise_board(result.value)
    return result if summary is None else with_text(result, summary)


terminal_reducer = Reducer(tool_name="terminal", reduce=reduce_terminal)
read_file_reducer = Reducer(tool_name="read_file", reduce=reduce_read_file)
kanban_list_reducer = Reducer(tool_name="kanban_list", reduce=reduce_kanban_list)


def default_reducers() -> ReducerRegistry:
    """Return a new registry with the three reducers of this module; others may be added."""
    registry = ReducerRegistry()
    for reducer in (terminal_reducer, read_file_reducer, kanban_list_reducer):
        registry.register(reducer)
    return registry
