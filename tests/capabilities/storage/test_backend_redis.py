"""A Redis server as a place for tools' values."""

import socket
import sys
import uuid

import anyio
import pytest

from spindle.capabilities.declare import CallScope
from spindle.capabilities.storage.backend_redis import RedisKeyValueStore
from spindle.capabilities.storage.store import Storage, StorageBackend, namespace_of
from spindle.errors import MissingExtraError, StorageError

pytestmark = pytest.mark.anyio


def opened(backend: StorageBackend) -> Storage:
    return backend.open("tool", CallScope(tool="notes", session_id="s1"))


@pytest.mark.slow
async def test_the_server_forgets_what_expires_whole(redis_url: str) -> None:
    store = RedisKeyValueStore.from_url(redis_url, prefix=uuid.uuid4().hex)
    storage = opened(StorageBackend(store))
    names = store.get_redis_keys(namespace_of("tool", CallScope(tool="notes", session_id="s1")))

    def lives() -> list[int]:
        return [store.client.ttl(name) for name in names]

    await storage.set("a", 1, ttl_seconds=10)
    assert all(10 < life <= 70 for life in lives())
    await storage.set("b", 1)
    assert lives()[0] == -1
    await storage.delete("a")
    await storage.delete("b")
    assert lives() == [-2, -2, -2]
    await store.aclose()


async def test_an_unreachable_server_is_reported_without_its_password() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    storage = opened(StorageBackend.redis(f"redis://:hunter22@127.0.0.1:{port}/0"))

    with anyio.fail_after(30), pytest.raises(StorageError) as caught:
        await storage.get("a")

    assert caught.value.field == "storage"
    assert "hunter22" not in f"{caught.value}{caught.value.__cause__}"


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)

    with pytest.raises(MissingExtraError) as caught:
        StorageBackend.redis("redis://127.0.0.1/0")

    assert ".[redis]" in str(caught.value)
