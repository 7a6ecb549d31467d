"""The page over HTTP: headers, static files, refusals, the checks of the server around it, and bodies."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from spindle.cli import is_page_served
from spindle.cli.config import load_config
from spindle.errors import InvalidConfigError
from spindle.mcp import HttpSettings
from tests.inspector.benching import HOST, TOKEN, Bench

pytestmark = pytest.mark.anyio

HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


async def test_every_answer_has_the_headers_that_protect_the_page() -> None:
    bench = Bench()
    answers: list[httpx2.Response] = []
    async with bench.log_in() as client:
        for path in (
            "/",
            "/page",
            "/page/tools",
            "/page/login",
            "/page/static/main.js",
            "/page/static/icon.svg",
            "/page/static/nothing.js",
            "/api/v1/approvals",
            "/api/v1/approvals/nothing",
            "/api/v1/nothing",
            "/api/v1/openapi.json",
            "/api/v1/proof",
        ):
            answers.append(await client.http.get(path, headers=client.headers))
        answers.append(await client.http.put("/page/tools"))
        answers.append(await client.http.post("/api/v1/login", content=b"{"))
        answers.append(await client.http.request("HEAD", "/api/v1/approvals", headers=client.headers))

    for answer in answers:
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, answer.url
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        is_static = "/static/" in str(answer.url) and answer.status_code == 200
        assert answer.headers["cache-control"] == ("no-cache" if is_static else "no-store")


async def test_static_files_are_kept_by_browsers_until_they_change() -> None:
    async with Bench().connect() as client:
        first = await client.http.get("/page/static/views/approvals.js")
        again = await client.http.get(
            "/page/static/views/approvals.js", headers={"If-None-Match": first.headers["etag"]}
        )
        style = await client.http.get("/page/static/style.css")

    assert first.headers["content-type"].startswith("text/javascript")
    assert (again.status_code, again.content) == (304, b"")
    assert style.headers["content-type"].startswith("text/css")


@pytest.mark.parametrize(
    "path",
    [
        "../app.py",
        "..%2fapp.py",
        "%2e%2e/app.py",
        "views/../../app.py",
        "/etc/passwd",
        "views",
        "views/",
        "",
        "main.js%00",
        "MAIN.JS",
        "..\\app.py",
        "__init__.py",
    ],
)
async def test_no_other_file_is_sent(path: str) -> None:
    async with Bench().connect() as client:
        answer = await client.http.get(f"/page/static/{path}")

    assert answer.status_code in {303, 404}
    assert "import" not in answer.text


async def test_without_a_login_the_api_answers_401_and_views_lead_to_the_login() -> None:
    bench = Bench()
    approval = await bench.ask()
    async with bench.connect() as client:
        for path in ("/approvals", f"/approvals/{approval}", "/events?topics=waiting"):
            refused = await client.http.get(f"/api/v1{path}")
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "E_PAGE_LOGIN")
        for path in (f"/approvals/{approval}/approve", "/logout", "/link"):
            assert (await client.post(path)).status_code == 401
        view = await client.http.get("/page/approvals")
        assert (view.status_code, view.headers["location"]) == (303, "/page/login")

    assert bench.runs == []


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_an_unknown_endpoint_is_said_in_json(method: str) -> None:
    async with Bench().log_in() as client:
        for path in ("/api/v1/nothing", "/api/v2/approvals", "/api/"):
            answer = await client.http.request(method, path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "E_UNKNOWN_ITEM")
        assert (await client.get("/approvals/%2e%2e")).status_code == 404


@pytest.mark.parametrize(
    "content",
    [b"{", b"[" * 100_000, b"\xff", b'"text"', b"[1]", b'{"unknown": 1}', b'{"args": 5}', b'{"args": {"a": NaN}}x'],
    ids=["cut", "deep", "not UTF-8", "text", "list", "unknown field", "wrong type", "rest"],
)
async def test_an_invalid_body_is_refused(content: bytes) -> None:
    bench = Bench()
    approval = await bench.ask()
    async with bench.log_in() as client:
        headers = {"Content-Type": "application/json", "X-Spindle-Token": client.token}
        answer = await client.http.post(f"/api/v1/approvals/{approval}/approve", content=content, headers=headers)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "E_INVALID_REQUEST")
    assert bench.runs == []


async def test_a_body_of_nested_objects_is_refused_and_the_server_goes_on() -> None:
    bench = Bench()
    approval = await bench.ask()
    deep = b'{"args": {"note": ' + b'{"a": ' * 900 + b"1" + b"}" * 900 + b"}}"
    async with bench.log_in() as client:
        headers = {"Content-Type": "application/json", "X-Spindle-Token": client.token}
        answer = await client.http.post(f"/api/v1/approvals/{approval}/approve", content=deep, headers=headers)
        assert answer.status_code in {200, 400}
        assert (await client.get("/approvals")).status_code == 200

    assert bench.runs == []


@pytest.mark.parametrize(("path", "parts"), [("login", 1), ("approvals/{approval}/deny", 65)])
async def test_a_body_that_is_too_large_is_refused_before_it_is_read_whole(path: str, parts: int) -> None:
    bench = Bench()
    path = path.format(approval=await bench.ask())
    messages: list[Any] = []
    read = 0

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b"x" * 65_536, "more_body": True}

    async def send(message: Any) -> None:
        messages.append(message)

    async with bench.log_in() as client:
        cookie = f"{bench.logins.cookie}={client.http.cookies[bench.logins.cookie]}"
        headers = {"content-type": "application/json", "x-spindle-token": client.token, "cookie": cookie, "host": HOST}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": f"/api/v1/{path}", "headers": raw, "query_string": b""}
    await bench.app(scope, receive, send)

    assert (messages[0]["status"], read) == (400, parts)


async def test_half_characters_are_refused_or_answered_and_never_fail() -> None:
    bench = Bench()
    approval = await bench.ask(note="\ud800 half")
    async with bench.log_in() as client:
        shown = await client.get(f"/approvals/{approval}")
        headers = {"Content-Type": "application/json", "X-Spindle-Token": client.token}
        body = json.dumps({"\ud800": 1})
        refused = await client.http.post(f"/api/v1/approvals/{approval}/deny", content=body, headers=headers)

    assert shown.status_code == 200
    assert json.loads(shown.content)["approval"]["args"]["note"] == "\ud800 half"
    assert refused.status_code == 400


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "status=nothing", "unknown=1", "cursor="])
async def test_an_invalid_query_names_its_field(query: str) -> None:
    async with Bench().log_in() as client:
        answer = await client.http.get(f"/api/v1/approvals?{query}", headers=client.headers)

    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == query.partition("=")[0]


async def test_a_fault_of_a_view_is_said_and_logged_without_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()

    async def fail(**_options: object) -> None:
        raise KeyError("hunter2")

    async with bench.log_in() as client:
        monkeypatch.setattr(bench.bench.tickets, "list_page", fail)
        answer = await client.get("/approvals")

    assert answer.status_code == 500
    assert "hunter2" not in answer.text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "169.254.169.254", "", "a b"])
async def test_a_request_for_another_host_is_refused_as_plain_text(host: str) -> None:
    bench = Bench()
    async with bench.connect(bench.build_server()) as client:
        for path in ("/page/tools", "/api/v1/approvals", "/"):
            answer = await client.http.get(path, headers={"Host": host})
            assert answer.status_code == 421
            assert answer.headers["content-type"].startswith("text/plain")
            assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_request_of_another_origin_is_refused_by_the_server() -> None:
    bench = Bench()
    async with bench.connect(bench.build_server(), Origin="https://evil.example") as client:
        answer = await client.http.get("/api/v1/approvals")

    assert answer.status_code == 403
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("has_tokens", [False, True])
async def test_a_browser_that_opens_the_mcp_endpoint_is_sent_to_the_page(has_tokens: bool) -> None:
    bench = Bench(roles={"reader": "viewer"} if has_tokens else {})
    accepted = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    async with bench.connect(bench.build_server()) as client:
        answer = await client.http.get("/mcp", headers={"Accept": accepted})
        foreign = await client.http.get("/mcp", headers={"Accept": accepted, "Host": "evil.example"})
        tokenless = await client.http.get("/mcp", headers={"Accept": "application/json"}) if has_tokens else None

    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert foreign.status_code == 421
    assert tokenless is None or tokenless.status_code == 401


async def test_a_wrong_token_is_slowed_down_also_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("spindle.mcp.server.http_checks.anyio.sleep", note)
    bench = Bench(roles={"reader": "viewer"})
    async with bench.connect(bench.build_server(), Authorization=f"Bearer {TOKEN}x") as client:
        for _ in range(5):
            assert (await client.get("/approvals")).status_code == 401

    assert len(waits) == 2


@pytest.mark.parametrize(
    ("config", "host", "expected"),
    [
        ("", "127.0.0.1", True),
        ("", "localhost", True),
        ("", "::1", True),
        ("", "0.0.0.0", False),
        ("", "192.0.2.1", False),
        ("page = true", "192.0.2.1", True),
        ("page = false", "127.0.0.1", False),
        ('path = "/page/x"', "127.0.0.1", False),
    ],
)
def test_the_page_is_served_on_loopback_unless_it_is_configured(
    tmp_path: Path, config: str, host: str, expected: bool
) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text(f"[server]\n{config}\n")
    loaded = load_config(path, environ={})
    settings = HttpSettings(host=host, path=loaded.server.path, tokens={"0" * 64: None})

    assert is_page_served(loaded, settings) is expected


def test_a_page_whose_path_is_taken_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text('[server]\npage = true\npath = "/api/mcp"\n')
    loaded = load_config(path, environ={})

    with pytest.raises(InvalidConfigError) as caught:
        is_page_served(loaded, HttpSettings(path=loaded.server.path))
    assert "page" in str(caught.value)
