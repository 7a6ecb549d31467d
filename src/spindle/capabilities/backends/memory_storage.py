"""Storage in this process's memory, shared by all its threads and event loops."""

from threading import Lock
from typing import NamedTuple

from spindle.capabilities.storage import StorageQuota, Write, admit

SWEEP_SECONDS = 60.0
"""How often namespaces that nobody writes to any more are cleared of what has expired."""


class _Entry(NamedTuple):
    value: bytes
    expires_at: float | None

    def is_there(self, now: float) -> bool:
        return self.expires_at is None or self.expires_at > now


class MemoryStore:
    """Keeps entries in dicts."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._spaces: dict[str, dict[bytes, _Entry]] = {}
        self._swept_at = float("-inf")

    async def get(self, namespace: str, key: bytes, now: float) -> bytes | None:
        """Give the value, or `None` when there is none."""
        with self._lock:
            entry = self._spaces.get(namespace, {}).get(key)
        return entry.value if entry is not None and entry.is_there(now) else None

    async def set(self, namespace: str, write: Write, quota: StorageQuota) -> None:
        """Keep the value if it fits."""
        with self._lock:
            self._sweep(namespace, write.now)
            space = self._spaces.get(namespace, {})
            others = {key: entry for key, entry in space.items() if key != write.key}
            other_bytes = sum(len(key) + len(entry.value) for key, entry in others.items())
            admit(quota, write, other_keys=len(others), other_bytes=other_bytes)
            self._spaces.setdefault(namespace, space)[write.key] = _Entry(write.value, write.expires_at)

    async def delete(self, namespace: str, key: bytes, now: float) -> bool:
        """Remove the entry; says whether it was there."""
        with self._lock:
            space = self._spaces.get(namespace, {})
            entry = space.pop(key, None)
            if not space:
                self._spaces.pop(namespace, None)
        return entry is not None and entry.is_there(now)

    async def keys(self, namespace: str, prefix: bytes, now: float) -> list[bytes]:
        """Give the keys that begin with `prefix`."""
        with self._lock:
            entries = list(self._spaces.get(namespace, {}).items())
        return [key for key, entry in entries if key.startswith(prefix) and entry.is_there(now)]

    def _sweep(self, namespace: str, now: float) -> None:
        is_due = not self._swept_at <= now < self._swept_at + SWEEP_SECONDS
        for name in list(self._spaces) if is_due else [namespace]:
            kept = {key: entry for key, entry in self._spaces.get(name, {}).items() if entry.is_there(now)}
            if kept:
                self._spaces[name] = kept
            else:
                self._spaces.pop(name, None)
        self._swept_at = now if is_due else self._swept_at
