"""The page /metrics of the gateway."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from spindle import ToolContext
from spindle.cli import open_runtime
from spindle.cli.config import load_config
from spindle.cli.gateway_metrics import GatewayMetrics, build_call_metrics
from spindle.mcp.server import HttpSettings, ToolServer, http_app
from tests.execution.calling import call

pytestmark = pytest.mark.anyio
TOKEN = "a-token-of-the-test"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@asynccontextmanager
async def gateway(tmp_path: Path, text: str = "", *, has_extra: bool = True) -> AsyncGenerator[httpx.AsyncClient]:
    path = tmp_path / "spindle.toml"
    path.write_text(f"[tools]\nkit = true\n{text}", encoding="utf-8")
    config = load_config(path, state=tmp_path / "state")
    calls = build_call_metrics(config) if has_extra else None
    async with open_runtime(config, interceptors=[calls] if calls else [], wait_for_servers=False) as runtime:
        server = ToolServer(runtime.executor, runtime.registry)
        page = GatewayMetrics(runtime=runtime, calls=calls)
        app = http_app(
            server,
            HttpSettings(tokens={hashlib.sha256(TOKEN.encode()).hexdigest(): None}),
            metrics=(lambda: page.answer(server)) if config.server.metrics else None,
            refusals=page.refusals,
        )
        await runtime.executor.execute_parallel([call("calculate", {"expression": "1+2"})], ToolContext())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
            yield http


async def test_the_page_has_calls_servers_stores_and_refusals(tmp_path: Path) -> None:
    server = '[mcp.servers.slow]\ncommand = "no-such-program-of-the-test"\n'
    async with gateway(tmp_path, server) as http:
        refused = await http.get("/metrics")
        answer = await http.get("/metrics", headers=BEARER)

    lines = answer.text.splitlines()
    assert (refused.status_code, answer.status_code) == (401, 200)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'spindle_tool_calls_total{code="ok",tool="calculate"} 1.0' in lines
    assert 'spindle_http_refusals_total{status="401"} 1.0' in lines
    assert 'spindle_upstream_restarts_total{server="slow"} 0.0' in lines
    assert sum(line.startswith('spindle_upstream_state{server="slow"') and line.endswith(" 1.0") for line in lines) == 1
    for name in ("sessions", "calls_running", "spool_bytes", "spool_artifacts", "journal_bytes", "approvals_waiting"):
        assert [line for line in lines if line.startswith(f"spindle_{name} ")], name


async def test_the_page_can_be_switched_off(tmp_path: Path) -> None:
    async with gateway(tmp_path, "[server]\nmetrics = false\n") as http:
        assert (await http.get("/metrics", headers=BEARER)).status_code == 404


async def test_without_the_extra_the_page_says_what_to_install(tmp_path: Path) -> None:
    async with gateway(tmp_path, has_extra=False) as http:
        answer = await http.get("/metrics", headers=BEARER)

    assert answer.status_code == 404
    assert "'metrics'" in answer.text
