"""Checks of HTTP requests: Host and Origin, tokens that can be guessed, failed logins."""

import logging
import secrets
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from spindle.errors import UsageError
from spindle.mcp import HttpSettings
from spindle.mcp.server.http_checks import FailedLogins, RequestRates, estimate_bits, parse_host, parse_origin
from tests.mcp.server.test_http import READER, TOKENS, at_the_door, served

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn supports only asyncio


HOSTILE_HOSTS = [
    *("127.0.0.1:18765.evil.com", "localhost:evil", "localhost:", "localhost:80:80", "localhost:80@evil.com"),
    *(
        "localhost:99999",
        "localhost:0",
        "localhost:-1",
        "localhost:+80",
        "localhost:8 0",
        "localhost/evil",
        "localhost.evil.com",
    ),
    *(
        "localhost.",
        "localhost:80.",
        "localhost:*",
        "*",
        "[::1].evil.com",
        "[::1]:80.evil.com",
        "[::1",
        "::1",
        "[evil]",
    ),
    *(
        "localhost#evil.com",
        "localhost?x",
        "localhost\\evil.com",
        "http://localhost",
        "evil.com",
        "user@localhost",
        "127.1",
    ),
    *("localhost:\u0661", "localhost,evil.com", "localhost;evil", "0.0.0.0", "2130706433"),
]


@pytest.mark.parametrize("host", HOSTILE_HOSTS)
@pytest.mark.parametrize("path", ["/mcp", "/health"])
async def test_a_host_that_is_not_exactly_ours_is_refused(host: str, path: str) -> None:
    async with at_the_door() as http:
        answer = await http.get(path, headers=[(b"host", host.encode())])

    assert answer.status_code == 421


@pytest.mark.parametrize("host", HOSTILE_HOSTS)
async def test_an_origin_that_is_not_exactly_ours_is_refused(host: str) -> None:
    async with at_the_door() as http:
        for origin in (f"http://{host}", f"https://{host}", host, f"http://{host}/"):
            answer = await http.get("/health", headers=[(b"host", b"localhost"), (b"origin", origin.encode())])
            assert (origin == "http://localhost" and answer.status_code == 200) or answer.status_code == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:18765", "[::1]:1", "[0:0:0:0:0:0:0:1]"])
async def test_every_spelling_of_our_own_address_is_accepted(host: str) -> None:
    async with at_the_door() as http:
        answer = await http.get("/health", headers={"Host": host})

    assert answer.status_code == 200


async def test_the_refusal_of_a_host_names_the_setting_that_allows_it() -> None:
    async with at_the_door(allowed_hosts=["gateway.example:8321"]) as http:
        refused = await http.get("/health", headers={"Host": "gateway.example:9"})
        allowed = await http.get("/health", headers={"Host": "Gateway.example:8321"})

    assert refused.status_code == 421
    assert "allowed_hosts" in refused.text
    assert allowed.status_code == 200


@pytest.mark.parametrize("field", ["allowed_hosts", "allowed_origins"])
def test_an_entry_that_could_never_match_is_refused(field: str) -> None:
    given: Any = {field: ["https://a b"]}
    with pytest.raises(UsageError) as caught:
        HttpSettings(**given)

    assert caught.value.field == field


def test_hosts_and_origins_are_split_exactly() -> None:
    assert parse_host("A.Example:8") == ("a.example", "8")
    assert parse_host("a:99999") is None
    assert parse_origin("https://a.example") == ("https", ("a.example", "443"))
    assert parse_origin("file://a") is None


@pytest.mark.parametrize("make", [lambda: secrets.token_hex(16), lambda: secrets.token_urlsafe(32)], ids=["hex", "url"])
def test_generated_tokens_are_accepted(make: Any) -> None:
    assert all(estimate_bits(make()) >= 128 for _ in range(500))


GUESSABLE = [
    "",
    "hunter2",
    "a" * 500,
    "password" * 20,
    "0123456789" * 20,
    "correct horse battery staple of the old man",
]


@pytest.mark.parametrize(
    "token",
    [
        *GUESSABLE,
        "abcdefghijklmnopqrstuvwxyz0123456789",
        "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d",
        "3f9c1e7a2b8d4f60a5c3e9d17b42f8",
    ],
)
def test_tokens_that_can_be_guessed_are_recognised(token: str) -> None:
    assert estimate_bits(token) < 128


