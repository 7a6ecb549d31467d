"""Servers with OAuth: every user has a connection of his own, and no token is ever sent for anybody else."""

import itertools
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle import Call, CallOutcome, Err, Executor, Ok, ToolContext
from spindle.errors import LoginRequiredError, UsageError
from spindle.journal import Journal
from spindle.mcp import McpServers, ServerSpec
from spindle.mcp.client import user_connections
from spindle.mcp.oauth import Logins, LoginSettings
from tests.mcp.authorization import (
    Issuer,
    Upstream,
    log_in,
    oauth_spec,
    open_logins,
    running_issuer,
    running_upstream,
)
from tests.mcp.upstreams import IN_TIME, EventLog, HandClock

pytestmark = pytest.mark.anyio
one_loop = pytest.mark.one_loop
USERS, NAMES = ("ann", "bob"), ("one", "two", "three")


@pytest.fixture
def issuer() -> Generator[Issuer]:
    with running_issuer() as running:
        yield running


@pytest.fixture
def upstreams(issuer: Issuer) -> Generator[dict[str, Upstream]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(running_upstream(issuer)) for name in NAMES}


@asynccontextmanager
async def connected(
    logins: Logins, *specs: ServerSpec, users: tuple[str, ...] = USERS, **more: Any
) -> AsyncGenerator[McpServers]:
    more.setdefault("events", EventLog().events)
    with anyio.fail_after(IN_TIME):
        async with McpServers(specs, logins=logins, **more) as servers:
            for user in users:
                await servers.connect_user(user)
            yield servers


async def ask(servers: McpServers, user: str | None, tool: str, **more: Any) -> CallOutcome:
    caller = None if user is None else {"user": user}
    ctx = ToolContext("s1", turn_id="t", caller=caller)
    [outcome] = await Executor(servers.registry, **more).execute_parallel([Call("c1", tool)], ctx)
    return outcome


def text_of(outcome: CallOutcome) -> str:
    return outcome.result.value if isinstance(outcome.result, Ok) else outcome.result.error


async def test_two_users_of_three_servers_never_share_a_token(
    issuer: Issuer, upstreams: dict[str, Upstream], tmp_path: Path
) -> None:
    logins = open_logins(tmp_path)
    specs = {name: oauth_spec(upstream, name) for name, upstream in upstreams.items()}
    for spec, user in itertools.product(specs.values(), USERS):
        await log_in(logins, spec, user, issuer, user)
    for upstream in upstreams.values():
        upstream.requests.clear()
    said: dict[tuple[str, str, int], str] = {}
    async with connected(logins, *specs.values()) as servers:

        async def run(user: str, name: str, number: int) -> None:
            said[user, name, number] = text_of(await ask(servers, user, f"mcp__{name}__whoami"))

        async with anyio.create_task_group() as tasks:
            for user, name, number in itertools.product(USERS, NAMES, range(5)):
                tasks.start_soon(run, user, name, number)

    assert len(said) == 30
    assert all(text.split()[0] == user for (user, _, _), text in said.items())
    for upstream in upstreams.values():
        seen = [issuer.access[token] for token in upstream.tokens]
        assert sorted(seen) == [("ann", upstream.url), ("bob", upstream.url)]
        assert not upstream.crossings
        assert sorted(upstream.sessions.values()) == ["ann", "bob"]
    every = [token for upstream in upstreams.values() for token in upstream.tokens]
    assert len(set(every)) == len(every) == 6


@one_loop
async def test_a_user_without_login_gets_the_command_and_nothing_is_sent(
    issuer: Issuer, upstreams: dict[str, Upstream], tmp_path: Path
) -> None:
    logins, upstream = open_logins(tmp_path), upstreams["one"]
    spec = oauth_spec(upstream, "one")
    await log_in(logins, spec, "ann", issuer, "ann")
    async with connected(logins, spec) as servers:
        upstream.requests.clear()
        refused = [await ask(servers, user, "mcp__one__whoami") for user in ("bob", None, "")]
        assert not upstream.requests

    for outcome in refused:
        assert isinstance(outcome.result, Err)
    assert isinstance(refused[0].result, Err)
    assert isinstance(cause := refused[0].result.cause, LoginRequiredError)
    assert (cause.user, cause.command) == ("bob", "spindle login one --user bob")
    assert cause.command in refused[0].result.error


