"""Logins of the page: one-time codes, the cookie, the token for changes, roles, and the command."""

import base64
import json
import time
from typing import Any

import anyio
import pytest

from spindle import ToolFilter
from spindle.execution import StateKey
from spindle.inspector import logins
from spindle.inspector.command_login import COMMAND, COMMAND_HEADER, is_proof, pack, sign_command
from spindle.inspector.endpoints import Role
from spindle.inspector.logins import LINK_SECONDS, LOGIN_SECONDS, PAGE_HEADER
from spindle.journal import Journal
from tests.inspector.benching import HOST, KEY, ORIGIN, TOKEN, Bench

pytestmark = pytest.mark.anyio


async def test_a_code_logs_in_once_also_of_two_at_once() -> None:
    bench = Bench()
    code, statuses = await bench.issue(), list[int]()
    async with bench.connect() as first, bench.connect() as second:

        async def redeem(client: Any) -> None:
            statuses.append((await client.redeem(code)).status_code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(redeem, first)
            tasks.start_soon(redeem, second)
        again = await first.redeem(code)

    assert sorted(statuses) == [200, 403]
    assert again.json()["error"]["code"] == "E_REQUEST_FORBIDDEN"


@pytest.mark.parametrize("code", ["", "wrong", "x" * 300, "\ud800", "ü"])
async def test_a_wrong_code_is_refused(code: str) -> None:
    async with Bench().connect() as client:
        answer = await client.http.post(
            "/api/v1/login", content=json.dumps({"code": code}), headers={"Content-Type": "application/json"}
        )

    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_a_code_expires() -> None:
    bench = Bench(now=time.time() + LINK_SECONDS + 1)
    async with bench.connect() as client:
        assert (await client.redeem(await bench.issue())).status_code == 403


async def test_a_code_of_one_replica_works_at_another_once() -> None:
    journal = Journal.memory()
    first, second = Bench(journal=journal), Bench(journal=journal)
    code = await first.issue()
    async with second.connect() as there, first.connect() as here:
        assert (await there.redeem(code)).status_code == 200
        assert (await here.redeem(code)).status_code == 403
        here.copy_login(there)
        assert (await here.get("/approvals")).status_code == 200


async def test_wrong_codes_are_answered_ever_more_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("spindle.mcp.server.http_checks.anyio.sleep", note)
    async with Bench().connect() as client:
        for _ in range(6):
            await client.redeem("wrong")

    assert waits == sorted(waits)
    assert len(set(waits)) == 3


@pytest.mark.parametrize("is_secure", [False, True])
async def test_the_cookie_is_for_this_page_and_not_for_scripts(is_secure: bool) -> None:
    bench = Bench(is_secure=is_secure)
    async with bench.connect() as client:
        cookie = (await client.redeem(await bench.issue())).headers["set-cookie"]

    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/", f"max-age={int(LOGIN_SECONDS)}"} <= parts
    assert ("secure" in parts) is is_secure
    assert not any(part.startswith("domain") for part in parts)
    assert len(cookie) < 1_000


async def test_a_login_ends_after_its_time() -> None:
    bench = Bench(now=time.time())
    async with bench.log_in() as client:
        assert bench.now is not None
        bench.now += LOGIN_SECONDS - 1
        assert (await client.get("/approvals")).status_code == 200
        bench.now += 2
        assert (await client.get("/approvals")).status_code == 401


async def test_a_cookie_of_a_clock_that_is_ahead_is_refused() -> None:
    bench = Bench(now=time.time() + 10_000)
    async with bench.connect() as client:
        bench.now = None
        bench.now = time.time() + 10_000
        await client.redeem(await bench.issue())
        bench.now = time.time()
        assert (await client.get("/approvals")).status_code == 401


async def test_a_logout_refuses_copies_of_its_cookie_here_and_at_replicas() -> None:
    bench = Bench()
    other = Bench(journal=bench.journal)
    async with bench.log_in() as client, bench.connect() as copy, other.connect() as replica, bench.log_in() as stays:
        copy.copy_login(client)
        replica.copy_login(client)
        assert (await copy.get("/approvals")).status_code == 200
        assert (await client.post("/logout")).status_code == 200

        assert (await copy.get("/approvals")).status_code == 401
        assert (await replica.get("/approvals")).status_code == 401
        assert (await stays.get("/approvals")).status_code == 200


async def test_a_logout_of_a_profile_does_not_end_its_other_logins() -> None:
    bench = Bench(roles={"reader": "operator"})
    app = bench.build_server()
    async with bench.connect(app) as first, bench.connect(app) as second:
        for client in (first, second):
            answer = await client.http.post("/api/v1/login", json={}, headers={"Authorization": f"Bearer {TOKEN}"})
            assert answer.status_code == 200
            client.token = answer.json()["token"]
        assert (await first.post("/logout")).status_code == 200

        assert (await first.get("/approvals")).status_code == 401
        assert (await second.get("/approvals")).status_code == 200
        again = await first.http.post("/api/v1/login", json={}, headers={"Authorization": f"Bearer {TOKEN}"})
        assert again.status_code == 200
        first.token = again.json()["token"]
        assert (await first.get("/approvals")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {PAGE_HEADER: "wrong"},
        {PAGE_HEADER: "a.b"},
        {PAGE_HEADER: "\xe4"},
    ],
    ids=["none", "wrong", "dotted", "not ASCII"],
)
async def test_a_request_without_the_token_of_the_page_is_refused(headers: dict[str, str]) -> None:
    bench = Bench()
    approval = await bench.ask()
    async with bench.log_in() as client:
        client.token = ""
        raw = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
        for path in (f"/approvals/{approval}/approve", f"/approvals/{approval}/deny", "/logout", "/link"):
            answer = await client.http.post(f"/api/v1{path}", json={}, headers=raw)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "E_PAGE_LOGIN"), path
        for path in (f"/approvals/{approval}", "/events?topics=waiting", "/openapi.json"):
            answer = await client.http.get(f"/api/v1{path}", headers=raw)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "E_PAGE_LOGIN"), path

    assert bench.runs == []


