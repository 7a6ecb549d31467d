"""The storage handle and backend: JSON values, quotas, namespaces and expiry. No I/O."""

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from os import PathLike
from typing import Protocol, TypedDict

from typing_extensions import Unpack

from spindle.capabilities import storage
from spindle.capabilities.declare import CallScope, StorageScope
from spindle.errors import CapabilityError, StorageError, StorageQuotaError, UsageError
from spindle.json_types import JsonValue, is_list_or_tuple, is_mapping, untyped

MAX_DEPTH = 200
MAX_PARTS = 1_000_000


def encode_json(value: JsonValue) -> bytes:
    """Serialize a JSON value to bytes; a tuple becomes a list.

    Raises:
        StorageError: The value is not JSON, contains itself, or is nested beyond 200 levels.
    """
    problem = _find_problem(value)
    if problem is None:
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=dict)
            return text.encode("utf-8", "surrogatepass")
        except ValueError as error:  # an integer with more digits than Python converts
            problem = str(error)
    raise StorageError(
        f"expected a JSON value (None, bool, int, float, str, list or dict): {problem}",
        field="value",
    )


def decode_json(data: bytes) -> JsonValue:
    """Parse the output of `encode_json`; each call returns a new value."""
    return json.loads(data.decode("utf-8", "surrogatepass"))


def _find_problem(value: object) -> str | None:
    """Return why a value is not JSON, or None; the walk is level by level, so recursion ends at the depth limit."""
    level: list[object] = [value]
    parts = 0
    for _ in range(MAX_DEPTH + 1):
        problem = next((said for one in level if (said := _describe_invalid(one))), None)
        if problem is not None or not level:
            return problem
        parts += len(level)
        level = list(islice((child for one in level for child in _children(one)), MAX_PARTS))
        if parts + len(level) > MAX_PARTS:  # possibly one list that is contained many times
            return f"it has more than {MAX_PARTS} parts"
    return f"it is nested beyond {MAX_DEPTH} levels, or contains itself"


def _describe_invalid(value: object) -> str | None:
    if value is None or isinstance(value, (bool, int, str, list, tuple)):
        return None
    if isinstance(value, float):
        return None if isfinite(value) else f"{value!r} is not a JSON number"
    if is_mapping(value):
        return next((f"a key is {type(key).__name__}" for key in value if not isinstance(key, str)), None)
    return f"it contains a {type(value).__name__}"


def _children(value: object) -> Iterator[object]:
    if is_mapping(value):
        yield from value.values()
    elif is_list_or_tuple(value):
        yield from value


MAX_TTL_SECONDS = 100 * 365 * 86_400.0
TTL_SECONDS: Mapping[StorageScope, float | None] = {"tool": None, "session": None, "turn": 86_400.0}
"""Default for how long values of each scope are kept at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageQuota:
    """The limits of one namespace; bytes are those of UTF-8 keys and values serialized as JSON."""

    max_keys: int = 1_000
    max_key_bytes: int = 1_024
    max_value_bytes: int = 256 << 10
    max_total_bytes: int = 8 << 20

    def __post_init__(self) -> None:
        """Validate the limits.

        Raises:
            UsageError: A limit is not a whole number of at least 1.
        """
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(f"{name}: expected a whole number of at least 1, got {value!r}", field=name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Write:
    """A write operation: the key, the value and its expiry."""

    key: bytes
    value: bytes
    expires_at: float | None
    now: float


class Store(Protocol):
    """The port of a store; an entry exists while it has no `expires_at` or `expires_at > now`."""

    async def get(self, namespace: str, key: bytes, now: float) -> bytes | None:
        """Return the value, or None if there is none."""
        ...

    async def set(self, namespace: str, write: Write, quota: StorageQuota) -> None:
        """Store the value if `admit` accepts it; the check and the write must be atomic."""
        ...

    async def delete(self, namespace: str, key: bytes, now: float) -> bool:
        """Remove the entry; return True if it existed."""
        ...

    async def keys(self, namespace: str, prefix: bytes, now: float) -> list[bytes]:
        """Return the keys that begin with `prefix`, in any order."""
        ...


def admit(quota: StorageQuota, write: Write, *, other_keys: int, other_bytes: int) -> None:
    """Check that a write fits the quota together with the other entries of its namespace.

    Raises:
        StorageQuotaError: The write would exceed the quota.
    """
    _check_limit("max_keys", quota.max_keys, other_keys + 1, "delete some keys first")
    total = other_bytes + len(write.key) + len(write.value)
    _check_limit("max_total_bytes", quota.max_total_bytes, total, "delete some keys, or store smaller values")


def _check_limit(name: str, limit: int, asked: int, remedy: str) -> None:
    if asked > limit:
        raise StorageQuotaError(
            f"storage is limited to {name}={limit}, but this needs {asked}: {remedy}",
            quota=name,
            limit=limit,
            asked=asked,
        )


class Storage(Protocol):
    """The storage handle of a call, available to the tool as `ctx.storage`; values are JSON and are copied."""

    async def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """Return the value at `key`, or `default` if there is none."""
        ...

    async def set(self, key: str, value: JsonValue, *, ttl_seconds: float | None = None) -> None:
        """Store `value` at `key`, replacing an earlier value; it expires after `ttl_seconds`."""
        ...

    async def delete(self, key: str) -> bool:
        """Remove the value at `key`; return True if it existed."""
        ...

    async def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with `prefix`, sorted."""
        ...


