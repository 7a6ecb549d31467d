"""Trials: calls that a person makes on the page, as the journal and the policies see any other call.

A trial belongs to the event loop, not to the request that starts it: the page asks for its state until it has ended,
and may cancel it. The newest ones are kept, so that a page can be reloaded.
"""

import secrets
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import anyio

from spindle.calls import Call, CallOutcome, Err
from spindle.concurrency import BackgroundTask, spawn_background
from spindle.errors import InvalidToolArgsError, NotCanonicalError, RequestConflictError, UnknownItemError
from spindle.events import Events, ToolProgress, Warned
from spindle.execution.call_state import compute_call_checksum
from spindle.execution.executor import Executor
from spindle.json_types import JsonObject
from spindle.text import shorten, to_encodable
from spindle.tools.arguments import read_arguments
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.identity import idempotency_key
from spindle.tools.registry import ToolRegistry
from spindle.trust.flow.roles import ToolFlow

if TYPE_CHECKING:
    from spindle.tools.schema.base import Problem

TrialState: TypeAlias = Literal["running", "finished", "cancelled"]

MAX_KEPT: Final = 100
"""Trials of each profile, and of the owner."""
MAX_RUNNING: Final = 32
"""Trials of all pages that may run at once."""
MAX_RUNNING_OF_ONE: Final = 16
"""Trials of one profile, or of the owner, so that others can make some, too."""
MAX_NOTES: Final = 50
"""Messages of progress that are kept of one trial."""
_MAX_NOTE_CHARS: Final = 500
_MAX_PROBLEMS: Final = 100
_REASON: Final = "a person on the page asked for an approval before this call"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialRequest:
    """A call to make."""

    tool: str
    args: JsonObject | str
    """An object, or its JSON text, whose numbers then keep all their digits."""
    session_id: str
    caller: JsonObject
    dry_run: bool = False
    asks: bool = False
    """Whether the call waits for a person's approval, whatever its tool says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgressNote:
    """What a running call said about its progress, or a warning."""

    message: str
    percent: float | None = None


@dataclass(eq=False, kw_only=True)
class PageTrial:
    """One call and what became of it."""

    id: str
    """Also the id of the call and of its turn."""
    request: TrialRequest
    started_at: datetime
    owner: str
    """The login that made it."""
    profile: str | None = None
    """Its profile."""
    state: TrialState = "running"
    outcome: CallOutcome | None = None
    problems: "tuple[Problem, ...]" = ()
    """Which arguments were rejected, and why."""
    notes: list[ProgressNote] = field(default_factory=list[ProgressNote])
    version: int = 0
    """Counts the changes, for those who wait for the next one."""
    task: BackgroundTask | None = None
    _changed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def key(self) -> str | None:
        """The idempotency key, by which the journal knows the call; `None` for a dry run."""
        if self.request.dry_run:
            return None
        try:
            return idempotency_key(self.request.session_id, self.id, self.id, self._checksum)
        except NotCanonicalError:
            return None

    @cached_property
    def _checksum(self) -> str:
        if self.outcome is not None:
            return self.outcome.checksum
        return compute_call_checksum(Call(self.id, self.request.tool, self.request.args))

    def add_note(self, message: str, percent: float | None) -> None:
        """Add a message of progress; of too many, the oldest are dropped."""
        self.notes.append(ProgressNote(message=shorten(to_encodable(message), _MAX_NOTE_CHARS), percent=percent))
        del self.notes[:-MAX_NOTES]
        self.report_change()

    def report_change(self) -> None:
        """Wake those who wait for a change."""
        self.version += 1
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def wait(self, seen: int, seconds: float) -> None:
        """Wait until there is something newer than `seen`, or the time is over."""
        with anyio.move_on_after(seconds):
            while self.version <= seen and self.state == "running":
                await self._changed.wait()


class Trials:
    """The trials of a server, in memory."""

    def __init__(self) -> None:
        self._trials: dict[str, PageTrial] = {}

    def start(
        self,
        request: TrialRequest,
        executor: Executor,
        registry: ToolRegistry,
        filter: ToolFilter | None,
        *,
        owner: str,
        profile: str | None = None,
    ) -> PageTrial:
        """Start a call and return its trial.

        Raises:
            RequestConflictError: Too many trials are running.
        """
        running = [each.profile for each in self._trials.values() if each.state == "running"]
        if len(running) >= MAX_RUNNING or running.count(profile) >= MAX_RUNNING_OF_ONE:
            raise RequestConflictError("too many calls of the page are running; wait for one, or cancel one")
        name, now = f"page_{secrets.token_hex(6)}", datetime.now(UTC)
        trial = PageTrial(id=name, request=request, started_at=now, owner=owner, profile=profile)
        self._trials[name] = trial
        self._forget_old(profile)
        if request.asks:
            registry = require_approval(registry, request.tool)
        own = executor.with_registry(registry)
        trial.task = spawn_background(lambda: _run(trial, own, registry, filter), name=f"spindle trial {trial.id}")
        return trial

    def get(self, id: str, owner: str) -> PageTrial:
        """Return a trial of a login.

        Raises:
            UnknownItemError: No trial has that id, or another login made it.
        """
        trial = self._trials.get(id)
        if trial is None or trial.owner != owner:
            raise UnknownItemError("this call is not known any more; its record is under Calls")
        return trial

    def cancel(self, trial: PageTrial) -> None:
        """Cancel a running trial; the journal records it as cancelled."""
        if trial.state == "running" and trial.task is not None:
            trial.task.cancel()

    def cancel_all(self) -> None:
        """Cancel what is still running, because the server stops."""
        for trial in self._trials.values():
            self.cancel(trial)

    def _forget_old(self, profile: str | None) -> None:
        own = [each for each in self._trials.values() if each.profile == profile]
        ended = [each.id for each in own if each.state != "running"]
        for old in ended[: max(0, len(own) - MAX_KEPT)]:
            del self._trials[old]


def require_approval(registry: ToolRegistry, name: str) -> ToolRegistry:
    """Return a view in which a call of a tool waits for approval; its ticket is one of the tool as it is registered."""
    entry = registry.entry(name)
    if entry is None:
        return registry
    asking: Tool = copy(entry.tool)
    vars(asking).pop("_runnable", None)  # built again with the check
    vars(asking)["checks"] = (*entry.tool.checks, _ask)
    other = registry.copy()
    mcp = None if entry.mcp_server is None else (entry.mcp_server, entry.mcp_tool or name)
    other.register(asking, overwrite=True, plugin_id=entry.plugin_id, mcp=mcp)
    return other


def _ask(_args: object, ctx: ToolContext) -> None:
    ctx.flow.require_approval(_REASON)


async def _run(trial: PageTrial, executor: Executor, registry: ToolRegistry, filter: ToolFilter | None) -> None:
    request = trial.request
    call = Call(trial.id, request.tool, request.args)
    try:
        context = _build_context(trial)
        if executor.flow is not None:
            _add_typed_arguments(context, request)
        [outcome] = await executor.execute_parallel([call], context, filter)
        trial.problems = await _find_problems(outcome, registry.get(request.tool), request.args)
        trial.outcome, trial.state = outcome, "finished"
    finally:
        if trial.state == "running":
            trial.state = "cancelled"
        trial.report_change()


def _build_context(trial: PageTrial) -> ToolContext:
    request, events = trial.request, Events()

    def on_progress(event: ToolProgress) -> None:
        trial.add_note(event.message, event.percent)

    def on_warning(event: Warned) -> None:
        trial.add_note(event.message, None)

    events.on("tool_progress", on_progress)
    events.on("warning", on_warning)
    return ToolContext(
        request.session_id,
        turn_id=trial.id,
        events=events,
        dry_run=request.dry_run,
        caller=request.caller,
    )


def _add_typed_arguments(context: ToolContext, request: TrialRequest) -> None:
    """Let the call be judged by itself, with its arguments as the words of the person who typed them."""
    try:
        given = read_arguments(request.args, tool=request.tool, empty_ok=True)
    except InvalidToolArgsError:
        return  # the executor rejects them
    context.flow.begin_session(f"{context.session_id} {context.turn_id}")
    for leaf in ToolFlow(name="").get_leaves(given):
        context.flow.add_user_text(str(leaf.value))


async def _find_problems(outcome: CallOutcome, tool: Tool | None, args: JsonObject | str) -> "tuple[Problem, ...]":
    """Return each rejected argument; the outcome itself names only the first."""
    if tool is None or not isinstance(outcome.result, Err) or outcome.result.code != "input_invalid":
        return ()
    try:
        await tool.validate(args)
    except InvalidToolArgsError as error:
        return tuple(error.problems[:_MAX_PROBLEMS])
    except Exception:  # noqa: BLE001  a check of the tool failed; the outcome says so
        return ()
    return ()
