"""Starts the gateways and the servers behind them, each as a process of its own on loopback."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2

from benchmarks.gateway_peers.suites import Target

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 90.0


class NotStarted(Exception):  # noqa: N818 - not an error of ours, but an answer
    """A gateway could not be started; its text says why."""


@dataclass
class Program:
    """A running program, ended with everything that it started."""

    command: list[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    folder: Path = ROOT
    _process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Start it; its output is appended to the log."""
        settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env=settings | dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(self) -> None:
        """End it at once."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    @property
    def has_ended(self) -> bool:
        """Whether it ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def describe_failure(self) -> str:
        """Return the last line of its output."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1].strip()[:200] if lines else "it said nothing"


def find_port() -> int:
    """Return a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


async def wait_for(url: str, program: Program) -> None:
    """Wait until something answers at an address.

    Raises:
        NotStarted: The program ended, or nothing answers in time.
    """
    with anyio.move_on_after(START_SECONDS):
        async with httpx2.AsyncClient(timeout=5) as http:
            while not program.has_ended:
                with suppress(httpx2.HTTPError):
                    await http.get(url)
                    return
                await anyio.sleep(0.2)
    raise NotStarted(f"did not start: {program.describe_failure()}")


@dataclass
class Upstreams:
    """The servers behind a gateway."""

    addresses: dict[str, str]
    programs: dict[str, Program]
    folder: Path

    async def restart(self) -> None:
        """End the first server, if it still runs, and start it again."""
        name = next(iter(self.programs))
        program = self.programs[name]
        program.end()
        program.start()
        await wait_for(self.addresses[name], program)


@asynccontextmanager
async def start_upstreams(kinds: Mapping[str, str], folder: Path) -> AsyncGenerator[Upstreams]:
    """Start the servers: name → kind."""
    found = Upstreams({}, {}, folder)
    try:
        for name, kind in kinds.items():
            port = find_port()
            own = folder / name
            own.mkdir()
            command = [sys.executable, "-m", "benchmarks.gateway_peers.upstream", kind, str(port), str(folder)]
            program = Program(command, own / "log")
            program.start()
            found.programs[name], found.addresses[name] = program, f"http://127.0.0.1:{port}/mcp"
            await wait_for(found.addresses[name], program)
        yield found
    finally:
        for program in found.programs.values():
            program.end()


@asynccontextmanager
async def start_gateway(name: str, python: Path, upstreams: Upstreams) -> AsyncGenerator[Target]:
    """Start a gateway in front of the servers.

    Raises:
        NotStarted: It did not start.
    """
    async with AsyncExitStack() as stack:
        folder = upstreams.folder / f"gateway-{name}"
        folder.mkdir()
        gateway = Gateway(python=python, folder=folder, upstreams=upstreams, port=find_port(), stack=stack)
        yield await STARTERS[name](gateway)


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """What a gateway is started with."""

    python: Path
    folder: Path
    upstreams: Upstreams
    port: int
    stack: AsyncExitStack
    secret: str = field(default_factory=lambda: f"sk-{secrets.token_urlsafe(24)}")

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def run(self, command: list[str], *, ready: str, environment: Mapping[str, str] | None = None) -> Program:
        """Start a program that is ended with the gateway, and wait until it answers."""
        program = Program(command, self.folder / "log", environment or {}, self.folder)
        self.stack.callback(program.end)
        program.start()
        await wait_for(ready, program)
        return program

    def build_target(self, url: str, headers: Mapping[str, str]) -> Target:
        return Target(
            url=url,
            headers=dict(headers),
            folder=self.upstreams.folder,
            secret=self.secret,
            restart_server=self.upstreams.restart,
        )


async def _start_spindle(gateway: Gateway) -> Target:
    lines = ["[profiles.client]", 'token_env = "CLIENT_TOKEN"', f"[server]\nport = {gateway.port}"]
    for name, url in gateway.upstreams.addresses.items():
        lines += [f"[mcp.servers.{name}]", f'url = "{url}"', "timeout_seconds = 10"]
    config = gateway.folder / "spindle.toml"
    config.write_text("\n".join(lines), encoding="utf-8")
    spindle = str(gateway.python.with_name("spindle"))
    settings = {"CLIENT_TOKEN": gateway.secret, "SPINDLE_STATE": str(gateway.folder / "state")}
    lock = Program(
        [spindle, "lock", "--config", str(config), "--yes"], gateway.folder / "lock.log", settings, gateway.folder
    )
    await anyio.to_thread.run_sync(_run_to_end, lock)
    await gateway.run(
        [spindle, "serve", "--config", str(config)], ready=f"{gateway.origin}/health", environment=settings
    )
    return gateway.build_target(f"{gateway.origin}/mcp", {"Authorization": f"Bearer {gateway.secret}"})


