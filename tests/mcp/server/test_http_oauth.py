"""The server as an OAuth resource server: metadata, challenges, and users beside configured tokens."""

import importlib
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from spindle import Executor, ToolContext, ToolFilter, ToolRegistry, tool
from spindle.errors import MissingExtraError, UsageError
from spindle.mcp import HttpSettings, ToolServer, http_app
from spindle.mcp.oauth import ResourceSettings
from spindle.mcp.server.http_callers import identify_caller, token_hash
from tests.mcp.authorization import Issuer, running_issuer

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

RESOURCE = "https://gateway.example/mcp"
STATIC = "token-of-a-program"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def issuer() -> Generator[Issuer]:
    with running_issuer() as running:
        yield running


@tool
def whoami(ctx: ToolContext) -> str:
    """Say who calls."""
    return f"{ctx.session_id}|{(ctx.caller or {}).get('user')}"


@tool
def write(text: str) -> str:
    """Write something."""
    return f"wrote {text}"


def filter_of(profile: str | None) -> ToolFilter | None:
    return ToolFilter(allowed_tools=["whoami"]) if profile == "reader" else None


@asynccontextmanager
async def served(issuer: Issuer, **door: Any) -> AsyncGenerator[httpx.AsyncClient]:
    registry = ToolRegistry([whoami, write])
    server = ToolServer(Executor(registry), registry, identify=identify_caller, filter_of=filter_of, is_fenced=False)
    oauth = ResourceSettings(issuer=issuer.url, scopes={"tools": "reader", "admin": "writer"}, audience=RESOURCE)
    app = http_app(server, HttpSettings(oauth=oauth, allowed_hosts=["gateway.example"], **door))
    transport = httpx.ASGITransport(app)  # pyright: ignore[reportArgumentType] - Starlette's messages are typed less
    async with (
        httpx.AsyncClient(transport=transport, base_url="https://gateway.example") as client,
        server.sdk.session_manager.run(),
    ):
        yield client


async def call(client: httpx.AsyncClient, token: str, tool: str = "whoami", **args: str) -> httpx.Response:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": args, "_meta": meta}
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return await client.post("/mcp", json=message, headers=headers)


async def test_the_metadata_names_the_resource_and_the_issuer(issuer: Issuer) -> None:
    async with served(issuer) as client:
        at_path = await client.get("/.well-known/oauth-protected-resource/mcp")
        at_root = await client.get("/.well-known/oauth-protected-resource")

    assert at_path.json() == at_root.json()
    assert at_path.json() == {
        "resource": RESOURCE,
        "authorization_servers": [issuer.url],
        "scopes_supported": ["tools", "admin"],
        "bearer_methods_supported": ["header"],
    }


async def test_a_request_without_token_learns_where_to_get_one(issuer: Issuer) -> None:
    async with served(issuer) as client:
        answer = await client.post("/mcp", json={})

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == (
        'Bearer realm="spindle", scope="tools", '
        'resource_metadata="https://gateway.example/.well-known/oauth-protected-resource/mcp"'
    )


@pytest.mark.parametrize(
    ("claims", "status", "error"),
    [
        ({"exp": 1}, 401, "invalid_token"),
        ({"aud": "https://other.example/mcp"}, 401, "invalid_token"),
        ({"scope": "openid"}, 403, "insufficient_scope"),
        ({"scope": "tools admin"}, 403, "insufficient_scope"),
    ],
)
async def test_a_wrong_token_is_refused_with_the_reason(
    issuer: Issuer, claims: dict[str, Any], status: int, error: str
) -> None:
    async with served(issuer) as client:
        own: dict[str, Any] = {"aud": RESOURCE, **claims}
        token = issuer.make_token(**own)
        answer = await call(client, token)
        health = await client.get("/health", headers={"Authorization": f"Bearer {token}"})

    assert answer.status_code == status
    assert f'error="{error}"' in answer.headers["www-authenticate"]
    assert "resource_metadata=" in answer.headers["www-authenticate"]
    assert health.json() == {"status": "ok"}
    assert token not in answer.text + str(answer.headers) + health.text


