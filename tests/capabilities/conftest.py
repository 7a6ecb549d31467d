"""A real server for the tests of storage, started when one asks for it."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis server of our own, on a free port of the loopback."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("Redis is not tested: there is no redis-server here; install the Debian package redis-server")
    folder = tmp_path_factory.mktemp("redis")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        program,
        "--bind",
        "127.0.0.1",
        "--port",
        str(port),
        "--dir",
        str(folder),
        "--save",
        "",
        "--daemonize",
        "no",
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await_server(port, server)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.kill()
        server.wait()


def await_server(port: int, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as line:
                line.sendall(b"PING\r\n")
                if line.recv(16).startswith(b"+PONG"):
                    return
        except OSError:
            time.sleep(0.02)  # a starting process does not announce when it is ready
    raise RuntimeError("the Redis server did not start")