class StorageSettings(TypedDict, total=False):
    """The settings of a `StorageBackend` besides its store."""

    quota: StorageQuota | None
    ttl_seconds: Mapping[StorageScope, float | None] | None
    clock: Callable[[], float]


class StorageBackend:
    """A backend that gives every tool its own namespace in one store.

    `ttl_seconds` is, for each scope, the maximum and default time to live. `clock` returns the seconds since the epoch.
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
    def memory(cls, **settings: Unpack[StorageSettings]) -> "StorageBackend":
        """Store values in the memory of this process."""
        return cls(storage.MemoryKeyValueStore(), **settings)

    @classmethod
    def sqlite(cls, path: str | PathLike[str], **settings: Unpack[StorageSettings]) -> "StorageBackend":
        """Store values in a SQLite file, which several processes of one machine may share.

        Raises:
            UsageError: The path is a URL.
        """
        return cls(storage.SqliteKeyValueStore(path), **settings)

    @classmethod
    def redis(cls, url: str, *, prefix: str = "spindle", **settings: Unpack[StorageSettings]) -> "StorageBackend":
        """Store values in a Redis server, which several machines may share.

        Raises:
            MissingExtraError: The extra `redis` is not installed.
        """
        return cls(storage.RedisKeyValueStore.from_url(url, prefix=prefix), **settings)

    def open(self, need: StorageScope, scope: CallScope) -> "StorageHandle":
        """Return the handle of one call.

        Raises:
            CapabilityError: The tool declares storage for a turn, but the call has no turn.
        """
        return StorageHandle(
            self._store,
            namespace_of(need, scope),
            quota=self._quota,
            max_ttl_seconds=self._ttl_seconds.get(need),
            clock=self._clock,
            tool=scope.tool,
        )


def namespace_of(need: StorageScope, scope: CallScope) -> str:
    """Return the unique namespace of a tool, or of its toolset, in a scope.

    Raises:
        CapabilityError: The scope is a turn, but the call has none.
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
            f"storage of the scope {need!r} needs a turn, but this call has no turn id: run it in a turn, or pass "
            "ToolContext(turn_id=…)",
            tool=scope.tool,
            field="storage",
        )
    return encode_json(parts).decode("utf-8", "surrogatepass")


class StorageHandle:
    """The storage handle of one call on a `Store`: text keys and JSON values, which are copied."""

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

    async def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """Return the value at `key`, or `default` if there is none."""
        with self._with_tool_name():
            data = await self._store.get(self._namespace, self._encode_key(key), self._clock())
        return default if data is None else decode_json(data)

    async def set(self, key: str, value: JsonValue, *, ttl_seconds: float | None = None) -> None:
        """Store `value` at `key`, replacing an earlier value; it expires after `ttl_seconds`.

        Raises:
            StorageError: The key, the value or the time to live is invalid, or the store failed.
            StorageQuotaError: The value would exceed the quota.
        """
        now = self._clock()
        with self._with_tool_name():
            ttl = self._check_ttl(ttl_seconds)
            expires_at = None if ttl is None else now + ttl
            write = Write(key=self._encode_key(key), value=encode_json(value), expires_at=expires_at, now=now)
            _check_limit("max_value_bytes", self._quota.max_value_bytes, len(write.value), "store less under one key")
            await self._store.set(self._namespace, write, self._quota)

    async def delete(self, key: str) -> bool:
        """Remove the value at `key`; return True if it existed."""
        with self._with_tool_name():
            return await self._store.delete(self._namespace, self._encode_key(key), self._clock())

    async def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with `prefix`, sorted."""
        with self._with_tool_name():
            found = await self._store.keys(self._namespace, _encode(prefix), self._clock())
        return sorted(key.decode("utf-8", "surrogatepass") for key in found)

    @contextmanager
    def _with_tool_name(self) -> Generator[None]:
        """Set the tool's name on every storage error."""
        try:
            yield
        except StorageError as error:
            error.tool = self._tool
            raise

    def _encode_key(self, key: str) -> bytes:
        if not isinstance(untyped(key), str) or not key:
            raise StorageError(f"expected a non-empty string as the key, got {key!r}", field="key")
        data = _encode(key)
        _check_limit("max_key_bytes", self._quota.max_key_bytes, len(data), "use a shorter key")
        return data

    def _check_ttl(self, asked: float | None) -> float | None:
        if asked is None:
            return self._max_ttl_seconds
        is_number = isinstance(untyped(asked), (int, float)) and not isinstance(asked, bool)
        if not is_number or not isfinite(asked) or not 0 < asked <= MAX_TTL_SECONDS:
            raise StorageError(
                f"ttl_seconds: expected more than 0 and at most {MAX_TTL_SECONDS:.0f} seconds, got {asked!r}; "
                "leave it out to keep the value",
                field="ttl_seconds",
            )
        return asked if self._max_ttl_seconds is None else min(asked, self._max_ttl_seconds)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