@one_loop
async def test_a_user_has_only_the_tools_that_the_server_lists_for_him(
    issuer: Issuer, upstreams: dict[str, Upstream], tmp_path: Path
) -> None:
    logins, upstream = open_logins(tmp_path), upstreams["one"]
    spec = oauth_spec(upstream, "one")
    for user in USERS:
        await log_in(logins, spec, user, issuer, user)
    async with connected(logins, spec) as servers:
        hidden = {user: servers.find_hidden_tools(user) for user in (*USERS, "eve")}
        foreign = await ask(servers, "ann", "mcp__one__only_bob")
        calls = [json.loads(request.body) for request in upstream.requests if request.body]
        assert logins.remove(spec, "bob")
        gone = await ask(servers, "bob", "mcp__one__whoami")
        left = sorted(tool.name for tool in servers.registry)

    assert hidden["ann"] == {"mcp__one__only_bob"}
    assert hidden["bob"] == {"mcp__one__only_ann"}
    assert hidden["eve"] == {"mcp__one__whoami", "mcp__one__only_ann", "mcp__one__only_bob"}
    assert isinstance(foreign.result, Err)
    assert not any(call["method"] == "tools/call" for call in calls)
    assert isinstance(gone.result, Err)
    assert isinstance(gone.result.cause, LoginRequiredError)
    assert left == ["mcp__one__only_ann", "mcp__one__whoami"]


@one_loop
async def test_a_rejected_token_is_refreshed_once_and_the_call_sent_again(
    issuer: Issuer, upstreams: dict[str, Upstream], tmp_path: Path
) -> None:
    logins, spec = open_logins(tmp_path), oauth_spec(upstreams["one"], "one")
    await log_in(logins, spec, "ann", issuer, "ann")
    async with connected(logins, spec, users=("ann",)) as servers:
        before = issuer.count("/token")
        issuer.access.clear()  # the issuer has withdrawn all access tokens
        said: list[str] = []

        async def run() -> None:
            said.append(text_of(await ask(servers, "ann", "mcp__one__whoami")))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(run)

    assert [text.split()[0] for text in said] == ["ann"] * 20
    assert issuer.count("/token") - before == 1


@one_loop
async def test_tokens_appear_in_no_result_event_or_journal(
    issuer: Issuer, upstreams: dict[str, Upstream], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="spindle")
    logins, upstream, log = open_logins(tmp_path), upstreams["one"], EventLog()
    spec = oauth_spec(upstream, "one")
    for user in USERS:
        await log_in(logins, spec, user, issuer, user)
    tokens = [await logins.get_token(spec, user) for user in USERS]
    upstream.says = " ".join(tokens)  # it tells everybody the tokens of all
    async with Journal.memory() as journal, connected(logins, spec, events=log.events) as servers:
        outcomes = [await ask(servers, user, "mcp__one__whoami", journal=journal) for user in USERS]
        entries = await journal.list()
        shown = [*map(repr, outcomes), *map(repr, entries), *log.warnings, caplog.text, repr(servers.status())]

    assert all(isinstance(outcome.result, Ok) for outcome in outcomes)
    assert not [text for text in shown if any(token in text for token in tokens)]


@one_loop
async def test_idle_connections_are_closed_and_the_number_is_bounded(
    issuer: Issuer, upstreams: dict[str, Upstream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_connections, "MAX_USERS", 2)
    logins, upstream, clock = open_logins(tmp_path), upstreams["one"], HandClock()
    spec = oauth_spec(upstream, "one")
    for user in (*USERS, "eve"):
        await log_in(logins, spec, user, issuer, user)
    async with connected(logins, spec, users=(), clock=clock) as servers:
        for user in (*USERS, "eve"):
            await servers.connect_user(user)
            clock.advance(1)
        opened = len(upstream.sessions)
        assert text_of(await ask(servers, "bob", "mcp__one__only_bob")).split()[0] == "bob"
        assert len(upstream.sessions) == opened  # still connected
        await clock.asleep(60)
        clock.advance(user_connections.IDLE_SECONDS + 60)
        await anyio.wait_all_tasks_blocked()
        assert [status.state for status in servers.status()] == ["idle"]
        assert text_of(await ask(servers, "ann", "mcp__one__only_ann")).split()[0] == "ann"
        assert not upstream.crossings


@one_loop
async def test_the_only_user_of_a_program_is_named_default(
    issuer: Issuer, upstreams: dict[str, Upstream], tmp_path: Path
) -> None:
    logins, spec, log = open_logins(tmp_path), oauth_spec(upstreams["one"], "one"), EventLog()
    async with connected(logins, spec, users=(), events=log.events) as servers:
        await servers.ready()
        assert log.warned_of("one", "spindle login one")
        await log_in(logins, spec, "default", issuer, "me")
        await servers.ready()
        assert text_of(await ask(servers, None, "mcp__one__whoami")).split()[0] == "me"
        assert await servers.ping("one") >= 0


def test_servers_with_oauth_need_logins() -> None:
    spec = ServerSpec(name="one", url="https://tools.example/mcp", oauth=LoginSettings())
    with pytest.raises(UsageError) as caught:
        McpServers([spec])
    assert caught.value.field == "logins"
