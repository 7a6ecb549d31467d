"""A tool's own key-value store: what may be kept, under which name, how much and how long. No I/O."""

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from os import PathLike
from typing import Any, Protocol, cast

from spindle.capabilities.declare import CallScope, StorageScope
from spindle.errors import CapabilityError, StorageError, StorageQuotaError, UsageError

MAX_DEPTH = 200
MAX_PARTS = 1_000_000


def encode_json(value: Any) -> bytes:
    """Write a JSON value as bytes; a tuple becomes a list.

    Raises:
        StorageError: It holds something else, holds itself, or is nested beyond 200.
    """
    problem = _problem(value)
    if problem is None:
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=dict)
            return text.encode("utf-8", "surrogatepass")
        except ValueError as error:  # an integer of more digits than Python writes
            problem = str(error)
    raise StorageError(
        f"storage keeps JSON values, and this is none: {problem}; give None, bool, int, float, str, list or dict",
        field="value",
    )


def decode_json(data: bytes) -> Any:
    """Read what `encode_json` wrote; every time a new value."""
    return json.loads(data.decode("utf-8", "surrogatepass"))


def _problem(value: Any) -> str | None:
    """Walk level by level, so that depth is no danger; a value that holds itself is found by its depth."""
    level: list[Any] = [value]
    parts = 0
    for _ in range(MAX_DEPTH + 1):
        problem = next((said for one in level if (said := _wrong(one))), None)
        if problem is not None or not level:
            return problem
        parts += len(level)
        level = list(islice((child for one in level for child in _children(one)), MAX_PARTS))
        if parts + len(level) > MAX_PARTS:  # the same list many times over, perhaps
            return f"it has more than {MAX_PARTS} parts"
    return f"it is nested beyond {MAX_DEPTH}, or holds itself"


def _wrong(value: object) -> str | None:
    if value is None or isinstance(value, (bool, int, str, list, tuple)):
        return None
    if isinstance(value, float):
        return None if isfinite(value) else f"{value!r} is no JSON number"
    if isinstance(value, Mapping):
        keys = cast("Mapping[object, object]", value)
        return next((f"a key is {type(key).__name__}" for key in keys if not isinstance(key, str)), None)
    return f"it holds {type(value).__name__}"


def _children(value: object) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from cast("Mapping[str, Any]", value).values()
    elif isinstance(value, (list, tuple)):
        yield from cast("list[Any]", value)


