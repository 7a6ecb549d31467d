"""Requests with secrets, to a real server on loopback."""

import base64
import json
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from spindle import Backends, Call, CallOutcome, Err, Events, Executor, Journal, Ok, ToolContext, ToolRegistry
from spindle.errors import HostNotAllowedError, SecretError, UsageError
from spindle.events import EVENT_NAMES
from spindle.kit.default_tools import KIT, kit_tools
from spindle.kit.request_secrets import build_http_request
from tests.capabilities.loopback import Request, Server, answer, redirect, serving

pytestmark = pytest.mark.anyio

KEY = "sk-live-4711-abcdef"
LOCAL: dict[str, Any] = {"hosts": ["127.0.0.1", "localhost"], "private_addresses": ["127.0.0.0/8", "::1/128"]}


@dataclass
class Desk:
    """One `http_request` with a journal and an observer of every event."""

    root: Path
    places: dict[str, list[str]]
    secrets: Any = field(default_factory=lambda: {"SHOP_KEY": KEY, "OTHER": "other-value"})
    received: list[str] = field(default_factory=list[str])
    journal: Journal = field(default_factory=Journal.memory)

    async def send(self, url: str, **args: Any) -> CallOutcome:
        tools = kit_tools(["web"], http_secrets=self.places)
        backends = Backends.local(self.root, secrets=self.secrets, **LOCAL)
        executor = Executor(ToolRegistry(tools), backends=backends, journal=self.journal)
        events = Events()
        for name in EVENT_NAMES:
            events.on(name, lambda payload: self.received.append(repr(payload)))
        call = Call("c1", "http_request", {"method": "GET", "url": url, **args})
        (outcome,) = await executor.execute_parallel([call], ToolContext(session_id="s1", events=events))
        return outcome


def reflect(request: Request, connection: socket.socket) -> bytes:
    """Answer with everything that was sent, in several disguises."""
    sent = request.headers.get("authorization", "") + request.headers.get("x-api-key", "")
    disguised = base64.b64encode(sent.encode()).decode()
    body = json.dumps({"sent": sent, "base64": disguised}).encode()
    return answer("200 OK", body, content_type="application/json", x_echo=sent)


def local(server: Server) -> dict[str, list[str]]:
    return {"SHOP_KEY": [server.url]}


async def test_a_secret_is_sent_and_only_the_server_sees_it(tmp_path: Path) -> None:
    with serving(reflect) as server:
        desk = Desk(tmp_path, local(server))
        outcome = await desk.send(f"{server.url}/a", bearer_secret="SHOP_KEY", headers={"accept": "text/plain"})

    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].headers["accept"] == "text/plain"
    assert isinstance(outcome.result, Ok)
    assert outcome.result.structured["headers"]["x-echo"] == "Bearer ***"
    kept = [repr(entry) for entry in await desk.journal.list()]
    assert kept
    assert desk.received
    for reported in (repr(outcome), *desk.received, *kept):
        assert KEY not in reported
        assert base64.b64encode(f"Bearer {KEY}".encode()).decode()[10:30] not in reported
    assert "SHOP_KEY" in kept[0]


async def test_a_header_of_its_own_carries_the_value_as_it_is(tmp_path: Path) -> None:
    with serving(reflect) as server:
        desk = Desk(tmp_path, local(server), secrets={"SHOP_KEY": f"{KEY}\n"})
        await desk.send(server.url, secret_headers={"X-Api-Key": "SHOP_KEY"})

    assert server.requests[0].headers["x-api-key"] == KEY


async def test_a_secret_goes_only_where_it_may(tmp_path: Path) -> None:
    asked: list[str] = []

    def look_up(name: str) -> str:
        asked.append(name)
        return KEY

    with serving(reflect) as server:
        elsewhere = [f"http://localhost:{server.port}", f"http://127.0.0.1:{server.port + 1}", "127.0.0.1"]
        for place in elsewhere:
            desk = Desk(tmp_path, {"SHOP_KEY": [place]}, secrets=look_up)
            outcome = await desk.send(server.url, bearer_secret="SHOP_KEY")
            assert isinstance(outcome.result, Err)
            assert isinstance(outcome.result.cause, HostNotAllowedError)

    assert (server.requests, asked) == ([], [])


