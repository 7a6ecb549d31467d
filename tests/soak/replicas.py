"""Several `spindle serve` processes that share a journal and a state key; any may be killed and started again."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx

from tests.mcp.serving import COMMAND

STATE_KEY = "the state key of all replicas"
ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 90.0
MAX_STARTS = 40
REQUEST_SECONDS = 90.0
MODERN = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
}


class UnansweredError(Exception):
    """A replica did not answer a request: it was killed, or has refused it for now."""


class Replica:
    """One `spindle serve` process."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self._folder = folder
        self._environ = environ
        self._starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.address: str | None = None
        """`None` while it is not there."""

    @property
    def pid(self) -> int | None:
        """The id of its process."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start it and wait until it takes requests; again if the database was not there yet."""
        for _ in range(MAX_STARTS):
            with anyio.fail_after(START_SECONDS):
                if await self._try_start():
                    return
            await anyio.sleep(0.5)  # as a supervisor of processes does
        raise RuntimeError(f"a replica did not start; its logs are in {self._folder}")

    async def _try_start(self) -> bool:
        self._starts += 1
        log = self._folder / f"log{self._starts}.txt"
        command = [*COMMAND, "serve", "--port", "0", "--config", str(self._folder / "spindle.toml")]
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - starting one does not block for long
                [*command, "--state", str(self._folder / "state")],
                cwd=ROOT,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        while (found := re.search(r"(http://\S+/mcp)", log.read_text(errors="replace"))) is None:
            if self._process.poll() is not None:
                return False
            await anyio.sleep(0.05)  # a starting process does not report when it is ready
        self.address = found[1]
        return True

    async def kill(self) -> None:
        """Send SIGKILL."""
        self.address, process = None, self._process
        if process is not None:
            process.kill()
            await anyio.to_thread.run_sync(process.wait)


class Replicas:
    """All replicas of one gateway, and a client of them that chooses one for each request."""

    def __init__(self, folder: Path, journal: str, *, count: int) -> None:
        self.effects = folder / "effects"
        self.environ = {
            **os.environ,
            "SPINDLE_STATE_KEY": STATE_KEY,
            "SOAK_JOURNAL": journal,
            "SOAK_EFFECTS": str(self.effects),
        }
        self._client = httpx.AsyncClient(timeout=REQUEST_SECONDS, limits=httpx.Limits(max_keepalive_connections=0))
        self._all: list[Replica] = []
        for number in range(count):
            place = folder / f"replica{number}"
            place.mkdir()
            self.config = place / "spindle.toml"
            self.config.write_text(
                f'[tools]\nmodules = ["tests.soak.replica_tools:build_tools"]\n'
                f"python_path = [{json.dumps(str(ROOT))}]\n"
                f"[journal]\nurl = {json.dumps(journal)}\n[server]\nfence = false\nmax_requests_per_minute = 1000000\n"
            )
            self._all.append(Replica(place, self.environ))

    async def __aenter__(self) -> "Replicas":
        async with anyio.create_task_group() as tasks:
            for replica in self._all:
                tasks.start_soon(replica.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._client.aclose()
            for replica in self._all:
                await replica.kill()

    def find(self, pid: int) -> Replica | None:
        """Return the living replica with a process id."""
        return next((each for each in self._all if each.address is not None and each.pid == pid), None)

    def choose(self, chance: random.Random, *, other_than: Replica | None = None) -> Replica:
        """Choose a replica as a load balancer does: one that is not known to be gone."""
        living = [each for each in self._all if each.address is not None and each is not other_than]
        return chance.choice(living or self._all)

    async def call(self, replica: Replica, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool at a replica and return the text of its result.

        Raises:
            UnansweredError: The replica is gone, or was killed before it answered.
        """
        params = {"name": tool, "arguments": arguments, "_meta": _META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            "Accept": "application/json, text/event-stream",
            "Mcp-Protocol-Version": MODERN,
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        if replica.address is None:
            raise UnansweredError("the replica is gone")
        try:
            response = await self._client.post(replica.address, json=message, headers=headers)
        except httpx.HTTPError as error:
            raise UnansweredError(repr(error)) from error
        return _read_text(response)

    async def run_command(self, *words: str) -> dict[str, Any]:
        """Run `spindle approvals …` with the configuration of the replicas, and return the outcome that it prints."""
        command = [sys.executable, "-m", "spindle.cli.main", "approvals", *words, "--json"]
        options = ["--config", str(self.config), "--state", str(self.config.parent / "state")]
        done = await anyio.run_process([*command, *options], check=False, cwd=ROOT, env=self.environ)
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            raise UnansweredError(done.stderr.decode(errors="replace")[-300:]) from error


def _read_text(response: httpx.Response) -> str:
    """The text of the result in a response, which is JSON or a stream of events."""
    body = response.text
    for line in body.splitlines() if "event-stream" in response.headers.get("content-type", "") else [body]:
        _, _, data = ("", "", line) if line.startswith("{") else line.partition("data:")
        message: dict[str, Any] = json.loads(data) if data.strip() else {}
        if "result" in message:
            return "".join(part.get("text", "") for part in message["result"].get("content", ()))
    raise UnansweredError(f"{response.status_code} {body[:300]}")
