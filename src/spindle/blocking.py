"""Sync API: the names of the async core, for programs and handlers without an event loop.

All calls of a process run on one background event loop. It starts with the first call and stops at exit, so that
clients and connections stay open between calls. A sync handler uses the loop that its own call runs on.
"""

import atexit
import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event as ThreadEvent
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import anyio
from anyio.from_thread import BlockingPortal
from anyio.from_thread import run as run_from_thread
from anyio.lowlevel import current_token

from spindle.calls import Call, CallOutcome
from spindle.concurrency import owner_loop
from spindle.errors import UsageError
from spindle.events import Observer
from spindle.execution.executor import Executor as AsyncExecutor
from spindle.json_types import JsonValue
from spindle.stash import Stash
from spindle.tools.context import ToolContext
from spindle.tools.filters import ToolFilter
from spindle.tools.invocation import HasToolContext
from spindle.turns.record_types import MessageLike
from spindle.turns.report import TurnReport
from spindle.turns.runner import TurnRunner as AsyncTurnRunner
from spindle.turns.signals import CancelEvent

if TYPE_CHECKING:
    from spindle.media import Media

__all__ = ["Executor", "TurnRunner", "run"]

T = TypeVar("T")
P = ParamSpec("P")
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.05


def run(function: Callable[..., Awaitable[T]], /, *args: object, **kwargs: object) -> T:
    """Call an async function and return its result; interrupting the wait, such as by Ctrl-C, cancels it.

    Raises:
        UsageError: An event loop runs in this thread and would be blocked; the message names the import to use instead.
    """
    name = getattr(function, "__qualname__", repr(function))
    _check_no_loop(f"call it without spindle.blocking: await {name}(…)")
    call = partial(_call_async, function, args, kwargs)
    home = owner_loop.get()
    if home is None:
        return _background.run(call)
    outcome = run_from_thread(_capture_result, call, token=home)
    if isinstance(outcome, _Raised):
        raise outcome.error
    return outcome


