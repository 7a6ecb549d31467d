"""The status page of a worker: /health for a supervisor and /metrics in the text format of Prometheus."""

import json
from collections.abc import Callable
from typing import Final

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import SocketAttribute, SocketStream, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream

from spindle.engines.worker import WorkerStats
from spindle.errors import MissingExtraError
from spindle.json_types import JsonObject
from spindle.telemetry.prometheus import CONTENT_TYPE, Family, render_metrics

_MAX_REQUEST_BYTES: Final = 8_192
_REQUEST_SECONDS: Final = 5.0
_MAX_CONNECTIONS: Final = 32


def build_health(stats: WorkerStats) -> JsonObject:
    """Return the health of a worker; any status but `ok` means that it takes no calls."""
    status = "draining" if stats.is_draining else "ok" if stats.is_connected else "connecting"
    return {"status": status, "running": stats.running, "finished": stats.outcomes.total()}


def build_metrics(stats: WorkerStats) -> bytes:
    """Return the metrics of a worker.

    Raises:
        MissingExtraError: prometheus-client is not installed.
    """
    is_up = stats.is_connected and not stats.is_draining
    families = [
        Family(name="spindle_worker_up", help="Whether it takes calls.", values=[({}, is_up)]),
        Family(name="spindle_worker_calls_running", help="Calls in progress.", values=[({}, stats.running)]),
        Family(
            name="spindle_worker_takeovers",
            help="Calls taken over from a worker that was lost.",
            kind="counter",
            values=[({}, stats.takeovers)],
        ),
        Family(
            name="spindle_worker_calls",
            help="Finished calls by outcome.",
            kind="counter",
            values=[({"code": code}, count) for code, count in sorted(stats.outcomes.items())],
        ),
        Family(
            name="spindle_worker_iterations",
            help="Iterations of turns by status.",
            kind="counter",
            values=[({"status": name}, count) for name, count in sorted(stats.iterations.items())],
        ),
    ]
    return render_metrics(families)


async def serve_status(
    stats: WorkerStats, host: str, port: int, *, task_status: TaskStatus[int] = TASK_STATUS_IGNORED
) -> None:
    """Serve the page until cancelled; it has started with the number of its port."""
    slots = anyio.CapacityLimiter(_MAX_CONNECTIONS)

    async def answer(client: SocketStream) -> None:
        async with client, slots:
            with anyio.move_on_after(_REQUEST_SECONDS):
                try:
                    head = await BufferedByteReceiveStream(client).receive_until(b"\r\n", _MAX_REQUEST_BYTES)
                except (anyio.DelimiterNotFound, anyio.IncompleteRead, anyio.BrokenResourceError):
                    return
                await client.send(_build_response(stats, head))

    listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    async with listener:
        task_status.started(listener.extra(SocketAttribute.local_port))  # noqa: S610 - anyio's, not Django's
        await listener.serve(answer)


def _build_response(stats: WorkerStats, head: bytes) -> bytes:
    parts = head.decode("latin-1").split(" ")
    pages: dict[str, Callable[[], tuple[int, str, bytes]]] = {
        "/health": lambda: _health_page(stats),
        "/metrics": lambda: _metrics_page(stats),
    }
    page = pages.get(parts[1]) if len(parts) == 3 and parts[0] == "GET" else None
    status, kind, data = (404, "text/plain", b"not found\n") if page is None else page()
    reason = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}[status]
    fields = f"Content-Type: {kind}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n"
    return f"HTTP/1.1 {status} {reason}\r\n{fields}\r\n".encode() + data


def _health_page(stats: WorkerStats) -> tuple[int, str, bytes]:
    health = build_health(stats)
    return 200 if health["status"] == "ok" else 503, "application/json", f"{json.dumps(health)}\n".encode()


def _metrics_page(stats: WorkerStats) -> tuple[int, str, bytes]:
    try:
        return 200, CONTENT_TYPE, build_metrics(stats)
    except MissingExtraError as missing:
        return 404, "text/plain; charset=utf-8", f"{missing}\n".encode()
