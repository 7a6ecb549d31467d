"""200 clients at once for a minute, on both revisions: no error, and a server that is as large afterwards as before."""

import json
import os
import random
import re
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.mcp.gateways import LEGACY, MODERN, SERVERS, entry
from tests.mcp.serving import serving

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(400)]

CLIENTS = 200
SECONDS = float(os.environ.get("SPINDLE_LOAD_SECONDS", "60"))
WARM_SHARE = 0.25
"""Of the time, until 200 clients are in full swing and pools are as large as they get."""
PERIODS = 3
"""At most: on a busy machine pools may fill only in the second one, while a leak grows in each."""
MIN_CALLS = 5 * CLIENTS
CALLS_OF_A_SESSION = 20
MAX_GROWTH = 1.15
MAX_SLOPE = 8
"""Megabytes a minute."""
LINES = 6_000
"""More than is shown, so that it is kept whole and read back."""

CONFIG = (
    f'[tools]\nmodules = ["holding:TOOLS"]\npython_path = ["{SERVERS}"]\n'
    "[limits]\nbudget_chars = 20000\n"
    "[server]\nfence = false\n" + entry("up", [sys.executable, str(SERVERS / "steady.py"), "stdio"], required=True)
)
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": HELLO["clientInfo"],
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Tally:
    """What the clients saw."""

    calls: Counter[str] = field(default_factory=Counter[str])
    errors: Counter[str] = field(default_factory=Counter[str])