async def test_failed_logins_are_logged_without_the_token(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="spindle.mcp.server"):
        async with at_the_door(tokens=TOKENS) as http:
            for _ in range(2):
                await http.post("/mcp", headers={"Authorization": "Bearer Canary-4711"})
            await http.get("/health", headers={"Authorization": f"Bearer {READER}"})
            await http.post("/mcp")

    said = [record.getMessage() for record in caplog.records if record.name == "spindle.mcp.server"]
    assert len(said) == 2
    assert "Canary" not in str(said)
    assert READER not in str(said)


async def test_failed_logins_are_slowed_down_and_a_right_token_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("spindle.mcp.server.http_checks.anyio.sleep", sleep)
    now = [0.0]
    failures = FailedLogins(lambda: now[0])
    for _ in range(12):
        assert await failures.slow_down("1.2.3.4") == 0
    assert slept[:3] == [0.25, 0.5, 1.0]
    assert max(slept) == slept[-1] == 5.0

    slept.clear()
    assert await failures.slow_down("5.6.7.8") == 0
    now[0] = 1_000.0
    await failures.slow_down("1.2.3.4")
    assert slept == []


async def test_of_many_failed_logins_at_once_most_are_refused_without_waiting() -> None:
    failures = FailedLogins()
    answers: list[float] = []

    async def fail() -> None:
        answers.append(await failures.slow_down("1.2.3.4"))

    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(fail)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        assert len([each for each in answers if each]) >= 70
        tasks.cancel_scope.cancel()


def test_a_rate_is_refilled_evenly() -> None:
    now = [0.0]
    rates = RequestRates(60, clock=lambda: now[0])

    assert [rates.count("a") for _ in range(60)] == [0] * 60
    assert rates.count("a") == pytest.approx(1.0)
    assert rates.count("b") == 0
    now[0] = 1.0
    assert rates.count("a") == 0
    assert rates.count("a") > 0


@pytest.mark.parametrize("cursor", ["9" * 5_000, "-1", "1e3", "\u0661", "0", "x", " 1"])
async def test_a_made_up_cursor_is_an_invalid_parameter(cursor: str) -> None:
    from mcp.client.client import Client
    from mcp.shared.exceptions import MCPError

    from spindle import Executor, ToolRegistry
    from spindle.mcp import ToolServer

    async with Client(ToolServer(Executor(ToolRegistry()), ToolRegistry()).sdk) as client:
        with pytest.raises(MCPError) as caught:
            await client.list_tools(cursor=cursor)

    assert caught.value.code == -32602


@pytest.fixture
def certificate(tmp_path: Path) -> dict[str, Any]:
    trustme = pytest.importorskip("trustme")
    issued = trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    for pem in issued.cert_chain_pems:
        pem.write_to_path(tmp_path / "cert.pem", append=True)
    return {"tls_certificate": str(tmp_path / "cert.pem"), "tls_key": str(tmp_path / "key.pem")}


async def test_with_a_certificate_the_server_speaks_https_only(certificate: dict[str, Any]) -> None:
    async with served(**certificate) as address:
        async with httpx.AsyncClient(timeout=60, verify=False) as http:
            answer = await http.get(address.removesuffix("/mcp") + "/health")
        async with httpx.AsyncClient(timeout=60) as http:
            with pytest.raises(httpx.HTTPError):
                await http.get(address.removesuffix("/mcp").replace("https", "http") + "/health")

    assert address.startswith("https://127.0.0.1:")
    assert answer.status_code == 200


def test_half_of_a_certificate_or_a_wrong_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        HttpSettings(tls_certificate="cert.pem")
    assert caught.value.field == "tls_key"

    (tmp_path / "cert.pem").write_text("nonsense")
    with pytest.raises(UsageError) as caught:
        HttpSettings(tls_certificate=str(tmp_path / "cert.pem"), tls_key=str(tmp_path / "cert.pem"))
    assert caught.value.field == "tls_certificate"


async def test_behind_every_address_the_announced_one_works() -> None:
    async with served(host="0.0.0.0", tokens=TOKENS) as address, httpx.AsyncClient(timeout=60) as http:
        answer = await http.get(address.removesuffix("/mcp") + "/health")

    assert address.startswith("http://127.0.0.1:")
    assert answer.status_code == 200


def test_requests_of_other_replicas_count_and_own_ones_are_reported_in_parts() -> None:
    reported: list[tuple[str, int]] = []
    rates = RequestRates(200, clock=lambda: 0.0, report=lambda key, count: reported.append((key, count)))

    answers = [rates.count("a") for _ in range(5)]
    rates.spend("a", 195)

    assert answers == [0] * 5
    assert reported == [("a", 2), ("a", 2)]
    assert rates.count("a") > 0
    assert rates.count("b") == 0