def _with_arguments_of(
    init: Callable[Concatenate[Any, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Give a constructor the signature of another one, for type checkers, editors and `inspect`."""

    def decorate(own: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        vars(own)["__signature__"] = inspect.signature(init)
        return own

    return decorate


class Executor:
    """The sync executor; takes the same arguments as `spindle.Executor`."""

    @_with_arguments_of(AsyncExecutor.__init__)
    def __init__(self, *args: Any, **settings: Any) -> None:
        self.executor = AsyncExecutor(*args, **settings)
        """The wrapped async object."""

    def execute_parallel(
        self,
        calls: Iterable[Call | Mapping[str, JsonValue]],
        ctx: ToolContext | HasToolContext,
        filter: ToolFilter | None = None,
        attachments: "Sequence[Media]" = (),
    ) -> list[CallOutcome]:
        """Run calls in parallel and return one outcome for each, in order.

        Raises:
            InvalidContextError: `ctx` is not a context.
            UsageError: An event loop runs in this thread.
        """
        _check_no_loop("use `from spindle import Executor`, and await executor.execute_parallel(…)")
        return run(self.executor.execute_parallel, calls, ctx, filter, attachments)


class TurnRunner:
    """The sync turn runner; takes the same arguments as `spindle.TurnRunner`."""

    @_with_arguments_of(AsyncTurnRunner.__init__)
    def __init__(self, **settings: Any) -> None:
        self.runner = AsyncTurnRunner(**settings)
        """The wrapped async object."""

    def on(self, event: str, fn: Observer) -> Callable[[], None]:
        """Call `fn` with each event of every turn, on the background event loop; return its unsubscribe function."""
        return self.runner.on(event, fn)

    def run(
        self,
        *,
        system_prompt: str = "",
        messages: Iterable[MessageLike] = (),
        stash: Stash | Mapping[str, object] | None = None,
        session_id: str | None = None,
        dry_run: bool = False,
        working_dir: str | Path | None = None,
        filter: ToolFilter | None = None,
        attachments: "Iterable[Media]" = (),
        cancel: CancelEvent | ThreadEvent | None = None,
        caller: Mapping[str, JsonValue] | None = None,
        turn_id: str | None = None,
    ) -> TurnReport:
        """Run one turn; takes the arguments of `spindle.TurnRunner.run`, and a `threading.Event` as `cancel`.

        Raises:
            InvalidTurnContextError: A value is invalid; nothing was started.
            UsageError: An event loop runs in this thread.
        """
        _check_no_loop("use `from spindle import TurnRunner`, and await runner.run(…)")
        return run(
            self.runner.run,
            system_prompt=system_prompt,
            messages=messages,
            stash=stash,
            session_id=session_id,
            dry_run=dry_run,
            working_dir=working_dir,
            filter=filter,
            attachments=attachments,
            cancel=_ThreadSignal(cancel) if isinstance(cancel, ThreadEvent) else cancel,
            caller=caller,
            turn_id=turn_id,
        )

    def resume(
        self,
        state: Mapping[str, JsonValue] | None = None,
        answers: Mapping[str, JsonValue] | None = None,
        *,
        turn_id: str | None = None,
        cancel: CancelEvent | ThreadEvent | None = None,
    ) -> TurnReport:
        """Continue a suspended turn, or one whose process died; takes the arguments of `spindle.TurnRunner.resume`.

        Raises:
            InvalidTurnStateError: The state cannot be resumed here.
            InvalidAnswersError: An answer is unknown or invalid, or there is none.
            TurnConflictError: Another process resumes the turn at the same time.
            UsageError: An event loop runs in this thread.
        """
        _check_no_loop("use `from spindle import TurnRunner`, and await runner.resume(…)")
        signal = _ThreadSignal(cancel) if isinstance(cancel, ThreadEvent) else cancel
        return run(self.runner.resume, state, answers, turn_id=turn_id, cancel=signal)


@dataclass(frozen=True, slots=True)
class _ThreadSignal:
    """A `threading.Event` as the cancel signal of a turn."""

    event: ThreadEvent

    def is_set(self) -> bool:
        return self.event.is_set()

    async def wait(self) -> None:
        # Polled: a thread that waits for the event could not be ended with the turn.
        while not self.event.is_set():  # noqa: ASYNC110
            await anyio.sleep(_POLL_SECONDS)


def _check_no_loop(remedy: str) -> None:
    try:
        current_token()
    except RuntimeError:
        return
    raise UsageError(f"An event loop runs in this thread and would be blocked; {remedy}.", field="function")


async def _call_async(function: Callable[..., Awaitable[T]], args: tuple[object, ...], kwargs: dict[str, object]) -> T:
    return await function(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class _Raised:
    """The error that a function raised, in place of its result."""

    error: BaseException


class _BackgroundLoop:
    """The background event loop of this process, in its own thread."""

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)  # threads do not survive a fork

    def _reset(self) -> None:
        self._lock = Lock()
        self._portal: BlockingPortal | None = None
        self._thread: Thread | None = None

    def run(self, function: Callable[[], Awaitable[T]]) -> T:
        future = self._get_portal().start_task_soon(_capture_result, function)
        try:
            outcome = future.result()
        except BaseException:
            future.cancel()
            raise
        if isinstance(outcome, _Raised):
            raise outcome.error
        return outcome

    def _get_portal(self) -> BlockingPortal:
        with self._lock:
            if self._portal is None:
                begun: SimpleQueue[BlockingPortal] = SimpleQueue()
                self._thread = Thread(target=anyio.run, args=(_serve, begun), name="spindle-blocking", daemon=True)
                self._thread.start()
                self._portal = begun.get()
                atexit.register(self._stop)
            return self._portal

    def _stop(self) -> None:
        """Stop the loop at exit: cancel running tasks and give them time to clean up."""
        with self._lock:
            portal, thread, self._portal = self._portal, self._thread, None
        if portal is not None and thread is not None:
            portal.start_task_soon(partial(portal.stop, cancel_remaining=True))
            thread.join(_STOP_SECONDS)


async def _serve(begun: "SimpleQueue[BlockingPortal]") -> None:
    async with BlockingPortal() as portal:
        begun.put(portal)
        await portal.sleep_until_stopped()


async def _capture_result(function: Callable[[], Awaitable[T]]) -> T | _Raised:
    """Return the result or the error of a function, so that errors reach the caller and not the shared loop."""
    try:
        return await function()
    except anyio.get_cancelled_exc_class():
        raise
    except BaseException as error:  # noqa: BLE001 - SystemExit too would stop the shared loop
        return _Raised(error)


_background = _BackgroundLoop()
