"""Several `spindle serve` that share a journal and a spool, and a balancer between them and a client."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.mcp.gateways import SERVERS
from tests.mcp.serving import serving

STOPPING = 503
TOOLS = '''
import json
import os
from pathlib import Path

import anyio

from spindle import ToolContext, tool
from spindle.turns import Gate

LOG = Path(os.environ["REPLICA_LOG"])


def note(text):
    with LOG.open("a") as file:
        file.write(f"{text}\\n")


@tool
def who() -> str:
    """Name the process."""
    return str(os.getpid())


@tool(requires_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    note(f"paid {amount}")
    return f"paid {amount} by {os.getpid()}"


async def greet(ctx, kind):
    note(f"{kind} began")
    name = await ctx.wait_for(Gate("name", {"question": "Your name?"}, schema={"type": "string"}, timeout_seconds=300))
    note(f"{kind} greeted {name}")
    return f"hello {name} from {os.getpid()}"


@tool
async def once(ctx: ToolContext) -> str:
    """Ask in the middle, and run once."""
    return await greet(ctx, "once")


@tool(idempotent=True)
async def again(ctx: ToolContext) -> str:
    """Ask in the middle, and run again if that is needed."""
    return await greet(ctx, "again")


@tool
def report() -> str:
    """Write much."""
    return json.dumps([{"line": number} for number in range(20_000)])


@tool
async def slow(ctx: ToolContext) -> str:
    """Wait to be cancelled."""
    note("slow began")
    try:
        await anyio.sleep(120)
    except BaseException:
        note("slow was cancelled")
        raise
    return "not cancelled"


@tool
def drop(table: str) -> str:
    """Drop a table."""
    note(f"dropped {table}")
    return "dropped"


@tool
def mark(number: int) -> str:
    """Write a number."""
    note(f"mark {number}")
    return "marked"


@tool
async def nap() -> str:
    """Take a while."""
    note("nap began")
    await anyio.sleep(2)
    return "slept"


TOOLS = [who, pay, once, again, report, slow, drop, mark, nap]
'''

CONFIG = """
[tools]
modules = ["replica_tools:TOOLS"]
python_path = ["{folder}"]
[journal]
url = "${{JOURNAL_URL}}"
[spool]
path = "{folder}/spool"
[mcp.servers.one]
command = "{python}"
args = ["-I", "-S", "{hostile}"]
[trust]
dangerous = ["drop"]
[server]
fence = false
stop_seconds = 5
"""


class Replica:
    """One process, and its address."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self.process, self.address = process, address
        self.pid = process.pid

    def kill(self) -> None:
        """End it as a crash does."""
        os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Ask it to end, without waiting."""
        self.process.send_signal(signal.SIGTERM)


class HasAddress(Protocol):
    """Where a server can be reached."""

    address: str


class Balancer(httpx2.AsyncBaseTransport):
    """Sends each request to the next replica, or to the one that `route` names for what it is."""

    def __init__(self, replicas: Sequence[HasAddress]) -> None:
        self.replicas = list(replicas)
        self.route: Callable[[str], int | None] = lambda _kind: None
        self._count = count()
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        while True:
            response, chosen = await self._send(request)
            if response.status_code != STOPPING or len(self.replicas) == 1:
                return response
            self.replicas.remove(chosen)  # it stops; another one can serve the request

    async def _send(self, request: httpx2.Request) -> tuple[httpx2.Response, HasAddress]:
        body = await request.aread()
        message: dict[str, Any] = json.loads(body) if body else {}
        place = self.route(str(message.get("method") or ("answer" if message else request.method)))
        chosen = self.replicas[(next(self._count) if place is None else place) % len(self.replicas)]
        where = urlsplit(chosen.address)
        request.url = request.url.copy_with(host=where.hostname, port=where.port)
        request.headers["host"] = where.netloc
        return await self._inner.handle_async_request(request), chosen

    async def aclose(self) -> None:
        await self._inner.aclose()


class Cluster:
    """The replicas, and what their tools did."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self.replicas: list[Replica] = []
        self.log = folder / "log.txt"

    def start(self, *arguments: str, config: str = "") -> Replica:
        """Start another replica."""
        own = Path(tempfile.mkdtemp(prefix="replica-", dir=self.folder))
        text = CONFIG.format(folder=self.folder, python=sys.executable, hostile=SERVERS / "hostile.py") + config
        replica = Replica(*self._stack.enter_context(serving(own, *arguments, config=text)))
        self.replicas.append(replica)
        return replica

    @property
    def lines(self) -> list[str]:
        """What the tools wrote, in order."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    async def wait_for_lines(self, *lines: str) -> None:
        """Wait until the tools have written these lines, and no others."""
        while self.lines != list(lines):  # noqa: ASYNC110  another process writes them
            await anyio.sleep(0.02)

    @asynccontextmanager
    async def client(self, mode: str, **options: Any) -> AsyncGenerator[tuple[Client, Balancer]]:
        """Connect through a balancer."""
        balancer = Balancer(self.replicas)
        headers = options.pop("headers", {})
        timeout = httpx2.Timeout(120)
        async with httpx2.AsyncClient(transport=balancer, headers=headers, timeout=timeout) as http:
            connection = streamable_http_client(self.replicas[0].address, http_client=http)
            async with Client(connection, mode=mode, **options) as client:
                yield client, balancer


@contextmanager
def cluster(folder: Path, dsn: str) -> Generator[Cluster]:
    """Prepare a cluster without replicas; those that are started end with it."""
    (folder / "replica_tools.py").write_text(TOOLS)
    before = dict(os.environ)
    os.environ |= {"JOURNAL_URL": dsn, "SPINDLE_STATE_KEY": "k" * 40, "REPLICA_LOG": str(folder / "log.txt")}
    try:
        with ExitStack() as stack:
            yield Cluster(folder, stack)
    finally:
        os.environ.clear()
        os.environ.update(before)
