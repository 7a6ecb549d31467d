"""Logins at rest: one file for each user and server, sealed with the state key, readable by its owner only."""

import base64
import hashlib
import json
import os
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from spindle.errors import OAuthError, SecretError
from spindle.execution.state_key import StateKey
from spindle.json_types import JsonObject, is_object

LOCK_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.02
_MAX_FILE_BYTES: Final = 1 << 20
_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginPlace:
    """Whose login it is, and where: tokens for one URL are never sent to another."""

    server: str
    url: str
    user: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredLogin:
    """A login: the client, its tokens, and the addresses needed to refresh them."""

    issuer: str
    token_endpoint: str
    resource: str
    redirect_uri: str
    client_id: str
    auth_method: str
    client_secret: str | None = field(default=None, repr=False)
    """Of a client that was registered for this login; that of a configured client stays a named secret."""
    access_token: str = field(default="", repr=False)
    """Empty when the user must log in again."""
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    """In seconds since 1970; `None` if the issuer did not say."""
    refresh_at: float | None = None
    scope: str | None = None
    revocation_endpoint: str | None = None


class TokenStore:
    """The logins in a folder; every file is sealed for its own server, URL and user."""

    def __init__(self, folder: Path, key: StateKey) -> None:
        self._folder, self._key = folder, key
        self._read: dict[LoginPlace, tuple[tuple[int, int, int], StoredLogin]] = {}

    def read(self, place: LoginPlace) -> StoredLogin | None:
        """Return a login, or `None`; a file that was read before is read again only if it has changed.

        Raises:
            SecretError: The file was changed, or sealed with another state key.
        """
        path = self._find_path(place)
        try:
            facts = path.stat()
        except FileNotFoundError:
            self._read.pop(place, None)
            return None
        version = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
        known = self._read.get(place)
        if known is None or known[0] != version:
            known = version, self._unseal(path, place)
            self._read[place] = known
        return known[1]

    def write(self, place: LoginPlace, login: StoredLogin) -> None:
        """Write a login, complete or not at all."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._find_path(place)
        sealed = self._key.seal(json.dumps(asdict(login)).encode(), bound=_bind(place))
        content = {"version": _VERSION, **asdict(place), "sealed": base64.b64encode(sealed).decode()}
        draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        self._read.pop(place, None)

    def remove(self, place: LoginPlace) -> bool:
        """Remove a login; return whether there was one."""
        self._read.pop(place, None)
        try:
            self._find_path(place).unlink()
        except FileNotFoundError:
            return False
        return True

    def list(self) -> "list[LoginPlace]":
        """Return the places of all logins, sorted by server and user."""
        found: list[LoginPlace] = []
        for path in self._folder.glob("*.login"):
            content = _load(path)
            facts = [None if content is None else content.get(name) for name in ("server", "url", "user")]
            if all(isinstance(each, str) for each in facts):
                found.append(LoginPlace(server=str(facts[0]), url=str(facts[1]), user=str(facts[2])))
        return sorted(found, key=lambda place: (place.server, place.user, place.url))

    @asynccontextmanager
    async def lock(self, place: LoginPlace) -> AsyncGenerator[None]:
        """Hold a login against other processes, so that only one of them refreshes it.

        Raises:
            OAuthError: Another process has held it for too long.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._find_path(place).with_suffix(".lock")
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            with anyio.move_on_after(LOCK_SECONDS) as waiting:
                # Not a lock that blocks: its thread could not be cancelled.
                while not await to_thread.run_sync(_try_lock, handle):  # noqa: ASYNC110  other processes set no event
                    await anyio.sleep(_POLL_SECONDS)
            if waiting.cancelled_caught:
                raise OAuthError(f"another process has been refreshing the login at {place.server!r} for too long")
            yield
        finally:
            os.close(handle)  # this releases the lock

    def _unseal(self, path: Path, place: LoginPlace) -> StoredLogin:
        content = _load(path)
        try:
            sealed = base64.b64decode(str(content["sealed"]), validate=True) if content is not None else b""
            return StoredLogin(**json.loads(self._key.unseal(sealed, bound=_bind(place))))
        except (SecretError, ValueError, KeyError, TypeError) as error:
            raise SecretError(f"the login at {place.server!r} cannot be read with this state key") from error

    def _find_path(self, place: LoginPlace) -> Path:
        return self._folder / f"{hashlib.sha256(_bind(place).encode()).hexdigest()[:32]}.login"


def _bind(place: LoginPlace) -> str:
    return json.dumps(["spindle login", place.server, place.url, place.user])


def _load(path: Path) -> JsonObject | None:
    with suppress(OSError, ValueError, RecursionError):
        with path.open("rb") as file:
            found: object = json.loads(file.read(_MAX_FILE_BYTES))
        return found if is_object(found) else None
    return None


def _try_lock(handle: int) -> bool:
    try:
        import fcntl  # noqa: PLC0415 - Windows lacks it
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
