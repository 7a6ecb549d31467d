"""What the cookie of a login opens without its token: servers on other ports of the same host get the cookie, too."""

import json
import re
import time
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from spindle.execution import StateKey
from spindle.inspector.api import ENDPOINTS
from spindle.inspector.endpoints import Role
from spindle.inspector.logins import GRANT_SECONDS
from spindle.inspector.openapi import build_document
from tests.inspector.benching import KEY, Bench, PageClient

pytestmark = pytest.mark.anyio

OPEN = {"/api/v1/login", "/api/v1/proof"}
OPERATIONS = [
    (method.upper(), path, {each["name"]: "1" for each in operation.get("parameters", ()) if each["in"] == "query"})
    for path, methods in build_document(ENDPOINTS, version="1")["paths"].items()
    for method, operation in methods.items()
    if path not in OPEN
]
CONTENT = b"the content of an artifact"


async def write_artifacts(bench: Bench) -> None:
    for name in ("a & b", "other"):
        await bench.bench.spool.write(name, CONTENT)


@pytest.mark.parametrize("role", ["viewer", "operator"])
@pytest.mark.parametrize("has_profile", [False, True])
async def test_the_cookie_alone_is_refused_by_every_endpoint(role: Role, has_profile: bool) -> None:
    profile = "reader" if has_profile else None
    bench = Bench(roles={"reader": role} if has_profile else {})
    await bench.ask()
    async with bench.connect() as client:
        assert (await client.redeem(await bench.issue(role, profile))).status_code == 200
        answers = [
            await client.http.request(method, re.sub(r"{\w+}", "1", path), params=params, json={})
            for verb, path, query in OPERATIONS
            for method in {"GET": ("GET", "HEAD"), "POST": ("POST",)}[verb]
            for params in (query, {})
        ]
        seen = [await client.get("/approvals"), await client.get("/openapi.json")]

    assert len(answers) > 2 * len(ENDPOINTS)
    assert {answer.status_code for answer in answers} == {401}
    bodies = {answer.text for answer in answers if answer.request.method != "HEAD"}
    assert {json.loads(body)["error"]["code"] for body in bodies} == {"E_PAGE_LOGIN"}
    assert len(bodies) == 1
    assert [answer.status_code for answer in seen] == [200, 200]
    assert bench.runs == []


async def test_the_page_of_a_cookie_says_the_role_and_names_only() -> None:
    bench = Bench()
    async with bench.log_in() as client:
        pages = [(await client.http.get(path)).text for path in ("/page/tools", "/page/calls/x", "/page/login")]

    found = re.search(r'<meta name="session" content="([^"]*)"', pages[0])
    assert found is not None
    assert json.loads(unescape(found[1])) == {"role": "operator", "by": "ann", "profile": None, "name": "spindle"}
    assert client.token
    assert client.token not in str(pages)


async def find_address(client: PageClient, id: str = "a & b") -> str:
    answer = await client.get("/artifacts/address", id=id)
    assert answer.status_code == 200, answer.text
    return answer.json()["path"]


async def test_the_address_of_a_download_is_opened_without_the_header() -> None:
    bench = Bench()
    await write_artifacts(bench)
    async with bench.log_in() as client:
        address = await find_address(client)
        opened = await client.http.get(address, headers={"Sec-Fetch-Site": "same-origin"})
        head = await client.http.request("HEAD", address)
        missing = await client.get("/artifacts/address", id="nothing")

    assert (opened.status_code, opened.content) == (200, CONTENT)
    assert opened.headers["content-disposition"].startswith("attachment")
    assert head.status_code == 200
    assert missing.status_code == 404


async def test_the_address_of_a_download_opens_nothing_else() -> None:
    bench = Bench()
    await write_artifacts(bench)
    async with bench.log_in() as client, bench.log_in() as other, bench.connect() as stranger:
        address = await find_address(client)
        grant = parse_qs(urlsplit(address).query)["grant"][0]
        until, _, signature = grant.partition(".")

        def build(path: str = "/artifacts/download", **query: Any) -> str:
            return f"/api/v1{path}?{urlencode(query)}"

        forged = [
            build(id="other", grant=grant),
            build(id="a & b", grant=""),
            build(id="a & b", grant=f"{int(until) + 5}.{signature}"),
            build(id="a & b", grant=StateKey("another key").sign(until, bound="page download")),
            build(id="a & b", grant=StateKey(KEY).sign(until, bound="page cookie")),
            build(id="a & b", grant=client.token),
            build(id="a & b", more="1", grant=grant),
            build(grant=grant, id="a & b"),
            build("/artifacts/lines", id="a & b", grant=grant),
            build("/artifacts/address", id="a & b", grant=grant),
            f"{address}&id=other",
            f"{address}x",
        ]
        refused = [(await client.http.get(each)).status_code for each in forged]
        changed = (await client.http.post(address, json={})).status_code
        elsewhere = [(await each.http.get(address)).status_code for each in (other, stranger)]
        from_another_page = await client.http.get(address, headers={"Sec-Fetch-Site": "same-site"})
        assert (await client.http.get(address)).status_code == 200

    assert refused == [401] * len(forged)
    assert changed in {404, 405}
    assert elsewhere == [401, 401]
    assert from_another_page.status_code == 403


async def test_the_address_of_a_download_ends_after_a_minute_and_with_the_login() -> None:
    bench = Bench(now=time.time())
    await write_artifacts(bench)
    async with bench.log_in() as client:
        address = await find_address(client)
        assert bench.now is not None
        bench.now += GRANT_SECONDS + 1
        late = await client.http.get(address)
        bench.now -= 10 * GRANT_SECONDS
        early = await client.http.get(address)  # of a server whose clock was wrong
        bench.now += 9 * GRANT_SECONDS
        assert (await client.http.get(address)).status_code == 200
        cookies = dict(client.http.cookies)
        await client.post("/logout")
        client.http.cookies.update(cookies)
        ended = await client.http.get(address)

    assert [answer.status_code for answer in (late, early, ended)] == [401, 401, 401]
