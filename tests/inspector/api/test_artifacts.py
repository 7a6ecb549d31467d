import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import pytest

from spindle import Executor, Spool, ToolRegistry
from spindle.execution import StateKey
from spindle.inspector import InspectorApp, PageLogins, Workbench
from spindle.inspector.api.artifacts import ENDPOINTS
from spindle.inspector.command_login import COMMAND_HEADER, sign_command
from spindle.journal import Journal

pytestmark = pytest.mark.anyio

KEY = StateKey("a key of the tests, long enough")
PREFIX = "/api/v1/artifacts"


@pytest.fixture
def spool() -> Spool:
    return Spool.memory()


@pytest.fixture
async def client(spool: Spool) -> AsyncIterator[httpx2.AsyncClient]:
    registry = ToolRegistry()
    bench = Workbench(registry=registry, executor=Executor(registry), journal=Journal.memory(), spool=spool)
    app = InspectorApp(bench, PageLogins(key=KEY, states=None))
    transport = httpx2.ASGITransport(app)
    headers = {COMMAND_HEADER: sign_command(KEY, "a test")}
    async with httpx2.AsyncClient(transport=transport, base_url="http://test", headers=headers) as opened:
        yield opened
    app.close()


async def ask(client: httpx2.AsyncClient, at: str, /, **params: object) -> Any:
    response = await client.get(f"{PREFIX}{at}", params={name: str(value) for name, value in params.items()})
    assert response.status_code == 200, response.text
    return response.json()


async def refuse(client: httpx2.AsyncClient, at: str, /, **params: object) -> tuple[int, Mapping[str, str]]:
    response = await client.get(f"{PREFIX}{at}", params={name: str(value) for name, value in params.items()})
    return response.status_code, response.json()["error"]


async def test_nothing_is_read_without_a_login(client: httpx2.AsyncClient, spool: Spool) -> None:
    await spool.write("a", "text")
    client.headers.pop(COMMAND_HEADER)
    for path in ("", "/facts", "/lines", "/search", "/json", "/markdown", "/table", "/download"):
        status, _ = await refuse(client, path, id="a", pattern="x")
        assert status == 401


