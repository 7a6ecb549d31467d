"""A real server for the tests of storage, started when one asks for it."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis server of our own, on a free port of the loopback."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("Redis is not tested: there is no redis-server here; install the Debian package redis-server")
    folder = tmp_path_factory.mktemp("redis")
    server, port = start_somewhere(program, folder)
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.kill()
        server.wait()


def start_somewhere(program: str, folder: Path) -> "tuple[subprocess.Popen[bytes], int]":
    """Start a server on a free port, or on another one if it is taken first."""
    for _ in range(4):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", "", "--daemonize", "no"]
        server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if answers(port, server):
            return server, port
        server.kill()
        server.wait()
    raise RuntimeError("the Redis server did not start")


def answers(port: int, server: "subprocess.Popen[bytes]") -> bool:
    """Wait for a server; return whether it answers."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
                line.sendall(b"PING\r\n")
                if line.recv(16).startswith(b"+PONG") and server.poll() is None:
                    return True
        except OSError:
            time.sleep(0.02)  # a starting process does not announce when it is ready
    return False
