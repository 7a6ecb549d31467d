"""Servers with OAuth behind the gateway: lists, contents and changes reach the user whose connection they came over."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import anyio
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.server.subscriptions import PromptsListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError

from spindle import Executor
from spindle.errors import LoginRequiredError
from spindle.mcp import McpServers, ServerSpec, ToolServer
from spindle.mcp.client.session_factory import SessionFactory
from spindle.mcp.oauth import LoginSettings
from spindle.mcp.server import feature_changes, feature_lists
from spindle.mcp.server.serve import propagate_changes
from spindle.mcp.server.sessions import Caller
from tests.mcp.memory_upstreams import MODES, NEWER, OLDER, MemoryLink, Upstream
from tests.mcp.upstreams import IN_TIME, EventLog

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
OURS = pytest.mark.parametrize("ours", [OLDER, NEWER])
URI = "spindle://up/note:a"


class FakeLogins:
    """Users who have logged in; each token is the name of its user."""

    def __init__(self, *users: str) -> None:
        self.users = users

    def has_login(self, _spec: ServerSpec, user: str) -> bool:
        return user in self.users

    def list_users(self, _spec: ServerSpec) -> list[str]:
        return list(self.users)

    async def get_token(self, _spec: ServerSpec, user: str) -> str:
        return f"the token of {user}"

    def build_error(self, spec: ServerSpec, user: str) -> LoginRequiredError:
        return LoginRequiredError(f"run: login {user}", server=spec.name, user=user, command=f"login {user}")


@dataclass
class UserGateway:
    """A gateway whose clients say who their user is."""

    servers: McpServers
    server: ToolServer
    users: list[str]

    @asynccontextmanager
    async def client(self, user: str, mode: str, **options: Any) -> AsyncGenerator[Client]:
        async with Client(self.server.sdk, mode=MODES[mode], client_info=name_client(user), **options) as connected:
            yield connected


def name_client(user: str) -> types.Implementation:
    return types.Implementation(name=user, version="1")


def identify(ctx: Any) -> Caller:
    """Take the name of the client for that of its user."""
    params = ctx.session.client_params
    user = params.client_info.name
    return Caller(key=f"of {user}", user=user)


@asynccontextmanager
async def user_gateway(monkeypatch: pytest.MonkeyPatch, upstreams: dict[str, Upstream]) -> AsyncGenerator[UserGateway]:
    """Serve one server with OAuth that is another one for each user."""

    async def link(self: SessionFactory) -> MemoryLink:
        token = await cast("Any", self)._services.tokens.get()
        return MemoryLink(upstreams[token.removeprefix("the token of ")])

    monkeypatch.setattr(SessionFactory, "_link", link)
    spec = ServerSpec(name="up", url="https://up.example/mcp", oauth=LoginSettings())
    logins: Any = FakeLogins(*upstreams)
    with anyio.fail_after(IN_TIME):
        async with McpServers([spec], logins=logins, events=EventLog().events) as servers:
            registry = servers.registry
            server = ToolServer(Executor(registry), registry, upstream=servers, identify=identify)
            async with propagate_changes(server, lambda _fn: lambda: None):
                yield UserGateway(servers, server, list(upstreams))


class Heard:
    """The notifications that a client has received."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self._news = anyio.Event()

    async def __call__(self, message: Any) -> None:
        self.messages.append(message)
        self._news.set()
        self._news = anyio.Event()

    def of(self, kind: type) -> list[Any]:
        return [each for each in self.messages if isinstance(each, kind)]

    async def until(self, kind: type) -> Any:
        while not self.of(kind):
            await self._news.wait()
        return self.of(kind)[0]


def two_users() -> dict[str, Upstream]:
    return {
        user: Upstream(prompts={f"of_{user}": "Hello"}, resources={"note:a": f"text of {user}", f"note:{user}": "own"})
        for user in ("ann", "bob")
    }


