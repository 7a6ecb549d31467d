"""Notifications of changed tools."""

from typing import Any

import anyio
import pytest
from mcp.server.subscriptions import InMemorySubscriptionBus

from spindle.mcp.server import feature_changes, tool_changes
from spindle.mcp.server.tool_changes import ToolChanges

pytestmark = pytest.mark.anyio


class Client:
    def __init__(self, *, reads: bool) -> None:
        self.reads, self.notified = reads, 0

    async def notify_change(self) -> None:
        if not self.reads:
            await anyio.sleep_forever()
        self.notified += 1


async def test_a_client_that_reads_nothing_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_changes, "NOTIFY_SECONDS", 0.01)
    monkeypatch.setattr(feature_changes, "NOTIFY_SECONDS", 0.01)
    sessions: Any = None
    stuck, other = Client(reads=False), Client(reads=True)
    clients: list[Any] = [stuck, other]

    with anyio.fail_after(30):
        await ToolChanges(InMemorySubscriptionBus(), sessions, None).notify(clients)
        await feature_changes._send(stuck.notify_change)  # pyright: ignore[reportPrivateUsage]

    assert other.notified == 1