def _run_to_end(program: Program) -> None:
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        program.command, env=settings | dict(program.environment), cwd=program.folder, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    program.log.write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode != 0:
        raise NotStarted(f"spindle lock failed: {program.describe_failure()}")


async def _start_fastmcp(gateway: Gateway) -> Target:
    script = str(ROOT / "benchmarks" / "gateway_peers" / "fastmcp_gateway.py")
    command = [str(gateway.python), script, str(gateway.port), json.dumps(gateway.upstreams.addresses)]
    await gateway.run(command, ready=f"{gateway.origin}/mcp")
    return gateway.build_target(f"{gateway.origin}/mcp", {"Authorization": f"Bearer {gateway.secret}"})


async def _start_litellm(gateway: Gateway) -> Target:
    servers = {
        name: {"url": url, "transport": "http", "allow_all_keys": True}
        for name, url in gateway.upstreams.addresses.items()
    }
    settings: dict[str, Any] = {
        "model_list": [],
        "general_settings": {"master_key": gateway.secret},
        "mcp_servers": servers,
    }
    config = gateway.folder / "config.yaml"
    config.write_text(json.dumps(settings), encoding="utf-8")
    command = [str(gateway.python.with_name("litellm")), "--config", str(config), "--port", str(gateway.port)]
    await gateway.run(
        [*command, "--host", "127.0.0.1", "--telemetry", "False"],
        ready=f"{gateway.origin}/health/liveliness",
        environment={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )
    return gateway.build_target(f"{gateway.origin}/mcp/", {"x-litellm-api-key": f"Bearer {gateway.secret}"})


async def _start_contextforge(gateway: Gateway) -> Target:
    key = secrets.token_urlsafe(40)
    admin = "admin@example.com"
    settings = {
        "DATABASE_URL": f"sqlite:///{gateway.folder}/mcp.db",
        "JWT_SECRET_KEY": key,
        "AUTH_ENCRYPTION_SECRET": secrets.token_urlsafe(40),
        "PLATFORM_ADMIN_EMAIL": admin,
        "PLATFORM_ADMIN_PASSWORD": secrets.token_urlsafe(20) + "aA1!",
        "BASIC_AUTH_PASSWORD": secrets.token_urlsafe(20),
        "MCPGATEWAY_UI_ENABLED": "false",
        "MCPGATEWAY_ADMIN_API_ENABLED": "true",
        "SSRF_ALLOW_LOCALHOST": "true",
        "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
        "CACHE_TYPE": "memory",
        "TOOL_TIMEOUT": "10",
        "HOST": "127.0.0.1",
    }
    program = await gateway.run(
        [str(gateway.python.with_name("mcpgateway")), "--host", "127.0.0.1", "--port", str(gateway.port)],
        ready=f"{gateway.origin}/health",
        environment=settings,
    )
    made = await anyio.to_thread.run_sync(_create_token, gateway, admin, key, settings)
    headers = {"Authorization": f"Bearer {made}"}
    async with httpx2.AsyncClient(base_url=gateway.origin, headers=headers, timeout=60) as http:
        for name, url in gateway.upstreams.addresses.items():
            answer = await http.post(
                "/gateways", json={"name": name, "url": url, "transport": "STREAMABLEHTTP", "visibility": "public"}
            )
            if answer.status_code >= 300:
                raise NotStarted(f"a server was not registered: {answer.text[:150]}; {program.describe_failure()}")
    return replace(gateway.build_target(f"{gateway.origin}/mcp/", headers), secret=made)


def _create_token(gateway: Gateway, admin: str, key: str, settings: Mapping[str, str]) -> str:
    command = [
        *(str(gateway.python), "-m", "mcpgateway.utils.create_jwt_token"),
        *("--username", admin, "--exp", "60", "--secret", key, "--admin"),
    ]
    done = subprocess.run(
        command, env={**os.environ, **settings}, cwd=gateway.folder, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise NotStarted(f"no token was made: {done.stderr.strip()[-150:]}")
    return done.stdout.strip().splitlines()[-1]


STARTERS = {
    "spindle": _start_spindle,
    "fastmcp": _start_fastmcp,
    "litellm": _start_litellm,
    "contextforge": _start_contextforge,
}
