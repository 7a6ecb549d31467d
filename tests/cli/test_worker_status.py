"""The status page of a worker: health by its state, metrics as Prometheus reads them, and hostile requests."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from spindle.cli.worker_status import build_metrics, serve_status
from spindle.engines import WorkerStats

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def serving(stats: WorkerStats) -> AsyncGenerator[int]:
    async with anyio.create_task_group() as tasks:
        yield await tasks.start(serve_status, stats, "127.0.0.1", 0)
        tasks.cancel_scope.cancel()


async def fetch(port: int, request: bytes) -> tuple[str, str]:
    """Return the status line and the body."""
    received = b""
    with anyio.fail_after(30):
        async with await anyio.connect_tcp("127.0.0.1", port) as client:
            await client.send(request)
            async for part in client:
                received += part
    head, _, body = received.decode().partition("\r\n\r\n")
    return head.partition("\r\n")[0], body


@pytest.mark.parametrize(
    ("stats", "status", "code"),
    [
        (WorkerStats(running=2), "connecting", "503 Service Unavailable"),
        (WorkerStats(running=2, is_connected=True), "ok", "200 OK"),
        (WorkerStats(running=2, is_connected=True, is_draining=True), "draining", "503 Service Unavailable"),
    ],
)
async def test_health_is_ok_only_while_the_worker_takes_calls(stats: WorkerStats, status: str, code: str) -> None:
    async with serving(stats) as port:
        line, body = await fetch(port, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")

    assert line == f"HTTP/1.1 {code}"
    assert json.loads(body) == {"status": status, "running": 2, "finished": 0}


async def test_metrics_have_every_outcome() -> None:
    stats = WorkerStats(running=1, takeovers=3, is_connected=True)
    stats.outcomes.update({"ok": 5, "interrupted": 1})
    async with serving(stats) as port:
        line, body = await fetch(port, b"GET /metrics HTTP/1.1\r\n\r\n")

    assert line == "HTTP/1.1 200 OK"
    assert body == build_metrics(stats).decode()
    assert 'spindle_worker_calls_total{code="ok"} 5.0' in body.splitlines()
    assert "spindle_worker_takeovers_total 3.0" in body.splitlines()


@pytest.mark.parametrize("request_line", [b"GET /other HTTP/1.1\r\n", b"POST /health HTTP/1.1\r\n", b"\xff\xfe\r\n"])
async def test_anything_else_is_not_found(request_line: bytes) -> None:
    async with serving(WorkerStats()) as port:
        line, _ = await fetch(port, request_line + b"\r\n")

    assert line == "HTTP/1.1 404 Not Found"


async def test_a_request_without_an_end_gets_no_answer_and_harms_no_other() -> None:
    async with serving(WorkerStats(is_connected=True)) as port, await anyio.connect_tcp("127.0.0.1", port) as client:
        await client.send(b"G" * 9_000)
        line, _ = await fetch(port, b"GET /health HTTP/1.1\r\n\r\n")

    assert line == "HTTP/1.1 200 OK"