async def test_without_its_name_nothing_is_sent_and_any_granted_host_is_reached(tmp_path: Path) -> None:
    with serving(reflect) as server:
        outcome = await Desk(tmp_path, {"SHOP_KEY": ["api.shop.example"]}).send(server.url)

    assert outcome.ok
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("header", ["authorization", "user-agent"])
async def test_a_redirect_to_another_origin_is_the_answer_and_is_not_followed(tmp_path: Path, header: str) -> None:
    with serving(reflect) as other, serving(redirect(f"{other.url}/steal", "307 Temporary Redirect")) as server:
        outcome = await Desk(tmp_path, local(server)).send(server.url, secret_headers={header: "SHOP_KEY"})

    assert isinstance(outcome.result, Ok)
    assert outcome.result.structured["status"] == 307
    assert outcome.result.structured["headers"]["location"] == f"{other.url}/steal"
    assert other.requests == []


async def test_a_redirect_at_home_is_followed_with_the_secret(tmp_path: Path) -> None:
    def once(request: Request, connection: socket.socket) -> bytes:
        return reflect(request, connection) if request.path == "/b" else answer("302 Found", location="/b")

    with serving(once) as server:
        outcome = await Desk(tmp_path, local(server)).send(f"{server.url}/a", bearer_secret="SHOP_KEY")

    assert outcome.ok
    assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {KEY}"] * 2


@pytest.mark.parametrize(
    "args",
    [
        {"bearer_secret": "OTHER"},
        {"bearer_secret": KEY},
        {"secret_headers": {"x-a": "BANK_KEY"}},
        {"bearer_secret": "SHOP_KEY", "headers": {"Authorization": "mine"}},
        {"bearer_secret": "SHOP_KEY", "secret_headers": {"AUTHORIZATION": "SHOP_KEY"}},
    ],
    ids=["undeclared", "value", "unknown", "set-twice", "two-secrets"],
)
async def test_invalid_secret_arguments_are_refused_and_nothing_is_sent(tmp_path: Path, args: dict[str, Any]) -> None:
    with serving(reflect) as server:
        outcome = await Desk(tmp_path, local(server)).send(server.url, **args)

    assert isinstance(outcome.result, Err)
    assert outcome.result.code == "input_invalid"
    assert server.requests == []


async def test_a_secret_that_is_not_set_is_reported_by_its_name(tmp_path: Path) -> None:
    with serving(reflect) as server:
        outcome = await Desk(tmp_path, local(server), secrets={}).send(server.url, bearer_secret="SHOP_KEY")

    assert isinstance(outcome.result, Err)
    assert isinstance(outcome.result.cause, SecretError)
    assert server.requests == []


async def test_a_secret_with_a_line_inside_cannot_make_a_header(tmp_path: Path) -> None:
    with serving(reflect) as server:
        desk = Desk(tmp_path, local(server), secrets={"SHOP_KEY": f"{KEY}\r\nx-evil: 1"})
        outcome = await desk.send(server.url, bearer_secret="SHOP_KEY")

    assert isinstance(outcome.result, Err)
    assert KEY not in repr(outcome)
    assert server.requests == []


@pytest.mark.parametrize(
    "secrets",
    [
        {},
        ["SHOP_KEY"],
        {"": ["a.example"]},
        {"shop/*": ["a.example"]},
        {"K": []},
        {"K": "a.example"},
        {"K": ["*"]},
        {"K": ["https://a.example/path"]},
        {"K": ["ftp://a.example"]},
        {"K": ["a b"]},
        {"K": ["https://user@a.example"]},
    ],
    ids=["none", "list", "blank", "wild", "nowhere", "text", "anywhere", "path", "scheme", "no-host", "user"],
)
def test_a_tool_with_bad_secrets_cannot_be_made(secrets: Any) -> None:
    with pytest.raises(UsageError) as caught:
        build_http_request(secrets)
    assert caught.value.field == "secrets"


def test_only_the_tool_that_sends_them_declares_them() -> None:
    tools = kit_tools(http_secrets={"K": ["a.example"]})

    assert [tool.name for tool in tools] == [tool.name for tool in KIT]
    assert {tool.name: tool.capabilities.secrets for tool in tools if tool.capabilities.secrets} == {
        "http_request": ("K",)
    }
