"""Who a login is: whose logins its calls use, which policies judge them, and when it ends with its token."""

import time
from collections.abc import Mapping
from typing import Any

import pytest
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from spindle import Call, ToolContext, tool
from spindle.inspector import InspectorApp, PageLogins
from tests.inspector.benching import TOKEN, Bench

pytestmark = pytest.mark.anyio
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def reporting(callers: list[Mapping[str, Any] | None]) -> Any:
    """Build a tool that notes who calls it."""

    @tool
    async def report(ctx: ToolContext) -> str:
        """Note the caller."""
        callers.append(ctx.caller)
        return "noted"

    return report


async def finish(client: Any, started: Any) -> Any:
    assert started.status_code == 200, started.text
    answer = await client.get(f"/trials/{started.json()['id']}", seen=0, wait_seconds=20)
    return answer.json()


async def test_calls_of_a_profile_use_its_own_logins_and_policy_and_not_those_of_the_owner() -> None:
    callers: list[Mapping[str, Any] | None] = []
    bench = Bench(roles={"reader": "operator"}, tools=[reporting(callers)])
    await bench.executor.execute_parallel([Call("c", "report", {})], ToolContext("s"))
    [recorded] = (await bench.journal.search(limit=1)).calls
    app, again = bench.build_server(), {"key": recorded.idempotency_key}
    async with bench.connect(app, **BEARER) as by_token, bench.connect(app) as by_cookie, bench.log_in() as owner:
        login = await by_cookie.http.post("/api/v1/login", json={}, headers=BEARER)
        by_cookie.token = login.json()["token"]
        for client in (by_token, by_cookie, owner):
            await finish(client, await client.post("/trials", {"tool": "report", "args": {}}))
            await client.http.post("/api/v1/call/replay", params=again, json={}, headers=client.headers)

    made = [(each["user"], each.get("profile")) for each in callers[1:] if each is not None]
    assert made == [("profile:reader", "reader")] * 4 + [("default", None)] * 2


class PersonToken(AccessToken):
    """The token of a user of an authorization server, as the server notes it."""

    user: str


def as_person(bench: Bench, subject: str, expires_at: float) -> Any:
    """Return the page as a user of an authorization server reaches it."""
    token = PersonToken(
        token=subject,
        client_id=f"user-{subject}",
        scopes=[],
        expires_at=int(expires_at),
        subject="reader",
        claims={"iss": "https://issuer.test"},
        user=f"https://issuer.test#{subject}",
    )

    async def app(scope: Any, receive: Any, send: Any) -> None:
        has_token = any(name == b"authorization" for name, _ in scope["headers"])
        await bench.app(scope | ({"user": AuthenticatedUser(token)} if has_token else {}), receive, send)

    return app


async def test_persons_with_one_profile_have_trials_and_logins_of_their_own() -> None:
    callers: list[Mapping[str, Any] | None] = []
    bench = Bench(roles={"reader": "operator"}, tools=[reporting(callers)])
    later = time.time() + 600
    async with (
        bench.connect(as_person(bench, "ann", later), **BEARER) as ann,
        bench.connect(as_person(bench, "bob", later), **BEARER) as bob,
    ):
        made = await finish(ann, await ann.post("/trials", {"tool": "report", "args": {}}))
        await finish(bob, await bob.post("/trials", {"tool": "report", "args": {}}))
        hidden = await bob.get(f"/trials/{made['id']}")
        answered = await bob.post(f"/approvals/{await bench.ask()}/deny")

    assert [each and each["user"] for each in callers] == ["https://issuer.test#ann", "https://issuer.test#bob"]
    assert hidden.status_code == 404
    assert answered.json()["approval"]["answered_by"] == "profile reader, https://issuer.test#bob"


async def test_a_login_ends_with_the_token_that_it_was_made_with() -> None:
    bench = Bench(roles={"reader": "viewer"}, now=time.time())
    assert bench.now is not None
    async with bench.connect(as_person(bench, "ann", bench.now + 300)) as client:
        login = await client.http.post("/api/v1/login", json={}, headers=BEARER)
        client.token = login.json()["token"]
        before = await client.get("/calls")
        bench.now += 301
        after = await client.get("/calls")

    assert (before.status_code, after.status_code) == (200, 401)


async def test_a_login_ends_when_its_token_is_not_configured_any_more() -> None:
    bench = Bench(roles={"reader": "viewer"})
    async with bench.connect(bench.build_server()) as client:
        login = await client.http.post("/api/v1/login", json={}, headers=BEARER)
        client.token = login.json()["token"]
        found = bench.logins.clients
        statuses: list[int] = []
        for clients in (None, {"of another token"}):
            logins = PageLogins(key=bench.key, states=bench.journal.states, roles=bench.roles, clients=clients)
            async with bench.connect(InspectorApp(bench.bench, logins)) as restarted:
                restarted.copy_login(client)
                statuses.append((await restarted.get("/calls")).status_code)

    assert (found, statuses) == (None, [200, 401])
