"""A store in a Redis server (extra `redis`), which several machines may share.

A namespace is a hash of values, a sorted set of expiry times and a byte count; each operation is one script and thus
atomic. Times are the caller's, as in every other store; the server itself deletes a namespace a minute after its last
entry has expired.
"""

import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from spindle.capabilities.storage.store import StorageQuota, Write, admit
from spindle.concurrency import storage_threads
from spindle.errors import StorageError, UsageError
from spindle.extras import needs_extra

T = TypeVar("T")

TIMEOUT_SECONDS = 5.0

# KEYS: values, expiries, bytes. ARGV: now, key, …
_DELETE_EXPIRED = """
local gone = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1])
for _, key in ipairs(gone) do
    redis.call('DECRBY', KEYS[3], #key + redis.call('HSTRLEN', KEYS[1], key))
    redis.call('HDEL', KEYS[1], key)
end
if #gone > 0 then redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[1]) end
"""
_GET = """
local expires = redis.call('ZSCORE', KEYS[2], ARGV[2])
if expires and tonumber(expires) <= tonumber(ARGV[1]) then return false end
return redis.call('HGET', KEYS[1], ARGV[2])
"""
_KEYS = f"{_DELETE_EXPIRED} return redis.call('HKEYS', KEYS[1])"
_DELETE = f"""{_DELETE_EXPIRED}
local size = redis.call('HSTRLEN', KEYS[1], ARGV[2])
local was = redis.call('HDEL', KEYS[1], ARGV[2])
if was == 1 then redis.call('DECRBY', KEYS[3], #ARGV[2] + size) end
redis.call('ZREM', KEYS[2], ARGV[2])
if redis.call('HLEN', KEYS[1]) == 0 then redis.call('DEL', KEYS[1], KEYS[2], KEYS[3]) end
return was
"""
# ARGV: now, key, value, expires_at or '', max_keys, max_total_bytes.
# Returns the number of other keys, their bytes, and whether the value was stored.
_SET = f"""{_DELETE_EXPIRED}
local keys, bytes = redis.call('HLEN', KEYS[1]), tonumber(redis.call('GET', KEYS[3]) or '0')
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
    keys, bytes = keys - 1, bytes - #ARGV[2] - redis.call('HSTRLEN', KEYS[1], ARGV[2])
end
local total = bytes + #ARGV[2] + #ARGV[3]
if keys + 1 > tonumber(ARGV[5]) or total > tonumber(ARGV[6]) then return {{keys, bytes, 0}} end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('SET', KEYS[3], string.format('%.0f', total))
if ARGV[4] == '' then redis.call('ZREM', KEYS[2], ARGV[2]) else redis.call('ZADD', KEYS[2], ARGV[4], ARGV[2]) end
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
local all_expire = last and redis.call('ZCARD', KEYS[2]) == redis.call('HLEN', KEYS[1])
for _, name in ipairs(KEYS) do
    if all_expire then
        local left = math.ceil(tonumber(last) - tonumber(ARGV[1])) + 60
        redis.call('EXPIRE', name, string.format('%.0f', left))
    else
        redis.call('PERSIST', name)
    end
end
return {{keys, bytes, 1}}
"""


class RedisKeyValueStore:
    """A store in Redis that uses a client of the `redis` package, whose calls run in threads."""

    def __init__(self, client: Any, *, prefix: str = "spindle") -> None:
        self.client = client
        self._prefix = prefix
        self._get, self._set, self._delete, self._keys = map(client.register_script, (_GET, _SET, _DELETE, _KEYS))

    @classmethod
    def from_url(cls, url: str, *, prefix: str = "spindle", **options: Any) -> "RedisKeyValueStore":
        """Build a store for a server by its URL; `options` are passed to the client.

        Raises:
            MissingExtraError: The extra `redis` is not installed.
            UsageError: The URL is invalid; the error does not repeat it.
        """
        redis = _redis()
        settings: dict[str, float] = {"socket_timeout": TIMEOUT_SECONDS, "socket_connect_timeout": TIMEOUT_SECONDS}
        try:
            client = redis.Redis.from_url(url, **settings, **options)
        except ValueError:  # its message may contain a part of the password
            raise UsageError("Invalid Redis URL: expected redis://user:password@host:6379/0", field="url") from None
        return cls(client, prefix=prefix)

    async def get(self, namespace: str, key: bytes, now: float) -> bytes | None:
        """Return the value, or None if there is none."""
        return await self._in_thread(lambda: self._get(self.get_redis_keys(namespace), [repr(now), key]))

    async def set(self, namespace: str, write: Write, quota: StorageQuota) -> None:
        """Store the value if it fits the quota."""
        expires = "" if write.expires_at is None else repr(write.expires_at)
        given = [repr(write.now), write.key, write.value, expires, quota.max_keys, quota.max_total_bytes]
        keys, size, is_kept = await self._in_thread(lambda: self._set(self.get_redis_keys(namespace), given))
        if not is_kept:
            admit(quota, write, other_keys=keys, other_bytes=size)

    async def delete(self, namespace: str, key: bytes, now: float) -> bool:
        """Remove the entry; return True if it existed."""
        return await self._in_thread(lambda: self._delete(self.get_redis_keys(namespace), [repr(now), key])) == 1

    async def keys(self, namespace: str, prefix: bytes, now: float) -> list[bytes]:
        """Return the keys that begin with `prefix`."""
        found: list[bytes] = await self._in_thread(lambda: self._keys(self.get_redis_keys(namespace), [repr(now)]))
        return [key for key in found if key.startswith(prefix)]

    async def aclose(self) -> None:
        """Close the connections; they are reopened when the store is used again."""
        await self._in_thread(self.client.close)

    def get_redis_keys(self, namespace: str) -> list[str]:
        """Return the Redis keys of a namespace's values, expiry times and byte count."""
        # The braces are a hash tag, which keeps the three keys in one slot of a cluster.
        digest = hashlib.sha256(namespace.encode("utf-8", "surrogatepass")).hexdigest()
        return [f"{self._prefix}:storage:{{{digest}}}:{part}" for part in ("values", "expiries", "bytes")]

    async def _in_thread(self, work: Callable[[], T]) -> T:
        with _translate_errors():
            return await storage_threads.run_abandonable(work)


def _redis() -> Any:
    with needs_extra("redis", purpose="storage in Redis"):
        import redis  # noqa: PLC0415 - an extra
    module: Any = redis
    return module


@contextmanager
def _translate_errors() -> Generator[None]:
    """Translate exceptions of the client into StorageError; the message omits the URL, which may contain a password."""
    try:
        yield
    except _redis().RedisError as error:
        raise StorageError(
            f"the Redis server failed ({type(error).__name__}): check that it is running and reachable, then retry",
            field="storage",
        ) from error