async def test_the_token_of_another_login_is_refused() -> None:
    bench = Bench()
    approval = await bench.ask()
    async with bench.log_in() as client, bench.log_in() as other:
        client.token = other.token
        answers = [await client.post(f"/approvals/{approval}/deny"), await client.get("/approvals")]

    assert [answer.status_code for answer in answers] == [401, 401]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": f"https://{HOST}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "none"},
    ],
)
async def test_a_change_or_login_from_another_page_is_refused(headers: dict[str, str]) -> None:
    bench = Bench()
    approval, code = await bench.ask(), await bench.issue()
    async with bench.log_in() as client, bench.connect() as other:
        assert (await client.post(f"/approvals/{approval}/approve", {}, **headers)).status_code == 403
        assert (await other.redeem(code, **headers)).status_code == 403
        own = await client.post(
            f"/approvals/{approval}/approve", {}, Origin=ORIGIN, **{"Sec-Fetch-Site": "same-origin"}
        )

    assert own.status_code == 200
    assert len(bench.runs) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"sec-fetch-site": "none"},
    ],
)
@pytest.mark.parametrize("path", ["/approvals", "/events", "/openapi.json"])
async def test_another_page_of_this_machine_cannot_let_the_browser_read(path: str, headers: dict[str, str]) -> None:
    async with Bench().log_in() as client:
        refused = await client.http.get(f"/api/v1{path}", headers=headers | client.headers)

    assert refused.status_code == 403


async def test_the_page_itself_may_read() -> None:
    async with Bench().log_in() as client:
        headers = {"sec-fetch-site": "same-origin"} | client.headers
        answer = await client.http.get("/api/v1/approvals", headers=headers)

    assert answer.status_code == 200


async def test_a_viewer_reads_and_changes_nothing() -> None:
    bench = Bench(roles={"reader": "viewer"})
    approval, headers = await bench.ask(), {"Authorization": f"Bearer {TOKEN}"}
    async with bench.connect(bench.build_server(), **headers) as client:
        assert (await client.get("/approvals")).status_code == 200
        assert (await client.get(f"/approvals/{approval}")).status_code == 200
        refused = await client.post(f"/approvals/{approval}/approve")

    assert refused.status_code == 403
    assert bench.runs == []


async def test_an_operator_by_token_needs_no_token_of_the_page_and_sees_its_tools_only() -> None:
    bench = Bench(roles={"reader": "operator"})
    approval, headers = await bench.ask(), {"Authorization": f"Bearer {TOKEN}"}
    async with bench.connect(bench.build_server(), **headers) as client:
        answer = await client.post(f"/approvals/{approval}/approve")
        assert answer.json()["approval"]["answered_by"] == "profile reader"

        bench.filters = {"reader": ToolFilter(allowed_tools=[])}
        hidden = await bench.ask(2)
        listed = (await client.get("/approvals", status="all")).json()
        assert (listed["approvals"], listed["waiting"]) == ([], 0)
        assert (await client.get(f"/approvals/{hidden}")).status_code == 404
        assert (await client.post(f"/approvals/{hidden}/approve")).status_code == 404


async def test_a_token_of_a_profile_without_the_page_has_no_role() -> None:
    bench = Bench(roles={"other": "operator"})
    async with bench.connect(bench.build_server(), Authorization=f"Bearer {TOKEN}") as client:
        assert (await client.get("/approvals")).status_code == 401
        assert (await client.http.post("/api/v1/login", json={})).status_code == 403


