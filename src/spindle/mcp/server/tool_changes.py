"""`ToolChanges`: notifies clients that the list of tools has changed, here and at other replicas."""

from collections.abc import Sequence
from typing import Final

import anyio
from mcp.server.subscriptions import InMemorySubscriptionBus, ToolsListChanged

from spindle.json_types import JsonObject
from spindle.mcp.server.replicas import Replica
from spindle.mcp.server.sessions import McpSession, McpSessions

NOTIFY_SECONDS: Final = 5.0
"""How long a notification waits for a client that does not read."""


class ToolChanges:
    """Notifies the clients of a server; `replica` is this server among others."""

    def __init__(self, bus: InMemorySubscriptionBus, sessions: McpSessions, replica: Replica | None) -> None:
        self._bus, self._sessions, self._replica = bus, sessions, replica
        if replica is not None:
            replica.on("tools_changed", self._hear)

    async def announce(self) -> None:
        """Notify every client, also of other replicas, that the list of tools has changed."""
        if self._replica is not None:
            self._replica.post("tools_changed", {})
        await self.notify(self._sessions.all())

    async def notify(self, sessions: Sequence[McpSession]) -> None:
        """Notify some clients of this server."""
        await self._bus.publish(ToolsListChanged())
        for session in sessions:
            with anyio.move_on_after(NOTIFY_SECONDS):  # a client that reads nothing must not hold up the others
                await session.notify_change()

    async def _hear(self, content: JsonObject) -> None:
        """Notify the clients here of a change at another replica: of all tools, or of the readers of one session."""
        key = content.get("session")
        session = None if key is None else self._sessions.find(key)
        if session is not None:
            session.is_current = False
        if key is None or session is not None:
            await self.notify(self._sessions.all() if session is None else [session])
