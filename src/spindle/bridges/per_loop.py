"""One value for each event loop: an HTTP client's connections belong to the loop they were opened on."""

from collections.abc import Callable
from typing import Generic, TypeVar

from anyio.lowlevel import RunVar

_T = TypeVar("_T")


class PerLoop(Generic[_T]):
    """Makes a value on first use, and again on another event loop."""

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self._made: RunVar[_T | None] = RunVar("made", None)

    def get(self) -> _T:
        """Give the value of the running event loop."""
        made = self._made.get()
        if made is None:
            made = self._make()
            self._made.set(made)
        return made

    def take(self) -> _T | None:
        """Give the value of the running event loop, if one was made, and forget it."""
        made = self._made.get()
        self._made.set(None)
        return made
