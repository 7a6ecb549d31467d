"""Spool, journal and storage of a configuration, on this machine or by URL, and checks that they work."""

import os
import secrets
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import anyio

from spindle import capabilities
from spindle.addresses import add_password, get_scheme
from spindle.artifacts.spool import Spool, SpoolEntry
from spindle.capabilities.declare import CallScope
from spindle.cli.config.loader import Config
from spindle.cli.config.sources import RemoteStore
from spindle.cli.runtime_servers import build_secret_lookup
from spindle.errors import MissingExtraError, SecretError, SpindleError, UsageError
from spindle.journal.entries import FinishedCall, Intent
from spindle.journal.journal import Journal
from spindle.json_types import JsonObject

CHECK_SECONDS = 20.0
_CHECK_ID = "spindle doctor"


def build_spool(config: Config) -> Spool:
    """Build the spool of a configuration.

    Raises:
        InvalidConfigError: The URL or the options of the object store are invalid, or a secret is not set.
        MissingExtraError: An object store is configured and the extra `objects` is not installed.
    """
    place = config.spool
    if place is None:
        return Spool.memory()
    if isinstance(place, str) and get_scheme(place) is None:
        return Spool.files(place)
    if isinstance(place, str):
        with _explain_errors(config, ("spool", "path")):
            return Spool.objects(place)
    with _explain_errors(config, ("spool", "url")):
        options: JsonObject = {**place.options, **_resolve_secrets(config, place)}
        return Spool.objects(place.url, **options)


def build_journal(config: Config) -> Journal:
    """Build the journal of a configuration.

    Raises:
        InvalidConfigError: The URL of the database is invalid, or a secret is not set.
        MissingExtraError: A database is configured and the extra `postgres` is not installed.
    """
    place = config.journal
    if place is None:
        return Journal.memory()
    if isinstance(place, Path):
        return Journal.sqlite(place)
    with _explain_errors(config, ("journal", "url")):
        return Journal.postgres(_build_url(config, place))


def read_state_key(config: Config) -> list[str]:
    """Return the state keys, newest first: of `SPINDLE_STATE_KEY`, or of the state folder, where one is created.

    Raises:
        InvalidConfigError: The key cannot be read or created.
    """
    given = [key for key in os.environ.get("SPINDLE_STATE_KEY", "").split(",") if key]
    if given:
        return given
    path = config.state / "state.key"
    try:
        config.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            _create_key(path)
        keys = path.read_text("ascii").split()
    except (OSError, ValueError) as error:
        raise config.error(("spindle", "state"), f"the state key {path} cannot be read or created: {error}") from error
    if not keys:
        raise config.error(("spindle", "state"), f"the state key {path} is empty; delete it to create a new one")
    return keys


def _create_key(path: Path) -> None:
    """Create a file with a new key, complete or not at all, that only its owner may read."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)  # unlike a rename, it does not replace the key of a process that was faster
    finally:
        draft.unlink()


def build_storage(config: Config) -> "capabilities.StorageBackend":
    """Build the storage of a configuration.

    Raises:
        InvalidConfigError: The URL of the server is invalid, or a secret is not set.
        MissingExtraError: A Redis server is configured and the extra `redis` is not installed.
    """
    place = config.storage
    if place is None:
        return capabilities.StorageBackend.memory()
    if isinstance(place, Path):
        return capabilities.StorageBackend.sqlite(place)
    with _explain_errors(config, ("storage", "url")):
        return capabilities.StorageBackend.redis(_build_url(config, place))


def _build_url(config: Config, place: RemoteStore) -> str:
    password = _resolve_secrets(config, place).get("password")
    return place.url if password is None else add_password(place.url, password)


def _resolve_secrets(config: Config, place: RemoteStore) -> Mapping[str, str]:
    look_up = build_secret_lookup(config)
    found = {option: look_up(name) for option, name in place.secrets.items()}
    for option, value in found.items():
        if not value:
            name = place.secrets[option]
            raise SecretError(f"the secret {name!r} is not set: export {name}=…, or add it to reach.secrets_file")
    return {option: value for option, value in found.items() if value}


@contextmanager
def _explain_errors(config: Config, key: tuple[str, str]) -> Generator[None]:
    try:
        yield
    except MissingExtraError:
        raise
    except (UsageError, SecretError) as error:
        raise config.error(key, str(error)) from error


async def list_spool_entries(config: Config) -> list[SpoolEntry]:
    """Return the entries of the spool, newest first."""
    return sorted(await build_spool(config).entries(), key=lambda entry: entry.created_at, reverse=True)


async def check_spool(spool: Spool) -> str | None:
    """Write, read and delete an artifact; return the problem, or `None`."""

    async def probe() -> bool:
        artifact_id, content = f"{_CHECK_ID}/{secrets.token_hex(8)}", secrets.token_bytes(64)
        await spool.write(artifact_id, content)
        reader = await spool.read(artifact_id)
        is_same = reader is not None and await reader.read_all() == content
        await spool.delete(artifact_id)
        return is_same

    return await _find_problem(probe)


async def check_storage(storage: "capabilities.StorageBackend") -> str | None:
    """Write, read and delete a value; return the problem, or `None`."""

    async def probe() -> bool:
        handle = storage.open("tool", CallScope(tool=_CHECK_ID, session_id=_CHECK_ID))
        key, value = secrets.token_hex(8), secrets.token_hex(8)
        await handle.set(key, value, ttl_seconds=60)
        is_same = await handle.get(key) == value
        await handle.delete(key)
        return is_same

    return await _find_problem(probe)


async def check_journal(journal: Journal) -> str | None:
    """Write and read one entry, always the same one; return the problem, or `None`."""

    async def probe() -> bool:
        now = datetime.now(UTC)
        intent = Intent(
            tool_call_id=secrets.token_hex(8),
            tool=_CHECK_ID,
            checksum="",
            idempotency_key=_CHECK_ID,
            args={},
            started_at=now,
        )
        ended = FinishedCall(
            idempotency_key=_CHECK_ID,
            ended_at=now,
            code="cancelled",
            error="a check that the journal works",
            attempts=0,
        )
        async with journal:
            await journal.note([(intent, ended)])
            found = await journal.find(_CHECK_ID)
        return found is not None and found.tool_call_id == intent.tool_call_id

    return await _find_problem(probe)


async def _find_problem(probe: Callable[[], Awaitable[bool]]) -> str | None:
    try:
        with anyio.fail_after(CHECK_SECONDS):
            is_same = await probe()
    except TimeoutError:
        return f"it did not answer within {CHECK_SECONDS:g} s"
    except (SpindleError, OSError) as error:
        return str(error)
    return None if is_same else "what was written could not be read back"
