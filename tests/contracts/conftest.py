"""Real servers for the port suites, started when a test asks for one."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

KEYS = {"access_key_id": "spindle", "secret_access_key": "spindle-secret", "region": "us-east-1"}


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    """A server that speaks S3, as a process of its own on a free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"AWS_ACCESS_KEY_ID": "spindle", "AWS_SECRET_ACCESS_KEY": "spindle-secret"},
    )
    try:
        _await_answer(port, server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(10)


def _await_answer(port: int, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)  # a process that is starting tells nobody when it is ready
        else:
            return
    raise RuntimeError(f"the S3 server did not answer on port {port}")


@pytest.fixture(scope="session")
def s3_bucket(moto_url: str) -> Callable[[], tuple[str, dict[str, Any]]]:
    """Make a fresh bucket; gives its url and the options to reach it."""
    numbers = count()

    def make() -> tuple[str, dict[str, Any]]:
        bucket = f"spool-{next(numbers)}"
        request = urllib.request.Request(f"{moto_url}/{bucket}", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
        return f"s3://{bucket}/some/prefix", {"endpoint": moto_url, "allow_http": True, **KEYS}

    return make
