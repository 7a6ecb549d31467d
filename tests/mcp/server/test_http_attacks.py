"""Unauthenticated clients and clients that claim to be others."""

import json
from typing import Any

import httpx
import mcp_types as types
import pytest

from spindle import Executor, ToolRegistry
from spindle.mcp.server.http import HttpSettings, http_app
from spindle.mcp.server.http_callers import token_hash
from spindle.mcp.server.tool_server import ToolServer
from tests.mcp.server.test_http import READER, TOKENS, WRITER, at_the_door, client_of, lines, served, text_of

pytestmark = pytest.mark.anyio

MODERN = "2026-07-28"
ABOUT = {
    types.PROTOCOL_VERSION_META_KEY: MODERN,
    types.CLIENT_INFO_META_KEY: {"name": "stranger", "version": "1"},
    types.CLIENT_CAPABILITIES_META_KEY: {},
}
PLAIN = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn supports only asyncio


def bearer(token: str) -> dict[str, str]:
    return {**PLAIN, "authorization": f"Bearer {token}"}


async def modern(http: httpx.AsyncClient, address: str, method: str, params: Any, headers: dict[str, str]) -> Any:
    routing = {"mcp-protocol-version": MODERN, "mcp-method": method}
    if "name" in params:
        routing["mcp-name"] = params["name"]
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": ABOUT}}
    return await http.post(address, json=body, headers={**headers, **routing})


async def session_of(http: httpx.AsyncClient, address: str, token: str) -> str:
    opened = await http.post(address, json=INITIALIZE, headers=bearer(token))
    return opened.headers["mcp-session-id"]


async def test_naming_anothers_session_gives_nothing_of_it() -> None:
    """The newer protocol does not check that header, so it must not be trusted."""
    async with served(tokens=TOKENS) as address, httpx.AsyncClient(timeout=60) as http:
        session = await session_of(http, address, WRITER)
        own = {**bearer(WRITER), "mcp-session-id": session}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        await http.post(address, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=own)
        theirs = await http.post(address, json=listing, headers=own)
        stolen = {**bearer(READER), "mcp-session-id": session}
        old = await http.post(address, json=listing, headers=stolen)
        new = await modern(http, address, "tools/list", {}, stolen)
        called = await modern(http, address, "tools/call", {"name": "write", "arguments": {"text": "x"}}, stolen)

    assert '"write"' in theirs.text
    assert old.status_code == 404
    assert "write" not in {each["name"] for each in new.json()["result"]["tools"]}
    assert called.json()["result"]["isError"] is True


async def test_a_made_up_session_is_none() -> None:
    async with served(tokens=TOKENS) as address, httpx.AsyncClient(timeout=60) as http:
        headers = {**bearer(READER), "mcp-session-id": "0" * 32}
        answer = await http.post(address, json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, headers=headers)

    assert answer.status_code == 404


NEARLY: dict[str, list[tuple[str, str]]] = {
    "two": [("authorization", "Bearer wrong"), ("authorization", f"Bearer {READER}")],
    "two, turned": [("authorization", f"Bearer {READER}"), ("authorization", "Bearer wrong")],
    "list": [("authorization", f"Bearer {READER}, Bearer wrong")],
    "case": [("authorization", f"Bearer {READER.upper()}")],
    "hash": [("authorization", f"Bearer {token_hash(READER)}")],
    "longer": [("authorization", f"Bearer {READER}x")],
    "scheme": [("authorization", f"Token {READER}")],
    "other header": [("x-authorization", f"Bearer {READER}")],
    "cookie": [("cookie", f"authorization=Bearer {READER}")],
}


@pytest.mark.slow
async def test_a_token_that_differs_slightly_is_rejected() -> None:
    async with at_the_door(tokens=TOKENS) as http:
        answers = {
            name: (await http.post("/mcp", json=INITIALIZE, headers=[*PLAIN.items(), *headers])).status_code
            for name, headers in NEARLY.items()
        }
        asked = await http.post(f"/mcp?access_token={READER}&token={READER}", json=INITIALIZE, headers=PLAIN)

    assert answers == dict.fromkeys(NEARLY, 401)
    assert asked.status_code == 401


async def test_the_scheme_is_written_in_any_way() -> None:
    ways = [f"bearer {READER}", f"BEARER {READER}", f"Bearer   {READER}"]
    async with served(tokens=TOKENS) as address, httpx.AsyncClient(timeout=60) as http:
        answers = [
            (await http.post(address, json=INITIALIZE, headers={**PLAIN, "authorization": way})).status_code
            for way in ways
        ]

    assert answers == [200, 200, 200]