class RawClient:
    """As little of a client as the protocol needs, so that 200 of them leave the server some of the machine."""

    def __init__(self, http: httpx.AsyncClient, address: str, mode: str, tally: Tally) -> None:
        self._http, self._address, self._mode, self._tally = http, address, mode, tally
        self._session: str | None = None
        self._ids = count(1)

    async def open(self) -> None:
        if self._mode == LEGACY:
            answer = await self._post({"id": next(self._ids), "method": "initialize", "params": HELLO})
            self._session = answer.headers["mcp-session-id"]
            await self._post({"method": "notifications/initialized"})

    async def close(self) -> None:
        if self._session is not None:
            await self._http.delete(self._address, headers=self._headers("")[0])
            self._session = None

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        message = {"id": next(self._ids), "method": "tools/call", "params": params}
        answer = await self._post(message, name)
        reported = answer.json() if answer.headers["content-type"] == "application/json" else _event(answer.text)
        assert reported["id"] == message["id"]
        self._tally.calls[name] += 1
        text = reported["result"]["content"][0]["text"]
        if reported["result"]["isError"]:
            self._tally.errors[f"{name}: {text[:200]}"] += 1
        return text

    async def _post(self, message: dict[str, Any], name: str = "") -> httpx.Response:
        headers, meta = self._headers(name)
        if meta:
            message["params"] = {**message["params"], "_meta": META}
        answer = await self._http.post(self._address, json={"jsonrpc": "2.0", **message}, headers=headers)
        answer.raise_for_status()
        return answer

    def _headers(self, name: str) -> tuple[dict[str, str], bool]:
        if self._mode == MODERN:
            return {**HEADERS, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": name}, True
        if self._session is None:
            return HEADERS, False
        return {**HEADERS, "mcp-protocol-version": "2025-11-25", "mcp-session-id": self._session}, False


def _event(text: str) -> Any:
    """The answer in a stream of events: those before it may say that the tools have changed."""
    sent = [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
    return next(message for message in sent if "id" in message)


async def _use(address: str, mode: str, tally: Tally, chance: random.Random, until: float) -> None:
    """Be one client after another: open, call, leave."""
    # A pool for each: a shared one looks through all of its connections for every request.
    async with httpx.AsyncClient(timeout=60, verify=False) as http:
        while anyio.current_time() < until:
            client = RawClient(http, address, mode, tally)
            await client.open()
            for _ in range(chance.randrange(CALLS_OF_A_SESSION // 2, CALLS_OF_A_SESSION)):
                if anyio.current_time() > until:
                    break
                await _call_something(client, chance)
            await client.close()


async def _call_something(client: RawClient, chance: random.Random) -> None:
    dice = chance.random()
    if dice < 0.45:
        assert (await client.call("whoami", {})).isdigit()
    elif dice < 0.95:
        text = f"text {chance.random()}"
        assert await client.call("mcp__up__echo", {"text": text}) == text
    else:
        shown = await client.call("mcp__up__lines", {"count": LINES})
        kept = re.search(r'call_id "([^"]+)"', shown)
        assert kept is not None, f"not kept whole: {shown[:500]}"
        last = await client.call("artifact_tail", {"call_id": kept[1], "n": 1})
        assert f"line {LINES - 1} of upstream" in last


@dataclass(frozen=True)
class Size:
    """How large the server is."""

    at: float
    rss: float
    """Megabytes."""
    files: int
    threads: int

    @classmethod
    def of(cls, pid: int) -> "Size":
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return cls(anyio.current_time(), int(status["VmRSS"].split()[0]) / 1024, files, int(status["Threads"]))


async def _watch(pid: int, sizes: list[Size]) -> None:
    while True:
        sizes.append(Size.of(pid))
        await anyio.sleep(1)


def _slope(sizes: list[Size]) -> float:
    """Megabytes that it grows in a minute, by the line that fits best."""
    at = [each.at for each in sizes]
    rss = [each.rss for each in sizes]
    middle, level = sum(at) / len(at), sum(rss) / len(rss)
    spread = sum((x - middle) ** 2 for x in at)
    return 60 * sum((x - middle) * (y - level) for x, y in zip(at, rss, strict=True)) / spread


async def test_200_clients_for_a_minute_see_no_error_and_leave_nothing_behind(tmp_path: Path) -> None:
    tally, warm = Tally(), list[Size]()
    with serving(tmp_path, "--log-level", "error", config=CONFIG) as (process, address):
        async with httpx.AsyncClient(timeout=60, verify=False) as http:
            await _warm_up(http, address)
            before = Size.of(process.pid)
            for _ in range(PERIODS):
                warm = await _load(process.pid, address, tally)
                is_level = warm[-1].rss < MAX_GROWTH * warm[0].rss and _slope(warm) < MAX_SLOPE
                if is_level and sum(tally.calls.values()) > MIN_CALLS:
                    break
            reported = (await http.get(address.removesuffix("/mcp") + "/health")).json()
        after = await _settled(process.pid, before)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0

    print(f"{sum(tally.calls.values())} calls: {dict(tally.calls)}; before {before}, after {after}")  # noqa: T201
    print(f"RSS {[round(each.rss) for each in warm]}, {_slope(warm):+.1f} MB a minute when warm")  # noqa: T201
    assert not tally.errors
    assert sum(tally.calls.values()) > MIN_CALLS
    assert after.rss < MAX_GROWTH * warm[0].rss
    assert _slope(warm) < MAX_SLOPE
    assert after.files <= before.files + 5
    assert reported["running_calls"] == 0
    assert reported["sessions"] == 1
    assert "Traceback" not in (tmp_path / "stderr.txt").read_text()


async def _load(pid: int, address: str, tally: Tally) -> list[Size]:
    """Run the clients for a while; return the sizes of the server once they are in full swing."""
    sizes: list[Size] = []
    until = anyio.current_time() + SECONDS
    async with anyio.create_task_group() as watch:
        watch.start_soon(_watch, pid, sizes)
        async with anyio.create_task_group() as tasks:
            for n in range(CLIENTS):
                tasks.start_soon(_use, address, LEGACY if n % 2 else MODERN, tally, random.Random(n), until)
        watch.cancel_scope.cancel()
    return [each for each in sizes if each.at > until - SECONDS * (1 - WARM_SHARE)]


async def _warm_up(http: httpx.AsyncClient, address: str) -> None:
    """Fill what is only filled once: above all the journal's page cache, which takes 16 MB."""

    async def call() -> None:
        client = RawClient(http, address, MODERN, Tally())
        for _ in range(70):
            await client.call("mcp__up__lines", {"count": 800})  # nearly all that is shown of one result

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(call)


async def _settled(pid: int, before: Size) -> Size:
    """The server's size once it has closed what its clients have left."""
    with anyio.move_on_after(10):
        while Size.of(pid).files > before.files:  # noqa: ASYNC110 - the kernel has no notification
            await anyio.sleep(0.1)
    return Size.of(pid)