MAX_TTL_SECONDS = 100 * 365 * 86_400.0
TTL_SECONDS: Mapping[StorageScope, float | None] = {"tool": None, "session": None, "turn": 86_400.0}
"""How long values are kept at most, unless the backend is told otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageQuota:
    """How much one tool may keep in one namespace; a byte is one of UTF-8, of keys and of values as JSON."""

    max_keys: int = 1_000
    max_key_bytes: int = 1_024
    max_value_bytes: int = 256 << 10
    max_total_bytes: int = 8 << 20

    def __post_init__(self) -> None:
        """Refuse a quota that is no count.

        Raises:
            UsageError: One is not a whole number of at least 1.
        """
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(f"{name}: expected a whole number of at least 1, got {value!r}", field=name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Write:
    """A value on its way into a store."""

    key: bytes
    value: bytes
    expires_at: float | None
    now: float


class Store(Protocol):
    """Where entries are kept; an entry is there as long as it does not expire or `expires_at > now`."""

    async def get(self, namespace: str, key: bytes, now: float) -> bytes | None:
        """Give the value, or `None` when there is none."""
        ...

    async def set(self, namespace: str, write: Write, quota: StorageQuota) -> None:
        """Keep the value if `admit` lets it in, in one step that no other write comes between."""
        ...

    async def delete(self, namespace: str, key: bytes, now: float) -> bool:
        """Remove the entry; says whether it was there."""
        ...

    async def keys(self, namespace: str, prefix: bytes, now: float) -> list[bytes]:
        """Give the keys that begin with `prefix`, in any order."""
        ...


def admit(quota: StorageQuota, write: Write, *, other_keys: int, other_bytes: int) -> None:
    """Pass a write that fits beside the other entries of its namespace.

    Raises:
        StorageQuotaError: It does not.
    """
    _within("max_keys", quota.max_keys, other_keys + 1, "delete some keys first")
    total = other_bytes + len(write.key) + len(write.value)
    _within("max_total_bytes", quota.max_total_bytes, total, "delete some keys, or keep smaller values")


def _within(name: str, limit: int, asked: int, remedy: str) -> None:
    if asked > limit:
        raise StorageQuotaError(
            f"storage is limited to {name}={limit}, and this would make {asked}: {remedy}",
            quota=name,
            limit=limit,
            asked=asked,
        )


class StorageBackend:
    """Serves every tool a namespace of its own in one store.

    `ttl_seconds` says for each scope how long a value is kept at most, and so if its tool says nothing. `clock` gives
    the seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        *,
        quota: StorageQuota | None = None,
        ttl_seconds: Mapping[StorageScope, float | None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._quota = StorageQuota() if quota is None else quota
        self._ttl_seconds = {**TTL_SECONDS, **(ttl_seconds or {})}
        self._clock = clock

    @classmethod
    def memory(cls, **settings: Any) -> "StorageBackend":
        """Keep everything in this process, as long as it lives."""
        from spindle.capabilities.storage.backend_local import MemoryStore  # noqa: PLC0415 - a factory names its backend

        return cls(MemoryStore(), **settings)

    @classmethod
    def sqlite(cls, path: str | PathLike[str], **settings: Any) -> "StorageBackend":
        """Keep everything in a SQLite file, which several processes of one machine may share."""
        from spindle.capabilities.storage.backend_local import SqliteStore  # noqa: PLC0415 - a factory names its backend

        return cls(SqliteStore(path), **settings)

    @classmethod
    def redis(cls, url: str, *, prefix: str = "spindle", **settings: Any) -> "StorageBackend":
        """Keep everything in a Redis server, which several machines may share.

        Raises:
            MissingExtraError: The extra `redis` is not installed.
        """
        from spindle.capabilities.storage.backend_redis import RedisStore  # noqa: PLC0415 - a factory names its backend

        return cls(RedisStore.from_url(url, prefix=prefix), **settings)

    def open(self, need: StorageScope, scope: CallScope) -> "Storage":
        """Give the handle of one call.

        Raises:
            CapabilityError: The tool wants storage for a turn, and the call is in none.
        """
        return Storage(
            self._store,
            namespace_of(need, scope),
            quota=self._quota,
            max_ttl_seconds=self._ttl_seconds.get(need),
            clock=self._clock,
            tool=scope.tool,
        )


def namespace_of(need: StorageScope, scope: CallScope) -> str:
    """Name the one place of a tool in its scope, shared with the tools of its toolset; no two places have one name.

    Raises:
        CapabilityError: There is no such place.
    """
    owner = [scope.tool] if scope.toolset is None else ["toolset", scope.toolset]
    if need == "tool":
        parts: list[str] = [need, *owner]
    elif need == "session":
        parts = [need, *owner, scope.session_id]
    elif need == "turn" and scope.turn_id is not None:
        parts = [need, *owner, scope.session_id, scope.turn_id]
    else:
        raise CapabilityError(
            f"storage of the scope {need!r} needs a turn, and this call has no turn id: run it in a turn, or give "
            "ToolContext(turn_id=…)",
            tool=scope.tool,
            field="storage",
        )
    return encode_json(parts).decode("utf-8", "surrogatepass")


class Storage:
    """One call's key-value store: text keys, JSON values. What goes in and comes out is copied."""

    __slots__ = ("_clock", "_max_ttl_seconds", "_namespace", "_quota", "_store", "_tool")

    def __init__(
        self,
        store: Store,
        namespace: str,
        *,
        quota: StorageQuota,
        max_ttl_seconds: float | None,
        clock: Callable[[], float],
        tool: str,
    ) -> None:
        self._store, self._namespace, self._quota = store, namespace, quota
        self._max_ttl_seconds, self._clock, self._tool = max_ttl_seconds, clock, tool

    async def get(self, key: str, default: Any = None) -> Any:
        """Give the value at `key`, or `default` when there is none."""
        with self._named():
            data = await self._store.get(self._namespace, self._key(key), self._clock())
        return default if data is None else decode_json(data)

    async def set(self, key: str, value: Any, *, ttl_seconds: float | None = None) -> None:
        """Keep `value` at `key`, in the place of what was there; after `ttl_seconds` it is gone.

        Raises:
            StorageError: The key, the value or the time to live is unfit, or the place failed; nothing was changed.
            StorageQuotaError: It is more than this tool may keep; nothing was changed.
        """
        now = self._clock()
        with self._named():
            ttl = self._ttl(ttl_seconds)
            expires_at = None if ttl is None else now + ttl
            write = Write(key=self._key(key), value=encode_json(value), expires_at=expires_at, now=now)
            _within("max_value_bytes", self._quota.max_value_bytes, len(write.value), "keep less under one key")
            await self._store.set(self._namespace, write, self._quota)

    async def delete(self, key: str) -> bool:
        """Remove what is at `key`; says whether anything was there."""
        with self._named():
            return await self._store.delete(self._namespace, self._key(key), self._clock())

    async def keys(self, prefix: str = "") -> list[str]:
        """Give the keys that begin with `prefix`, sorted."""
        with self._named():
            found = await self._store.keys(self._namespace, _encoded(prefix), self._clock())
        return sorted(key.decode("utf-8", "surrogatepass") for key in found)

    @contextmanager
    def _named(self) -> Generator[None]:
        """Have every error say whose call it was."""
        try:
            yield
        except StorageError as error:
            error.tool = self._tool
            raise

    def _key(self, key: str) -> bytes:
        if not isinstance(key, str) or not key:  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
            raise StorageError(f"expected a key that is text and not empty, got {key!r}", field="key")
        data = _encoded(key)
        _within("max_key_bytes", self._quota.max_key_bytes, len(data), "take a shorter key")
        return data

    def _ttl(self, asked: float | None) -> float | None:
        if asked is None:
            return self._max_ttl_seconds
        is_number = isinstance(asked, (int, float)) and not isinstance(asked, bool)  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
        if not is_number or not isfinite(asked) or not 0 < asked <= MAX_TTL_SECONDS:
            raise StorageError(
                f"ttl_seconds: expected more than 0 and at most {MAX_TTL_SECONDS:.0f} seconds, got {asked!r}; "
                "leave it out to keep the value",
                field="ttl_seconds",
            )
        return asked if self._max_ttl_seconds is None else min(asked, self._max_ttl_seconds)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