async def test_a_profile_has_the_role_of_now_after_a_restart() -> None:
    bench = Bench(roles={"reader": "operator"})
    code = await bench.issue("operator", "reader")
    async with bench.connect() as client:
        await client.redeem(code)
        changes: list[tuple[dict[str, Role], int]] = [({"reader": "viewer"}, 403), ({}, 401)]
        for roles, expected in changes:
            restarted = Bench(journal=bench.journal, roles=roles)
            approval = await restarted.ask()
            async with restarted.connect() as again:
                again.copy_login(client)
                assert (await again.post(f"/approvals/{approval}/deny")).status_code == expected


@pytest.mark.parametrize(
    "facts",
    ["not base64", "bm90IGpzb24", pack({}), pack({"until": "soon"}), pack({"until": 1e400}), pack({"until": None})],
)
async def test_a_signed_value_of_another_form_is_refused(facts: str) -> None:
    bench = Bench()
    key = StateKey(KEY)
    async with bench.connect() as client:
        client.http.cookies.set(bench.logins.cookie, key.sign(facts, bound="page cookie"))
        assert (await client.get("/approvals")).status_code == 401
        signed = key.sign(facts, bound=COMMAND)
        assert (await client.http.get("/api/v1/approvals", headers={COMMAND_HEADER: signed})).status_code == 401


async def test_a_cookie_cannot_be_changed_or_made_with_another_key() -> None:
    bench = Bench()
    async with bench.log_in() as client:
        name, signed = bench.logins.cookie, client.http.cookies[bench.logins.cookie]
        facts, _, signature = signed.partition(".")
        more = json.loads(base64.urlsafe_b64decode(facts + "==="))
        forged = [
            f"{pack(more | {'role': 'operator', 'by': 'eve'})}.{signature}",
            StateKey("another key").sign(facts, bound="page cookie"),
            StateKey(KEY).sign(facts, bound="page command"),
            signed[:-1],
            "",
            "ü",
        ]
        for each in forged:
            client.http.cookies.clear()
            answer = await client.http.get("/api/v1/approvals", headers={b"Cookie": f"{name}={each}".encode()})
            assert answer.status_code == 401


async def test_the_command_is_an_operator_for_a_minute_and_makes_links() -> None:
    bench = Bench(now=time.time())
    approval = await bench.ask()
    async with bench.command("bob") as command, bench.connect() as browser, bench.log_in() as page:
        made = await command.post("/link")
        answered = await command.post(f"/approvals/{approval}/deny")
        assert (await page.post("/link")).status_code == 403
        assert bench.now is not None
        bench.now += 61
        late = await command.get("/approvals")
        bench.now -= 61
        opened = await browser.redeem(made.json()["code"])

    assert answered.json()["approval"]["answered_by"] == "bob"
    assert late.status_code == 401
    assert (made.status_code, opened.status_code) == (200, 200)


async def test_the_server_proves_that_it_has_the_state_key() -> None:
    async with Bench().connect() as client:
        proof = (await client.get("/proof", nonce="n1")).json()["proof"]
        assert (await client.get("/proof", nonce="x" * 101)).status_code == 400

    host, _, port = HOST.partition(":")
    place: dict[str, Any] = {"host": host, "port": int(port)}
    assert is_proof(StateKey(KEY), "n1", proof, **place)
    assert is_proof(StateKey(KEY), "n1", proof, host=f"::ffff:{host}", port=int(port))
    assert not is_proof(StateKey(KEY), "n2", proof, **place)
    assert not is_proof(StateKey("another"), "n1", proof, **place)
    assert not is_proof(StateKey(KEY), "n1", None, **place)
    assert not is_proof(StateKey(KEY), "n1", proof, host=host, port=int(port) + 1)
    assert not is_proof(StateKey(KEY), "n1", proof, host="127.0.0.2", port=int(port))


async def test_the_server_proves_its_own_address_whatever_a_relay_names() -> None:
    async with Bench().connect(**{"Host": "127.0.0.1:9", "X-Forwarded-Host": "127.0.0.1:9"}) as client:
        proof = (await client.get("/proof", nonce="n1")).json()["proof"]

    assert not is_proof(StateKey(KEY), "n1", proof, host="127.0.0.1", port=9)


async def test_a_connection_without_an_address_gets_no_proof() -> None:
    bench, messages = Bench(), list[Any]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/api/v1/proof", "headers": []}
    scope["query_string"] = b"nonce=n1"
    for server in (None, ("/run/page.sock", None)):  # a Unix socket
        await bench.app(scope | {"server": server}, receive, send)

    assert [each["status"] for each in messages if each["type"] == "http.response.start"] == [400, 400]


async def test_expired_codes_and_logouts_are_deleted() -> None:
    bench = Bench()
    states = bench.journal.states
    assert states is not None
    await bench.issue()
    old = await states.select(logins.StateQuery("page-link"))
    await states.replace(old[0]._replace(expires_at=1, version=2))
    await bench.issue()

    assert len(await states.select(logins.StateQuery("page-link"))) == 1


def test_a_long_name_makes_no_long_header() -> None:
    assert len(sign_command(StateKey(KEY), "x" * 10_000)) < 400
