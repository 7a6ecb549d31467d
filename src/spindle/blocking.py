"""Sync API: the names of the async core, for programs and handlers without an event loop.

All calls of a process run on one background event loop. It starts with the first call and stops at exit, so that
clients and connections stay open between calls. A sync handler uses the loop that its own call runs on.
"""

import atexit
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar, cast

import anyio
from anyio.from_thread import BlockingPortal
from anyio.from_thread import run as run_from_thread
from anyio.lowlevel import current_token

from spindle.calls import Call, CallOutcome
from spindle.concurrency import owner_loop
from spindle.errors import UsageError
from spindle.events import Observer
from spindle.execution.executor import Executor as AsyncExecutor
from spindle.stash import Stash
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.turns.runner import TurnReport
from spindle.turns.runner import TurnRunner as AsyncTurnRunner

__all__ = ["Executor", "TurnRunner", "run"]

T = TypeVar("T")
_STOP_SECONDS = 5.0


def run(function: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T:
    """Call an async function and return its result; interrupting the wait, such as by Ctrl-C, cancels it.

    Raises:
        UsageError: An event loop runs in this thread and would be blocked: use `await` instead.
    """
    name = getattr(function, "__qualname__", repr(function))
    if _has_running_loop():
        raise UsageError(
            f"an event loop runs in this thread and would be blocked; use await {name}(…) instead", field="function"
        )
    home = owner_loop.get()
    if home is not None:
        return run_from_thread(partial(_call_async, function, args, kwargs), token=home)
    return _background.run(partial(_call_async, function, args, kwargs))


class Executor:
    """The sync executor; takes the same arguments as `spindle.Executor`."""

    def __init__(self, registry: ToolRegistry, **settings: Any) -> None:
        self.executor = AsyncExecutor(registry, **settings)
        """The wrapped async object."""

    def execute_parallel(
        self, calls: Iterable[Call], ctx: Any, filter: ToolFilter | None = None, attachments: Sequence[Any] = ()
    ) -> list[CallOutcome]:
        """Run calls in parallel and return one outcome for each, in order.

        Raises:
            InvalidContextError: `ctx` is not a context.
            UsageError: An event loop runs in this thread.
        """
        return run(self.executor.execute_parallel, calls, ctx, filter, attachments)


class TurnRunner:
    """The sync turn runner; takes the same arguments as `spindle.TurnRunner`."""

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
        messages: Iterable[Any] = (),
        stash: Stash | Mapping[str, Any] | None = None,
        session_id: str | None = None,
    ) -> TurnReport:
        """Run one turn.

        Raises:
            InvalidTurnContextError: A value is invalid; nothing was started.
            UsageError: An event loop runs in this thread.
        """
        return run(self.runner.run, system_prompt=system_prompt, messages=messages, stash=stash, session_id=session_id)


def _has_running_loop() -> bool:
    try:
        current_token()
    except RuntimeError:
        return False
    return True


async def _call_async(function: Callable[..., Awaitable[T]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    return await function(*args, **kwargs)


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
            value, error = future.result()
        except BaseException:
            future.cancel()
            raise
        if error is not None:
            raise error
        return cast("T", value)

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


async def _capture_result(function: Callable[[], Awaitable[T]]) -> tuple[T | None, BaseException | None]:
    """Return the result or the error of a function, so that errors reach the caller and not the shared loop."""
    try:
        return await function(), None
    except anyio.get_cancelled_exc_class():
        raise
    except BaseException as error:  # noqa: BLE001 - SystemExit too would stop the shared loop
        return None, error


_background = _BackgroundLoop()
