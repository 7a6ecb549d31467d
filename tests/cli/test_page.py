"""The page that `spindle serve` builds from its configuration."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from spindle.cli import runtime
from spindle.cli.page import build_page
from spindle.inspector import is_page_path
from spindle.mcp import HttpSettings, ToolServer, http_app
from spindle.mcp.server import PageRoute
from tests.mcp.gateways import inside

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
TOKEN = "a-token-of-the-reader-5n3Kx2"
ORIGIN = "http://127.0.0.1:8321"
MODULE = """
from spindle import tool
@tool
def first() -> str:
    "Be the first."
    return ""
@tool
def second() -> str:
    "Be the second."
    return ""
TOOLS = [first, second]
"""
CONFIG = """
[tools]
modules = ["pagetools:TOOLS"]
python_path = ["."]
[journal]
path = "memory"
[profiles.reader]
page = "viewer"
"""


async def test_the_filter_of_a_profile_is_built_once_and_not_for_each_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pagetools.py").write_text(MODULE)
    built: list[Any] = []
    build = runtime.build_filter

    def count(*args: Any) -> Any:
        built.append(args)
        return build(*args)

    with anyio.fail_after(60):
        async with inside(tmp_path, CONFIG) as gateway:
            parts = gateway.runtime
            http = HttpSettings(tokens={sha256(TOKEN.encode()).hexdigest(): "reader"})
            server = ToolServer(parts.executor, parts.registry)
            app = build_page(parts, server, http, None)
            transport = httpx2.ASGITransport(http_app(server, http, page=PageRoute(app=app, owns=is_page_path)))
            headers = {"Authorization": f"Bearer {TOKEN}"}
            monkeypatch.setattr(runtime, "build_filter", count)
            async with httpx2.AsyncClient(transport=transport, base_url=ORIGIN, headers=headers) as client:
                answers = [
                    await client.get(f"/api/v1/{path}") for path in ("health", "tools", "calls", "calls/filters")
                ]
            app.close()

    assert [answer.status_code for answer in answers] == [200] * 4
    assert answers[1].json()["total"] == 2
    assert len(built) == 1
