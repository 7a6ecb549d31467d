"""The storage capability: small values that a tool stores between calls; open `store.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.capabilities.storage.backend_local import MemoryKeyValueStore as MemoryKeyValueStore
    from spindle.capabilities.storage.backend_local import SqliteKeyValueStore as SqliteKeyValueStore
    from spindle.capabilities.storage.backend_redis import RedisKeyValueStore as RedisKeyValueStore
    from spindle.capabilities.storage.store import MAX_DEPTH as MAX_DEPTH
    from spindle.capabilities.storage.store import MAX_PARTS as MAX_PARTS
    from spindle.capabilities.storage.store import MAX_TTL_SECONDS as MAX_TTL_SECONDS
    from spindle.capabilities.storage.store import TTL_SECONDS as TTL_SECONDS
    from spindle.capabilities.storage.store import Storage as Storage
    from spindle.capabilities.storage.store import StorageBackend as StorageBackend
    from spindle.capabilities.storage.store import StorageQuota as StorageQuota
    from spindle.capabilities.storage.store import Store as Store
    from spindle.capabilities.storage.store import Write as Write
    from spindle.capabilities.storage.store import admit as admit
    from spindle.capabilities.storage.store import decode_json as decode_json
    from spindle.capabilities.storage.store import encode_json as encode_json
    from spindle.capabilities.storage.store import namespace_of as namespace_of
else:
    __getattr__, __dir__ = open_door(__name__)