async def test_users_and_profiles_are_kept_apart_and_configured_tokens_still_work(issuer: Issuer) -> None:
    async with served(issuer, tokens={token_hash(STATIC): "writer"}) as client:
        tokens = {
            "alice": issuer.make_token(aud=RESOURCE, sub="alice"),
            "alice again": issuer.make_token(aud=RESOURCE, sub="alice", jti="other"),
            "alice as writer": issuer.make_token(aud=RESOURCE, sub="alice", scope="admin"),
            "bob": issuer.make_token(aud=RESOURCE, sub="bob"),
            "program": STATIC,
        }
        seen = {who: (await call(client, token)).text for who, token in tokens.items()}
        written = {who: (await call(client, token, "write", text="x")).text for who, token in tokens.items()}

    said = {who: text.partition('"text":"')[2].partition('"')[0].split("|") for who, text in seen.items()}
    assert said["alice"] == said["alice again"]
    assert len({key for key, _ in said.values()}) == 4  # sessions, artifacts and approvals belong to one of them
    assert {who: user for who, (_, user) in said.items()} == {
        "alice": f"{issuer.url}#alice",
        "alice again": f"{issuer.url}#alice",
        "alice as writer": f"{issuer.url}#alice",
        "bob": f"{issuer.url}#bob",
        "program": "profile:writer",
    }
    assert [who for who, text in written.items() if "wrote x" in text] == ["alice as writer", "program"]


async def test_clients_keep_their_tokens_while_the_issuer_is_down() -> None:
    with running_issuer() as issuer:
        token = issuer.make_token(aud=RESOURCE)
    async with served(issuer) as client:
        answer = await call(client, token)

    assert answer.status_code == 503
    assert answer.headers["retry-after"]


async def test_rates_are_those_of_a_user_not_of_a_token(issuer: Issuer) -> None:
    async with served(issuer, max_requests_per_minute=2) as client:
        alice = [issuer.make_token(aud=RESOURCE, sub="alice", jti=str(n)) for n in range(3)]
        statuses = [(await call(client, token)).status_code for token in alice]
        other = await call(client, issuer.make_token(aud=RESOURCE, sub="bob"))

    assert [*statuses, other.status_code] == [200, 200, 429, 200]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("issuer", "http://login.example"),
        ("issuer", "https://login.example?tenant=x"),
        ("issuer", "https://user:password@login.example"),
        ("jwks_url", "http://login.example/jwks"),
        ("algorithms", ("HS256",)),
        ("algorithms", ("none",)),
        ("algorithms", ()),
        ("scopes", {}),
        ("scopes", {"with space": "reader"}),
        ("leeway_seconds", 3_600.0),
        ("audience", " "),
    ],
)
def test_unsafe_settings_are_refused(field: str, value: Any) -> None:
    given: dict[str, Any] = {"issuer": "https://login.example", "scopes": {"tools": "reader"}, field: value}
    with pytest.raises(UsageError) as caught:
        ResourceSettings(**given)
    assert caught.value.field == field


def test_a_server_for_other_machines_needs_its_public_url() -> None:
    registry = ToolRegistry([whoami])
    oauth = ResourceSettings(issuer="https://login.example", scopes={"tools": "reader"})
    with pytest.raises(UsageError) as caught:
        http_app(ToolServer(Executor(registry), registry), HttpSettings(host="0.0.0.0", oauth=oauth))
    assert caught.value.field == "resource"


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mcp.server.http_oauth", "mcp.oauth.issuer_keys", "mcp.oauth.verifier"):
        monkeypatch.delitem(sys.modules, f"spindle.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "joserfc", None)
    monkeypatch.setitem(sys.modules, "joserfc.errors", None)
    with pytest.raises(MissingExtraError) as caught:
        importlib.import_module("spindle.mcp.server.http_oauth")
    assert "oauth" in str(caught.value)
