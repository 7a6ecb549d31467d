"""Tools that differ between users: each sees his own, and a call still says what to do."""

from typing import Any, cast

import pytest
from mcp.client.client import Client

from spindle import Executor, ToolFilter, ToolRegistry, tool
from spindle.mcp import ToolServer
from spindle.mcp.client.catalog import UpstreamCatalog
from spindle.mcp.server.sessions import Caller
from spindle.mcp.server.user_tools import hide_tools

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


@tool
def shared() -> str:
    """Be there for all."""
    return "shared"


@tool
def private() -> str:
    """Be there for one."""
    return "the call decides"


class Users:
    """The tools of users, of whom one has logged in."""

    def __init__(self) -> None:
        self.connected: list[str | None] = []
        self.features = UpstreamCatalog()

    async def connect_user(self, user: str | None) -> None:
        self.connected.append(user)

    def find_hidden_tools(self, user: str | None) -> frozenset[str]:
        return frozenset() if user == "ann" else frozenset({"private"})


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("user", ["ann", "bob", None])
async def test_a_list_has_the_tools_of_its_user(user: str | None, mode: str) -> None:
    users, registry = Users(), ToolRegistry([shared, private])
    caller = Caller(key=f"of {user}", user=user)
    server = ToolServer(
        Executor(registry), registry, identify=lambda _ctx: caller, upstream=cast("Any", users), is_fenced=False
    )
    async with Client(server.sdk, mode=mode) as client:
        listed = {each.name for each in (await client.list_tools()).tools}
        called: Any = await client.call_tool("private", {})

    assert ("private" in listed) == (user == "ann")
    assert "shared" in listed
    assert users.connected
    assert set(users.connected) == {user}
    assert called.content[0].text == "the call decides"


def test_hidden_tools_never_widen_a_profile() -> None:
    profile = ToolFilter(allowed_tools=["shared"], exclude_tools=["other"])
    hidden = hide_tools(profile, frozenset({"private"}))

    assert hide_tools(profile, frozenset()) is profile
    assert hidden is not None
    assert (hidden.allowed_tools, hidden.exclude_tools) == ({"shared"}, {"other", "private"})
    assert hide_tools(None, frozenset({"private"})) == ToolFilter(exclude_tools=["private"])
