"""The connection of a process to an engine: one asyncio thread, connected on first use, patient while it restarts."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio

from spindle.engines.asyncio_thread import AsyncioThread
from spindle.engines.client import EngineClient
from spindle.engines.settings import EngineSettings
from spindle.errors import EngineUnavailableError

T = TypeVar("T")

_RETRY_SECONDS = 0.5
"""The wait before an engine that cannot be reached is asked again."""
_CLOSE_SECONDS = 10.0


class EngineConnection:
    """Runs the methods of an `EngineClient`; usable from several event loops and threads."""

    def __init__(self, client: EngineClient, settings: EngineSettings) -> None:
        self._client = client
        self._settings = settings
        self._thread = AsyncioThread(f"spindle-{settings.engine}")
        self._has_connected = False

    async def open(self) -> None:
        """Connect, unless that was done before.

        Raises:
            EngineUnavailableError: The engine cannot be reached for `connect_seconds`.
        """
        if self._has_connected:
            return
        problem: EngineUnavailableError | None = None
        with anyio.move_on_after(self._settings.connect_seconds):
            while True:
                try:
                    await self.try_once()
                except EngineUnavailableError as error:
                    problem = error
                    await anyio.sleep(_RETRY_SECONDS)
                else:
                    return
        raise problem or EngineUnavailableError("The engine did not answer in time.")

    async def try_once(self) -> None:
        """Connect with one attempt.

        Raises:
            EngineUnavailableError: The engine cannot be reached.
        """
        await self._thread.run(self._client.connect)
        self._has_connected = True

    async def repeat(self, func: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a method of the client; again as long as the engine cannot be reached. The caller has the deadline."""
        while True:
            try:
                return await self._thread.run(func)
            except EngineUnavailableError:
                await anyio.sleep(_RETRY_SECONDS)

    async def close(self) -> None:
        """Close the connection to the engine."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSE_SECONDS):
            if self._has_connected:
                await self._thread.run(self._client.close)
        self._thread.close()
