"""Replays: a recorded call made again as a new one, with the arguments that were recorded."""

import secrets
from collections import Counter
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import anyio

from spindle.calls import Call, CallOutcome, Err
from spindle.concurrency import spawn_background
from spindle.errors import RequestConflictError
from spindle.execution.call_state import compute_call_checksum
from spindle.execution.executor import Executor
from spindle.inspector.endpoints import PageUser
from spindle.inspector.workbench import Workbench
from spindle.journal.entries import JournalEntry
from spindle.json_types import JsonObject, is_array, is_object
from spindle.text import MASK
from spindle.tools.context import ToolContext
from spindle.tools.identity import idempotency_key

MAX_RUNNING: Final = 16
"""Replays of all pages that may run at once."""
MAX_RUNNING_OF_ONE: Final = 8
"""Replays of one profile, or of the owner."""
WAIT_SECONDS: Final = 3.0
"""How long the answer waits for a replay to end."""
_SESSION: Final = "page"
"""The session of a replayed call that had none."""

_running: WeakKeyDictionary[Executor, Counter[str | None]] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """A call that was made again."""

    tool_call_id: str
    key: str
    outcome: CallOutcome | None
    """`None` while it runs."""
    approval_id: str | None = None
    """The approval that it waits for."""


def find_problem(bench: Workbench, entry: JournalEntry) -> str | None:
    """Return why a call cannot be made again as it was, or `None`."""
    if bench.registry.entry(entry.tool) is None:
        return "This server has no such tool any more."
    if entry.fingerprint is None:
        return "The call was refused before its arguments were checked, so they were not recorded."
    if _has_mask(entry.args):
        return f"Its arguments hold secrets, which the journal keeps as {MASK}. Enter them in the form of the tool."
    return None


async def replay(bench: Workbench, user: PageUser, entry: JournalEntry) -> Replay:
    """Make a recorded call again as a new one, in its session; a policy judges it like any other call.

    Raises:
        RequestConflictError: The call cannot be made again, or too many replays are running.
    """
    problem = find_problem(bench, entry)
    if problem is not None:
        raise RequestConflictError(problem)
    executor = bench.executor
    running = _running.setdefault(executor, Counter())
    if running.total() >= MAX_RUNNING or running[user.profile] >= MAX_RUNNING_OF_ONE:
        raise RequestConflictError("too many replayed calls are running; wait for one to end")
    name = f"replay_{secrets.token_hex(6)}"
    call, session = Call(name, entry.tool, entry.args), entry.session_id or _SESSION
    context = ToolContext(session, turn_id=name, caller={**user.describe_caller(), "replay_of": entry.idempotency_key})
    outcomes: list[CallOutcome] = []

    async def run() -> None:
        try:
            outcomes.extend(await executor.execute_parallel([call], context, bench.get_filter(user.profile)))
        finally:
            running[user.profile] -= 1

    running[user.profile] += 1
    task = spawn_background(run, name=f"spindle {name}")
    with anyio.move_on_after(WAIT_SECONDS):
        await task.wait()
    if task.error is not None:
        raise task.error
    outcome = outcomes[0] if outcomes else None
    checksum = compute_call_checksum(call) if outcome is None else outcome.checksum
    return Replay(
        tool_call_id=name,
        key=idempotency_key(session, name, name, checksum),
        outcome=outcome,
        approval_id=await _find_approval(bench, outcome),
    )


async def _find_approval(bench: Workbench, outcome: CallOutcome | None) -> str | None:
    result = None if outcome is None else outcome.result
    if not isinstance(result, Err) or result.ticket is None or bench.tickets is None:
        return None
    found = await bench.tickets.find(result.ticket)
    return None if isinstance(found, str) else found.record.id


def leave_out_masked(args: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return arguments without values that are masked, and the paths of these; a list is left out as a whole."""
    kept: JsonObject = {}
    left_out: list[str] = []
    for name, value in args.items():
        if is_object(value) and _has_mask(value) and MASK not in name:
            kept[name], inner = leave_out_masked(value)
            left_out += [f"{name}.{each}" for each in inner]
        elif _has_mask(value) or MASK in name:
            left_out.append(name)
        else:
            kept[name] = value
    return kept, left_out


def _has_mask(value: object) -> bool:
    waiting: list[object] = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str) and MASK in part:
            return True
        if is_object(part):
            waiting.extend(part)
            waiting.extend(part.values())
        elif is_array(part):
            waiting.extend(part)
    return False
