"""Stopping a turn: a flag everyone sees, and a word to all who are waiting."""

from collections.abc import Callable
from contextlib import suppress


class Abort:
    """Set once; who registered is told at once, or right away when it is too late."""

    def __init__(self, parent: "Abort | None" = None) -> None:
        self._aborted = False
        self._listeners: list[Callable[[], object]] = []
        if parent is not None:
            parent.on_abort(self.abort)

    @property
    def aborted(self) -> bool:
        """Whether it was set."""
        return self._aborted

    def abort(self) -> None:
        """Set it; a second time does nothing."""
        if self._aborted:
            return
        self._aborted = True
        for listener in list(self._listeners):
            with suppress(Exception):
                listener()

    def on_abort(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Have a function called when it is set; gives back the function that takes it off again."""
        self._listeners.append(listener)
        if self._aborted:
            listener()

        def forget() -> None:
            with suppress(ValueError):
                self._listeners.remove(listener)

        return forget