async def test_a_request_without_a_token_learns_nothing_about_the_server() -> None:
    async with at_the_door(tokens=TOKENS) as http:
        answers = {
            f"{method} {path}": (await http.request(method, f"http://127.0.0.1{path}")).status_code
            for path in ("", "/", "//mcp", "/MCP", "/mcp/", "/docs", "/openapi.json", "/health/x")
            for method in ("GET", "POST", "DELETE", "OPTIONS", "PUT")
        }

    assert set(answers.values()) == {401}, answers


MISLED: dict[str, tuple[list[tuple[str, str]], int]] = {
    "user info": ([("host", "localhost:80@evil.example")], 421),
    "longer": ([("host", "localhost.evil.example")], 421),
    "origin with user info": ([("host", "127.0.0.1"), ("origin", "http://localhost:80@evil.example")], 403),
    "two origins": ([("host", "127.0.0.1"), ("origin", "http://localhost:1"), ("origin", "http://evil.example")], 403),
    "longer origin": ([("host", "127.0.0.1"), ("origin", "http://localhost.evil.example:80")], 403),
}


async def test_names_that_only_begin_like_ours_are_refused() -> None:
    async with served() as address, httpx.AsyncClient(timeout=60) as http:
        where = address.removesuffix("/mcp") + "/health"
        answers = {name: (await http.get(where, headers=headers)).status_code for name, (headers, _) in MISLED.items()}

    assert answers == {name: status for name, (_, status) in MISLED.items()}


def test_a_server_is_called_by_the_address_it_listens_on() -> None:
    allowed = HttpSettings(host="10.0.0.7", tokens=TOKENS).build_security().allowed_hosts
    everywhere = HttpSettings(host="0.0.0.0", tokens=TOKENS).build_security().allowed_hosts

    assert {"10.0.0.7", "10.0.0.7:*"} <= set(allowed)
    assert not any(each.startswith("0.0.0.0") for each in everywhere)


JUNK: dict[str, bytes] = {
    "nothing": b"",
    "half": b"{",
    "null": b"null",
    "batch": b"[]",
    "deep": b"[" * 100_000,
    "deeper": b'{"a":' * 50_000,
    "no text": b"\xff\xfe",
    "number": b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}',
    "params": json.dumps({**INITIALIZE, "params": json.loads("[" * 150 + "]" * 150)}).encode(),
    "surrogate": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"a":"\\ud800"}}}',
}


async def test_junk_is_refused_and_the_server_goes_on() -> None:
    routing = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call"}
    async with served() as address, httpx.AsyncClient(timeout=60) as http:
        answers = {
            (name, is_new): await http.post(address, content=body, headers={**PLAIN, **(routing if is_new else {})})
            for name, body in JUNK.items()
            for is_new in (False, True)
        }
        async with client_of(address, MODERN) as client:
            after = await client.call_tool("write", {"text": "still there"})

    assert {each for each, answer in answers.items() if not 400 <= answer.status_code < 500} == set()
    assert not any("Traceback" in answer.text for answer in answers.values())
    assert "still there" in text_of(after)


async def test_hostile_arguments_are_answered_without_an_escape() -> None:
    hostile: list[dict[str, Any]] = [
        {"count": "\x1b[31m9"},
        {"count": 1, "\x1b[31m": 1},
        {"count": [[[]]]},
        {"count": 1e308},
    ]
    async with served() as address, httpx.AsyncClient(timeout=60) as http:
        answers = [
            await modern(http, address, "tools/call", {"name": "lines", "arguments": each}, PLAIN) for each in hostile
        ]

    for answer in answers:
        result = answer.json()["result"]
        assert result["isError"] is True
        assert "\x1b" not in result["content"][0]["text"]


async def test_the_health_page_says_to_everybody_that_something_is_wrong() -> None:
    registry = ToolRegistry([lines])
    server = ToolServer(Executor(registry), registry)
    app = http_app(
        server, HttpSettings(tokens=TOKENS), health=lambda: {"status": "failing", "servers": [{"name": "secret"}]}
    )
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        answer = await http.get("/health")

    assert answer.status_code == 503
    assert answer.json() == {"status": "failing"}


async def test_a_session_id_is_not_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = ToolServer._get_session  # pyright: ignore[reportPrivateUsage]  what is handed to the journal

    def noted(self: ToolServer, ctx: Any) -> Any:
        session = real(self, ctx)
        seen.append(session.key)
        return session

    monkeypatch.setattr(ToolServer, "_get_session", noted)
    async with served(tokens=TOKENS) as address, httpx.AsyncClient(timeout=60) as http:
        session = await session_of(http, address, WRITER)
        headers = {**bearer(WRITER), "mcp-session-id": session}
        await http.post(address, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        await http.post(address, json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, headers=headers)

    assert seen
    assert not any(session in key or WRITER in key for key in seen)
