"""Where connections come from, and how long they are kept."""

import ssl
from dataclasses import dataclass
from functools import cache

import anyio
import httpcore2
from anyio.lowlevel import RunVar

from spindle.capabilities.addresses import AddressPolicy
from spindle.capabilities.backends.dialing import CheckedDialer, Resolver, system_resolver

_IDLE_SECONDS = 15.0


@dataclass(slots=True)
class _Kept:
    """A pool that is held open, and how many want it so."""

    pool: httpcore2.AsyncConnectionPool
    holders: int = 0


class Connections:
    """A pool for each event loop.

    Connections are kept for reuse only between `keep` and `release`, so that none is left behind.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: Resolver | None,
        ssl_context: ssl.SSLContext | None,
        max_connections: int,
    ) -> None:
        self._dialer = CheckedDialer(policy, resolver or system_resolver)
        self._ssl_context = ssl_context
        self._max_connections = max_connections
        self._pool: RunVar[httpcore2.AsyncConnectionPool] = RunVar("spindle-network-pool")
        self._kept: RunVar[_Kept | None] = RunVar("spindle-network-kept", None)

    def current(self) -> httpcore2.AsyncConnectionPool:
        """Give the pool of this event loop."""
        kept = self._kept.get()
        if kept is not None:
            return kept.pool
        try:
            return self._pool.get()
        except LookupError:
            pool = self._new_pool(max_idle=0)
            self._pool.set(pool)
            return pool

    def keep(self) -> None:
        """Keep connections of this event loop for reuse, until `release` is called as often."""
        kept = self._kept.get() or _Kept(self._new_pool(max_idle=self._max_connections))
        kept.holders += 1
        self._kept.set(kept)

    async def release(self) -> None:
        """Close what was kept, when nobody wants it any more."""
        kept = self._kept.get()
        if kept is None:
            return
        kept.holders -= 1
        if kept.holders == 0:
            self._kept.set(None)
            with anyio.CancelScope(shield=True):
                await kept.pool.aclose()

    def _new_pool(self, *, max_idle: int) -> httpcore2.AsyncConnectionPool:
        # Proxies, cookies, credentials and redirects are the business of libraries above this one, and so are not here.
        return httpcore2.AsyncConnectionPool(
            ssl_context=self._ssl_context or _default_ssl_context(),
            max_connections=self._max_connections,
            max_keepalive_connections=max_idle,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=self._dialer,
        )


@cache
def _default_ssl_context() -> ssl.SSLContext:
    # Reading the authorities of the system takes tens of milliseconds.
    return httpcore2.default_ssl_context()
