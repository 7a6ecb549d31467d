"""A PostgreSQL server of our own, with a cluster made for the occasion."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pytest

USER = "spindle"
PASSWORD = "p@ss/word?:#"  # every one of these must be written by its number in a dsn


class Server:
    """Runs on a free port of the loopback; can be stopped and started."""

    def __init__(self, programs: Path, folder: Path, account: str | None, *, fsync: bool = False) -> None:
        self._programs = programs
        self._fsync = fsync
        self._folder = folder
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()

    def dsn(self, *, schema: str = "public", password: str = PASSWORD, database: str = "postgres") -> str:
        """How to reach one of its databases."""
        login = f"{USER}:{quote(password, safe='')}"
        return f"postgresql://{login}@127.0.0.1:{self.port}/{database}?search_path={schema}"

    def make_cluster(self) -> None:
        password = self._folder / "password"
        password.write_text(PASSWORD)
        if self._account is not None:
            shutil.chown(self._folder, self._account)
            shutil.chown(password, self._account)
        options = ["--username", USER, "--pwfile", str(password), "--auth", "scram-sha-256", "--no-sync"]
        self._run("initdb", "--pgdata", str(self._folder / "data"), "--encoding", "UTF8", "--locale", "C", *options)

    def start_somewhere(self) -> None:
        """Start on a free port, or on another one if it is taken first."""
        for _ in range(4):
            try:
                return self.start()
            except RuntimeError:
                self.stop(signal.SIGQUIT)
                self.port = _free_port()
        return self.start()

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
            "fsync": "on" if self._fsync else "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [str(self._programs / "postgres"), "-D", str(self._folder / "data"), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            user=self._account,
        )
        self._await_start(self._process)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT in good order, SIGQUIT as if the machine had lost its power."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def kill(self) -> None:
        """Send SIGKILL to all of its processes, and wait until they are gone; they have no time to write anything."""
        if self._process is None:
            return
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self._process.kill()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self._process.wait(30)
        self._process = None

    def restart(self) -> None:
        """Start again after `kill`, on the same port, once the last of the killed processes is gone."""
        for _ in range(20):
            try:
                return self.start()
            except RuntimeError:
                time.sleep(0.2)  # the shared memory of a killed process is in use until the system has removed it
        return self.start()

    def _await_start(self, process: "subprocess.Popen[bytes]") -> None:
        ready = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-t", "5"]
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            if subprocess.run(ready, check=False, timeout=30).returncode == 0:
                return
            time.sleep(0.02)  # a starting process does not announce when it is ready
        raise RuntimeError("the PostgreSQL server did not start")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            cwd=self._folder,
            user=self._account,
        )
        assert done.returncode == 0, done.stderr


@contextmanager
def running_server(*, fsync: bool = False) -> Generator[Server]:
    """Make a cluster, start a server on it, and leave nothing behind; without `fsync` a power failure may damage it."""
    programs = _programs()
    account = _account()
    folder = Path(tempfile.mkdtemp(prefix="spindle-postgres-"))
    server = Server(programs, folder, account, fsync=fsync)
    try:
        server.make_cluster()
        server.start_somewhere()
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _programs() -> Path:
    """The folder with initdb and postgres; Debian keeps them off the path."""
    found = [Path(place).resolve().parent for place in [shutil.which("initdb")] if place]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in found:
        if all((folder / name).exists() for name in ("initdb", "postgres", "pg_isready")):
            return folder
    pytest.skip("PostgreSQL is not tested: there is no server here; install the Debian package postgresql")


def _account() -> str | None:
    """Whose the server's process is: its programs refuse to run as root."""
    if os.geteuid():
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        pytest.skip("PostgreSQL is not tested: root cannot run it, and there is no user postgres")
