"""The official reference servers behind a real `spindle serve`, through the SDK's own client."""

import json
import re
import sys
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from tests.mcp.gateways import LEGACY, MODERN, PLAIN, code_of, entry, gateway, names_of, text_of
from tests.mcp.serving import npm_program

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(120)]

ANSWER: dict[str, Any] = {"name": "Ada", "check": True, "integer": 7}
NOTHING: dict[str, Any] = {}
BIN = Path(sys.executable).parent
over_both = pytest.mark.parametrize(
    ("way", "mode"), [("stdio", LEGACY), ("stdio", MODERN), ("http", LEGACY), ("http", MODERN)]
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the server under test has its own


def everything() -> str:
    return entry("everything", npm_program("mcp-server-everything"))


@over_both
async def test_texts_images_resources_and_links_come_through(way: str, mode: str, tmp_path: Path) -> None:
    async with gateway(tmp_path, way, mode, config=PLAIN + everything()) as client:
        said = await client.call_tool("mcp__everything__echo", {"message": "hello"})
        image = await client.call_tool("mcp__everything__get-tiny-image", {})
        embedded = await client.call_tool(
            "mcp__everything__get-resource-reference", {"resourceType": "Text", "resourceId": 1}
        )
        blob = await client.call_tool(
            "mcp__everything__get-resource-reference", {"resourceType": "Blob", "resourceId": 1}
        )
        links = await client.call_tool("mcp__everything__get-resource-links", {"count": 2})
        data = await client.call_tool("mcp__everything__get-structured-content", {"location": "New York"})

    assert text_of(said) == "Echo: hello"
    pictures = [block for block in image.content if isinstance(block, types.ImageContent)]
    assert [each.mime_type for each in pictures] == ["image/png"]
    assert pictures[0].data.startswith("iVBORw0KGgo")
    for given, kind in ((embedded, types.TextResourceContents), (blob, types.BlobResourceContents)):
        [resource] = [block.resource for block in given.content if isinstance(block, types.EmbeddedResource)]
        assert isinstance(resource, kind)
    assert "Resource 1: This is a plaintext resource" in str(embedded.content)
    assert len([block for block in links.content if isinstance(block, types.ResourceLink)]) == 2
    assert json.loads(text_of(data)).keys() == {"temperature", "conditions", "humidity"}


@over_both
async def test_progress_comes_through(way: str, mode: str, tmp_path: Path) -> None:
    reported: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        assert total == 100
        reported.append(progress)

    async with gateway(tmp_path, way, mode, config=PLAIN + everything()) as client:
        done = await client.call_tool(
            "mcp__everything__trigger-long-running-operation", {"duration": 0.5, "steps": 4}, progress_callback=note
        )

    assert "completed" in text_of(done)
    assert reported == [25, 50, 75, 100]


@over_both
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_a_question_reaches_the_user_and_the_answer_the_server(
    way: str, mode: str, action: Any, tmp_path: Path
) -> None:
    asked: list[types.ElicitRequestFormParams] = []

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        asked.append(params)
        return types.ElicitResult(action=action, content=ANSWER if action == "accept" else None)

    config = PLAIN + everything()
    async with gateway(tmp_path, way, mode, config=config, elicitation_callback=answer) as client:
        done = text_of(await client.call_tool("mcp__everything__trigger-elicitation-request", {}))

    assert len(asked) == 1
    assert "'everything' asks: Please provide inputs" in asked[0].message
    assert {"name", "check", "email", "integer"} <= asked[0].requested_schema["properties"].keys()
    assert f'"action": "{action}"' in done
    assert ('"name": "Ada"' in done and '"integer": 7' in done) is (action == "accept")


@over_both
async def test_without_a_user_questions_are_declined(way: str, mode: str, tmp_path: Path) -> None:
    async with gateway(tmp_path, way, mode, config=PLAIN + everything()) as client:
        done = text_of(await client.call_tool("mcp__everything__trigger-elicitation-request", {}))

    assert '"action": "decline"' in done


@over_both
async def test_wrong_arguments_are_refused_before_the_server_is_asked(way: str, mode: str, tmp_path: Path) -> None:
    async with gateway(tmp_path, way, mode, config=PLAIN + everything()) as client:
        wrong = await client.call_tool("mcp__everything__get-sum", {"a": "one", "b": 2})
        missing = await client.call_tool("mcp__everything__echo", {})
        unknown = await client.call_tool("mcp__everything__no-such-tool", {})

    assert [code_of(each) for each in (wrong, missing, unknown)] == ["input_invalid", "input_invalid", "not_available"]


@over_both
async def test_files_are_read_and_written_only_where_the_server_allows(way: str, mode: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_text("alpha\nbeta\n")
    (tmp_path / "secret.txt").write_text("hidden")
    config = PLAIN + entry("files", [*npm_program("mcp-server-filesystem"), str(root)], write=["root"])
    async with gateway(tmp_path, way, mode, config=config) as client:
        read = await client.call_tool("mcp__files__read_text_file", {"path": str(root / "a.txt")})
        wrote = await client.call_tool("mcp__files__write_file", {"path": str(root / "b.txt"), "content": "new"})
        refused = await client.call_tool("mcp__files__read_text_file", {"path": str(tmp_path / "secret.txt")})

    assert text_of(read).startswith("alpha\nbeta")
    assert code_of(wrote) is None
    assert (root / "b.txt").read_text() == "new"
    assert code_of(refused) == "execution_failed"
    assert "hidden" not in text_of(refused)


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_notes_of_one_client_in_the_memory_server_are_found_by_the_next(mode: str, tmp_path: Path) -> None:
    (tmp_path / "graph").mkdir()
    graph = {"MEMORY_FILE_PATH": str(tmp_path / "graph" / "graph.jsonl")}
    config = PLAIN + entry("memory", npm_program("mcp-server-memory"), env=graph, write=["graph"])
    entities = [{"name": "Spindle", "entityType": "tool", "observations": ["it turns"]}]
    async with gateway(tmp_path, "stdio", mode, config=config) as client:
        made = await client.call_tool("mcp__memory__create_entities", {"entities": entities})
    async with gateway(tmp_path, "http", mode) as client:
        found = await client.call_tool("mcp__memory__search_nodes", {"query": "turns"})

    assert code_of(made) is None
    assert "it turns" in text_of(found)


@over_both
async def test_the_git_server_reads_a_repository(way: str, mode: str, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    await anyio.run_process(["git", "init", "-q", "-b", "main", str(repository)])
    (repository / "new.txt").write_text("new")
    config = PLAIN + entry("git", [str(BIN / "mcp-server-git"), "--repository", str(repository)])
    async with gateway(tmp_path, way, mode, config=config) as client:
        status = await client.call_tool("mcp__git__git_status", {"repo_path": str(repository)})
        refused = await client.call_tool("mcp__git__git_status", {"repo_path": str(tmp_path)})

    assert "new.txt" in text_of(status)
    assert code_of(refused) == "execution_failed"


@over_both
async def test_the_time_server_returns_the_time(way: str, mode: str, tmp_path: Path) -> None:
    config = PLAIN + entry("time", [str(BIN / "mcp-server-time")])
    async with gateway(tmp_path, way, mode, config=config) as client:
        now = await client.call_tool("mcp__time__get_current_time", {"timezone": "Asia/Tokyo"})
        nowhere = await client.call_tool("mcp__time__get_current_time", {"timezone": "Nowhere/At_All"})

    assert json.loads(text_of(now))["datetime"].endswith("+09:00")
    assert code_of(nowhere) == "execution_failed"


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_there = self.path == "/page"
        self.send_response(200 if is_there else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        paragraphs = "".join(f"<p>Paragraph {n} of the page.</p>" for n in range(20_000))
        self.wfile.write(f"<html><body><h1>A page</h1>{paragraphs}</body></html>".encode() if is_there else b"")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def page() -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/page"
    server.shutdown()
    thread.join()
    server.server_close()


@over_both
async def test_a_large_page_is_shown_in_part_and_read_to_its_end(
    way: str, mode: str, page: str, tmp_path: Path
) -> None:
    config = PLAIN + entry("fetch", [str(BIN / "mcp-server-fetch"), "--allow-private-ips"])
    arguments = {"url": page, "max_length": 999_999, "raw": True}
    async with gateway(tmp_path, way, mode, config=config) as client:
        shown = text_of(await client.call_tool("mcp__fetch__fetch", arguments))
        found = re.search(r'call_id "([^"]+)"', shown)
        assert found is not None, shown[-500:]
        last = await client.call_tool("artifact_grep", {"call_id": found[1], "pattern": "Paragraph 19999 of"})
        missing = await client.call_tool("mcp__fetch__fetch", {"url": page + "-that-is-not-there"})

    assert len(shown) < 60_000
    assert "Paragraph 19999 of the page" in text_of(last)
    assert code_of(missing) == "execution_failed"


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_the_servers_of_a_desktop_clients_file_stand_side_by_side(way: str, tmp_path: Path) -> None:
    node, program = npm_program("mcp-server-everything")
    servers = {
        "everything": {"command": node, "args": [program]},
        "files": {"command": node, "args": [npm_program("mcp-server-filesystem")[1], str(tmp_path)]},
        "memory": {"command": node, "args": [npm_program("mcp-server-memory")[1]]},
        "fetch": {"command": str(BIN / "mcp-server-fetch")},
        "git": {"command": str(BIN / "mcp-server-git")},
        "time": {"command": str(BIN / "mcp-server-time")},
        "off": {"command": "no-such-program", "disabled": True},
    }
    (tmp_path / "client.json").write_text(json.dumps({"mcpServers": servers}))
    async with gateway(tmp_path, way, LEGACY, "--mcp-config", str(tmp_path / "client.json")) as client:
        names = await names_of(client)
        outcomes: dict[str, types.CallToolResult] = {}

        async def call(name: str, arguments: dict[str, Any]) -> None:
            outcomes[name] = await client.call_tool(name, arguments)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "mcp__everything__echo", {"message": "side by side"})
            tasks.start_soon(call, "mcp__files__list_directory", {"path": str(tmp_path)})
            tasks.start_soon(call, "mcp__memory__read_graph", NOTHING)
            tasks.start_soon(call, "mcp__time__get_current_time", {"timezone": "UTC"})

    prefixes = {name.split("__")[1] for name in names if name.startswith("mcp__")}
    assert prefixes == servers.keys() - {"off"}
    assert {name: text_of(each) for name, each in outcomes.items() if code_of(each) is not None} == {}
    assert "untrusted_content_" in text_of(outcomes["mcp__everything__echo"])
    assert "client.json" in text_of(outcomes["mcp__files__list_directory"])
