"""Waking a task, from any thread, on asyncio and on trio."""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from threading import get_ident
from typing import Any, TypeAlias

from anyio import Event
from anyio.lowlevel import EventLoopToken, current_token

Schedule: TypeAlias = Callable[[Callable[[], object]], object]

home_loop: ContextVar[EventLoopToken | None] = ContextVar("home_loop", default=None)
"""In the thread of a sync handler: the event loop that its call belongs to."""


def schedule_here() -> Schedule:
    """Give what runs a function soon on this event loop: from any thread, in order, without waiting for it.

    Calling it after the loop was closed raises `RuntimeError`.
    """
    loop: Any = current_token().native_token
    return loop.call_soon_threadsafe if hasattr(loop, "call_soon_threadsafe") else loop.run_sync_soon


class Wakeup:
    """An event that a task of this loop waits for, and any thread may set."""

    __slots__ = ("_event", "_home", "_schedule")

    def __init__(self) -> None:
        self._event = Event()
        self._home = get_ident()
        self._schedule = schedule_here()

    def set(self) -> None:
        """Wake those who wait; when their loop is closed there is nobody left to wake."""
        with suppress(RuntimeError):
            if get_ident() == self._home:
                self._event.set()
            else:
                self._schedule(self._event.set)

    async def wait(self) -> None:
        """Wait until it is set."""
        await self._event.wait()
