"""The lock of a configuration: where it is found, when it must exist, and that a running gateway follows it."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle.cli import load_config, runtime_lock
from spindle.cli.runtime_lock import read_lock_policy, watch_lock
from spindle.errors import InvalidConfigError, InvalidLockError
from spindle.mcp.lock import LockedServer, LockFile, LockPolicy
from tests.cli.conftest import Command, Place


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_lock, "WATCH_SECONDS", 0.001)


def write_lock(path: Path, *servers: str) -> LockFile:
    lock = LockFile(servers={name: LockedServer() for name in servers})
    lock.write(path)
    return lock


def load(place: Place, text: str = "") -> Any:
    return load_config(place.configure(text), state=place.state)


def test_the_file_beside_the_configuration_is_used_if_it_exists(place: Place) -> None:
    assert read_lock_policy(load(place)) == LockPolicy()

    lock = write_lock(place.work / "spindle.lock", "a")

    assert read_lock_policy(load(place)) == LockPolicy(file=lock)


def test_a_named_file_must_exist(place: Place) -> None:
    text = '[mcp]\nlock = "locks/mine.lock"\nunlocked_servers = "quarantine"\n'

    with pytest.raises(InvalidConfigError) as caught:
        read_lock_policy(load(place, text))
    assert caught.value.field == "mcp.lock"

    (place.work / "locks").mkdir()
    lock = write_lock(place.work / "locks" / "mine.lock")
    assert read_lock_policy(load(place, text)) == LockPolicy(file=lock, unlocked="quarantine")


def test_a_damaged_file_is_an_error_and_not_ignored(place: Place) -> None:
    (place.work / "spindle.lock").write_text("{}", encoding="utf-8")

    with pytest.raises(InvalidLockError):
        read_lock_policy(load(place))


def test_the_value_for_unlocked_servers_is_checked(place: Place) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        load(place, '[mcp]\nunlocked_servers = "ignore"\n')

    assert caught.value.field == "mcp.unlocked_servers"


def test_a_lock_in_a_cloned_folder_starts_nothing(place: Place, spindle: Command) -> None:
    log = place.work / "started"
    text = f'[mcp.servers.a]\ncommand = "touch"\nargs = ["{log}"]\n'
    (place.work / "spindle.toml").write_text(text, encoding="utf-8")
    write_lock(place.work / "spindle.lock", "a")

    codes = [spindle(command).code for command in ("lock", "diff", "verify", "list")]

    assert codes == [6, 6, 6, 6]
    assert not log.exists()


@pytest.mark.slow
def test_trust_shows_where_the_lock_is(place: Place, spindle: Command) -> None:
    place.configure('[mcp]\nlock = "other.lock"\n')

    ran = spindle("trust", "--yes")

    assert "mcp.lock" in ran.out
    assert "other.lock" in ran.out


@pytest.mark.slow
def test_file_tools_cannot_change_the_lock(place: Place, spindle: Command) -> None:
    place.configure('[tools]\nkit = true\n[reach]\nroot = "."\nwrite = ["."]\n')
    write_lock(place.work / "spindle.lock")
    before = (place.work / "spindle.lock").read_bytes()

    ran = spindle("call", "write_file", "path=spindle.lock", "content={}", "--yes")

    assert ran.code != 0
    assert (place.work / "spindle.lock").read_bytes() == before


class Applied:
    """Servers that note which lock is in force."""

    def __init__(self) -> None:
        self.locks: list[LockFile | None] = []
        self.lock = LockPolicy()

    async def apply_lock(self, policy: LockPolicy) -> None:
        self.locks.append(policy.file)
        self.lock = policy


@pytest.mark.anyio
async def test_a_running_gateway_follows_the_file_and_keeps_the_last_valid_lock(place: Place, quick: None) -> None:
    path, config = place.work / "spindle.lock", load(place)
    servers, said, written = Applied(), list[str](), list[LockFile]()
    heard: list[anyio.Event] = [anyio.Event()]

    def report(text: str) -> None:
        said.append(text)
        heard[0].set()

    async def wait_for_report() -> None:
        await heard[0].wait()
        heard[0] = anyio.Event()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(watch_lock, config, servers, report)  # pyright: ignore[reportArgumentType] - a double
            written.append(write_lock(path, "a"))
            await wait_for_report()
            path.write_text("{}", encoding="utf-8")
            await wait_for_report()
            path.unlink()
            await wait_for_report()
            written.append(write_lock(path, "a", "b"))
            await wait_for_report()
            group.cancel_scope.cancel()

    assert servers.locks == written
    assert len(said) == 4


@pytest.mark.anyio
async def test_a_lock_that_vanishes_while_it_is_read_does_not_end_the_gateway(
    place: Place, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load(place, '[mcp]\nlock = "mine.lock"\n')
    first = write_lock(place.work / "mine.lock", "a")
    servers, said, read = Applied(), list[str](), list[Path]()
    servers.lock = LockPolicy(file=first)

    def vanish(path: Path) -> None:
        read.append(path)

    monkeypatch.setattr(LockFile, "read", vanish)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:

            def report(text: str) -> None:
                said.append(text)
                group.cancel_scope.cancel()

            group.start_soon(watch_lock, config, servers, report)  # pyright: ignore[reportArgumentType] - a double

    assert read
    assert "stays in force" in said[0]
    assert servers.lock.file is first