async def test_artifacts_are_listed_newest_first_in_pages(client: httpx2.AsyncClient, spool: Spool) -> None:
    for n in range(5):
        await spool.write(f"turn/{n}", "x" * n, turn_id="turn")
    found: list[str] = []
    cursor = ""
    while True:
        page = await ask(client, "", limit=2, cursor=cursor)
        assert page["count"] == 5
        found += [entry["id"] for entry in page["artifacts"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == [f"turn/{n}" for n in (4, 3, 2, 1, 0)]
    page = await ask(client, "", text="TURN/3")
    assert [(entry["id"], entry["byte_length"], entry["turn_id"]) for entry in page["artifacts"]] == [
        ("turn/3", 3, "turn")
    ]


@pytest.mark.parametrize(
    "name", ["a/../b", "<script>", "nul\0", "\u202ex", "lone \ud800", "x" * 5_000, "%2e%2e", "a?b#c"]
)
async def test_an_artifact_of_any_name_is_listed_and_opened(
    client: httpx2.AsyncClient, spool: Spool, name: str
) -> None:
    await spool.write(name, "text")
    (entry,) = (await ask(client, ""))["artifacts"]
    facts = await ask(client, "/facts", id=entry["id"])
    assert (facts["id"], facts["byte_length"], facts["facts"]["best_view"]) == (entry["id"], 4, "lines")


async def test_lines_are_read_from_a_line_a_byte_or_a_percentage(client: httpx2.AsyncClient, spool: Spool) -> None:
    await spool.write("a", "".join(f"line {n}\n" for n in range(1_000)))
    page = await ask(client, "/lines", id="a", line=10, count=2)
    assert [(line["number"], line["text"]) for line in page["lines"]] == [(10, "line 10"), (11, "line 11")]
    assert (page["next_line"], page["line_count"]) == (12, 1_001)
    assert (await ask(client, "/lines", id="a", byte=8, count=1))["lines"][0]["text"] == "line 1"
    assert (await ask(client, "/lines", id="a", percent=100, count=1))["lines"][0]["number"] == 999
    piece = await ask(client, "/piece", id="a", byte=9, count=16)
    assert (piece["line"], piece["text"], piece["line_start"]) == (1, "ne 1", 7)


async def test_bytes_are_hexadecimal_digits(client: httpx2.AsyncClient, spool: Spool) -> None:
    await spool.write("a", bytes(range(40)))
    page = await ask(client, "/bytes", id="a", byte=17, count=16)
    assert (page["start"], bytes.fromhex(page["data"])) == (16, bytes(range(16, 32)))


async def test_a_search_goes_on_where_it_stopped(client: httpx2.AsyncClient, spool: Spool) -> None:
    await spool.write("a", "needle\nhay\n" * 300)
    page = await ask(client, "/search", id="a", pattern="NEEDLE", flags="i")
    assert (page["hit_count"], page["rows"][0]["match_end"]) == (200, 6)
    rest = await ask(client, "/search", id="a", pattern="NEEDLE", flags="i", byte=page["next_byte"])
    assert (rest["hit_count"], rest["next_byte"], rest["rows"][0]["line"]) == (100, None, 400)
    status, error = await refuse(client, "/search", id="a", pattern="(")
    assert (status, error["field"]) == (422, "pattern")


async def test_members_of_json_are_listed_page_by_page(client: httpx2.AsyncClient, spool: Spool) -> None:
    await spool.write("a", json.dumps({"items": list(range(450)), "name": "\ud800 \u2028"}))
    (root,) = (await ask(client, "/json", id="a"))["members"]["nodes"]
    nodes = (await ask(client, "/json", id="a", byte=root["byte"]))["members"]["nodes"]
    assert [(node["name"], node["kind"]) for node in nodes] == [("items", "array"), ("name", "string")]
    first = await ask(client, "/json", id="a", byte=nodes[0]["byte"])
    second = await ask(client, "/json", id="a", byte=nodes[0]["byte"], cursor=first["next_cursor"])
    assert [node["preview"] for node in (first["members"]["nodes"][-1], second["members"]["nodes"][0])] == [
        "199",
        "200",
    ]
    for cursor in ("x", "1", "-1 2 0", "1 2 3 4"):
        assert (await refuse(client, "/json", id="a", cursor=cursor))[0] == 400


async def test_values_at_a_path_are_bounded(client: httpx2.AsyncClient, spool: Spool) -> None:
    await spool.write("a", json.dumps([{"n": n, "t": "x" * 1_000} for n in range(300)]))
    found = await ask(client, "/json/path", id="a", path="$[?@.n > 297].n")
    assert found == {"values": ["298", "299"], "is_cut": False}
    found = await ask(client, "/json/path", id="a", path="$[*]")
    assert found["is_cut"]
    assert sum(map(len, found["values"])) < 100_000
    assert (await refuse(client, "/json/path", id="a", path="$["))[0] == 422


async def test_markdown_is_a_tree_of_nodes(client: httpx2.AsyncClient, spool: Spool) -> None:
    await spool.write("a.md", "# One\n\n[x](javascript:alert(1)) <b>b</b>\n")
    page = await ask(client, "/markdown", id="a.md")
    assert [node["type"] for node in page["nodes"]] == ["heading", "paragraph"]
    assert [node["type"] for node in page["nodes"][1]["children"]] == ["link", "text", "html", "text", "html"]
    outline = await ask(client, "/outline", id="a.md")
    assert [(heading["text"], heading["start_line"]) for heading in outline["headings"]] == [("One", 0)]


async def test_a_download_is_a_file_that_no_browser_opens(client: httpx2.AsyncClient, spool: Spool) -> None:
    content = b"<script>alert(1)</script>" * 100_000
    await spool.write('x/"; filename=evil.html\r\nX: y.html', content)
    response = await client.get(f"{PREFIX}/download", params={"id": 'x/"; filename=evil.html\r\nX: y.html'})
    assert response.content == content
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-disposition"].startswith('attachment; filename="___filename_evil.html__X__y.html"')
    assert "x" not in response.headers


async def test_the_calls_that_stored_an_artifact_are_searched_in_the_journal(
    client: httpx2.AsyncClient, spool: Spool
) -> None:
    await spool.write("a", "x")
    assert await ask(client, "/calls", id="a") == {"calls": []}


async def test_an_unknown_artifact_is_not_found(client: httpx2.AsyncClient) -> None:
    for path in ("/facts", "/lines", "/piece", "/bytes", "/json", "/outline", "/markdown", "/table", "/download"):
        status, error = await refuse(client, path, id="absent")
        assert (status, error["field"]) == (404, "id")


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/lines", {"line": -1}),
        ("/lines", {"count": 100_000}),
        ("/lines", {"percent": "nan"}),
        ("/lines", {"byte": 10**30}),
        ("/search", {"pattern": ""}),
        ("/search", {"pattern": "a", "flags": "x"}),
        ("/search", {"pattern": "a", "before": 1_000}),
        ("/json", {"byte": -2}),
        ("/table", {"limit": 0}),
        ("/facts", {"unknown": 1}),
        ("", {"limit": 501}),
        ("", {"cursor": "x y"}),
    ],
)
async def test_values_out_of_bounds_are_refused(
    client: httpx2.AsyncClient, spool: Spool, path: str, params: Any
) -> None:
    await spool.write("a", "x")
    given = params if path == "" else {"id": "a", **params}
    assert (await refuse(client, path, **given))[0] == 400


@pytest.mark.slow
async def test_a_table_is_queried_with_sql(client: httpx2.AsyncClient, spool: Spool) -> None:
    await spool.write("a.csv", "town,total\n" + "".join(f"t{n % 3},{n}\n" for n in range(1_000)))
    table = await ask(client, "/table", id="a.csv", limit=2)
    assert table == {
        "columns": [["town", "VARCHAR"], ["total", "BIGINT"]],
        "rows": [["t0", 0], ["t1", 1]],
        "is_cut": True,
    }
    sql = "SELECT town, sum(total) AS n FROM artifact GROUP BY town ORDER BY town;"
    assert (await ask(client, "/table", id="a.csv", sql=sql))["rows"] == [
        ["t0", 166833],
        ["t1", 166167],
        ["t2", 166500],
    ]
    status, error = await refuse(client, "/table", id="a.csv", sql="DROP TABLE artifact")
    assert (status, error["code"]) == (422, "E_ARTIFACT_QUERY")


def test_every_endpoint_only_reads_and_is_open_to_viewers() -> None:
    assert {(endpoint.role, endpoint.method) for endpoint in ENDPOINTS} == {("viewer", "GET")}
