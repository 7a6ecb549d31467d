"""Notices within one process."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock

from anyio.lowlevel import checkpoint

from spindle.concurrency import Schedule, schedule_here
from spindle.journal.notices import Listener, check_notice


class Listeners:
    """Those who listen in this process, each with its event loop; used from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._listeners: dict[object, tuple[Schedule, Listener]] = {}

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def add(self, listener: Listener) -> Callable[[], None]:
        """Add a listener of this event loop; return a function that removes it."""
        token = object()
        with self._lock:
            self._listeners[token] = schedule_here(), listener
        return partial(self._remove, token)

    def _remove(self, token: object) -> None:
        with self._lock:
            self._listeners.pop(token, None)

    def deliver(self, text: str) -> None:
        """Pass a notice to every listener, on its own event loop."""
        with self._lock:
            waiting = list(self._listeners.items())
        for token, (schedule, _) in waiting:
            with suppress(RuntimeError):  # that event loop has ended
                schedule(partial(self._call, token, text))

    def _call(self, token: object, text: str) -> None:
        known = self._listeners.get(token)
        if known is not None:  # it may have been removed since
            known[1](text)


class MemoryNoticeBoard:
    """Notices to the listeners of this process."""

    def __init__(self) -> None:
        self._listeners = Listeners()

    async def publish(self, text: str) -> None:
        """Send a notice to all who listen."""
        check_notice(text)
        await checkpoint()
        self._listeners.deliver(text)

    async def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each notice from now on."""
        await checkpoint()
        return self._listeners.add(listener)
