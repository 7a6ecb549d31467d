"""How many calls of one executor may run at once, over all its batches."""

from collections import deque

import anyio


class Slots:
    """Counted places, given out in the order they were asked for; a free one costs no wait and no switch."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[anyio.Event] = deque()

    def take_free(self) -> bool:
        """Take a place if one is free and nobody waits for it; tells whether."""
        if not self._free or self._waiting:
            return False
        self._free -= 1
        return True

    async def take(self) -> None:
        """Take a place, waiting for one where none is free."""
        if self.take_free():
            return
        mine = anyio.Event()
        self._waiting.append(mine)
        try:
            await mine.wait()
        except BaseException:
            if mine.is_set():
                self.give()  # it was handed over while we were leaving
            else:
                self._waiting.remove(mine)
            raise

    def give(self) -> None:
        """Give the place back, or on to who has waited longest."""
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._free += 1
