"""Connections that hold on without asking anything are closed; uvicorn alone would keep them for ever."""

import asyncio
from typing import Any, Final

from typing_extensions import override
from uvicorn.protocols.http.auto import AutoHTTPProtocol

PATIENCE_SECONDS: Final = 30.0
"""A request must be there, whole, after one to two times this; how long an answer takes is another matter."""

_NOT_LOOKED: Final = object()


class ImpatientProtocol(AutoHTTPProtocol):
    """HTTP for clients that get to the point."""

    cycle: Any  # what uvicorn keeps of a connection, whichever of its parsers is there
    loop: Any
    transport: Any
    _clock: asyncio.TimerHandle | None = None
    _seen: object = _NOT_LOOKED

    @override
    def connection_made(self, transport: Any) -> None:
        """Begin to look at the clock."""
        super().connection_made(transport)
        self._look()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._clock is not None:
            self._clock.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        cycle = self.cycle
        is_idle = cycle is None or cycle.response_complete or cycle.more_body
        # The same as last time: nothing was asked in between either.
        if is_idle and self._seen is cycle:
            self.transport.close()
            return
        self._seen = cycle if is_idle else _NOT_LOOKED
        self._clock = self.loop.call_later(PATIENCE_SECONDS, self._look)