@OURS
async def test_each_user_of_the_gateway_lists_and_reads_what_is_his(ours: str, monkeypatch: Any) -> None:
    upstreams = two_users()
    async with (
        user_gateway(monkeypatch, upstreams) as gateway,
        gateway.client("ann", ours) as ann,
        gateway.client("bob", ours) as bob,
        gateway.client("eve", ours) as eve,
    ):
        listed = [sorted(each.uri for each in (await one.list_resources()).resources) for one in (ann, bob, eve)]
        prompts = [[each.name for each in (await one.list_prompts()).prompts] for one in (ann, bob, eve)]
        read: list[Any] = [(await one.read_resource(URI)).contents[0] for one in (ann, bob)]
        with pytest.raises(MCPError) as refused:
            await eve.read_resource(URI)
        with pytest.raises(MCPError) as missing:
            await bob.get_prompt("mcp__up__of_ann")

    assert listed == [[URI, "spindle://up/note:ann"], [URI, "spindle://up/note:bob"], []]
    assert prompts == [["mcp__up__of_ann"], ["mcp__up__of_bob"], []]
    assert [each.text for each in read] == ["text of ann", "text of bob"]
    assert "login eve" in refused.value.message
    assert missing.value.code == types.INVALID_PARAMS
    assert all(upstream.asked == [("read", "note:a")] for upstream in upstreams.values())


async def test_a_cursor_of_one_user_opens_no_list_of_another(monkeypatch: Any) -> None:
    monkeypatch.setattr(feature_lists, "PAGE_SIZE", 1)
    async with (
        user_gateway(monkeypatch, two_users()) as gateway,
        gateway.client("ann", NEWER) as ann,
        gateway.client("bob", NEWER) as bob,
    ):
        cursor = (await ann.list_resources()).next_cursor
        rest = [each.uri for each in (await ann.list_resources(cursor=cursor)).resources]
        with pytest.raises(MCPError) as caught:
            await bob.list_resources(cursor=cursor)

    assert rest == ["spindle://up/note:ann"]
    assert caught.value.code == types.INVALID_PARAMS


async def subscribe(client: Client, uri: str) -> None:
    request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
    await client.session.send_request(request, types.EmptyResult)


async def test_changes_reach_older_clients_of_their_user_only(monkeypatch: Any) -> None:
    monkeypatch.setattr(feature_changes, "LIST_SECONDS", 0.01)
    upstreams, heard = two_users(), {user: Heard() for user in ("ann", "bob")}
    async with (
        user_gateway(monkeypatch, upstreams) as gateway,
        gateway.client("ann", OLDER, message_handler=heard["ann"]) as ann,
        gateway.client("bob", OLDER, message_handler=heard["bob"]) as bob,
    ):
        for one in (ann, bob):
            await one.list_prompts()
            await subscribe(one, URI)
        with pytest.raises(MCPError):
            await subscribe(ann, "spindle://none/x:1")
        for each in heard.values():
            await each.until(types.PromptListChangedNotification)  # of the first listing
            each.messages.clear()
        upstreams["ann"].prompts["new"] = "New"
        await upstreams["ann"].report(PromptsListChanged())
        await upstreams["ann"].report(ResourceUpdated("note:a"))
        await heard["ann"].until(types.PromptListChangedNotification)
        updated = await heard["ann"].until(types.ResourceUpdatedNotification)
        before = heard["bob"].of(types.ResourceUpdatedNotification)
        await upstreams["bob"].report(ResourceUpdated("note:a"))
        await heard["bob"].until(types.ResourceUpdatedNotification)

    assert updated.params.uri == URI
    assert before == []
    assert [len(each.of(types.ResourceUpdatedNotification)) for each in heard.values()] == [1, 1]
    assert not heard["bob"].of(types.PromptListChangedNotification)


async def test_changes_reach_streams_of_their_user_only(monkeypatch: Any) -> None:
    upstreams = two_users()
    async with (
        user_gateway(monkeypatch, upstreams) as gateway,
        gateway.client("ann", NEWER) as ann,
        gateway.client("bob", NEWER) as bob,
        ann.listen(resource_subscriptions=[URI]) as of_ann,
        bob.listen(resource_subscriptions=[URI, "spindle://up/note:bob"]) as of_bob,
    ):
        assert all(upstream.subscribed >= {"note:a"} for upstream in upstreams.values())
        await upstreams["ann"].report(ResourceUpdated("note:a"))
        assert await anext(of_ann) == ResourceUpdated(URI)
        await upstreams["bob"].report(ResourceUpdated("note:bob"))
        # The update of the other user came before, and would have been sent first.
        assert await anext(of_bob) == ResourceUpdated("spindle://up/note:bob")
