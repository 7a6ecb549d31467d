"""The page that `spindle serve` builds from its configuration."""

from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from starlette.responses import Response

from spindle.cli import runtime
from spindle.cli.page import build_page
from spindle.cli.runtime_stores import read_state_key
from spindle.execution import StateKey
from spindle.inspector import PageLogins
from spindle.inspector.endpoints import PageUser
from spindle.inspector.logins import PAGE_HEADER
from spindle.mcp import HttpSettings, ToolServer
from tests.mcp.gateways import inside

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]
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
            parts, http = gateway.runtime, HttpSettings()
            app = build_page(parts, ToolServer(parts.executor, parts.registry), http, None)
            cookie, key = f"spindle_page_{http.port}", StateKey(read_state_key(parts.config))
            logins = PageLogins(key=key, states=parts.journal.states, roles={"reader": "viewer"}, cookie=cookie)
            response = Response()
            token = logins.log_in(response, PageUser(session="", role="viewer", by="x", profile="reader"))
            headers = {"cookie": response.headers["set-cookie"].partition(";")[0], PAGE_HEADER: token}
            monkeypatch.setattr(runtime, "build_filter", count)
            transport = httpx2.ASGITransport(app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://page.test", headers=headers) as client:
                answers = [
                    await client.get(f"/api/v1/{path}") for path in ("health", "tools", "calls", "calls/filters")
                ]
            app.close()

    assert [answer.status_code for answer in answers] == [200] * 4
    assert answers[1].json()["total"] == 2
    assert len(built) == 1
