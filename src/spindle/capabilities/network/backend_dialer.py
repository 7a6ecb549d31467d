"""Connections to checked addresses only: the dialer, the connection pools and the translation of HTTP errors."""

import socket
import ssl
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, cast

import anyio
import httpcore2
from anyio.lowlevel import RunVar

from spindle.capabilities.network.addresses import AddressPolicy, parse_address
from spindle.capabilities.network.handle import check_addresses
from spindle.errors import NetworkError

Resolver: TypeAlias = Callable[[str, int], Awaitable[Iterable[str]]]
"""Resolves a host name and a port to addresses."""

_MAX_ATTEMPTS = 6
_ATTEMPT_SECONDS = 3.0
"""How long to try one address before the next one of the same name."""


async def system_resolver(host: str, port: int) -> list[str]:
    """Resolve `host` with the operating system's resolver."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in found]


@dataclass(frozen=True, slots=True)
class CheckedDialer(httpcore2.AsyncNetworkBackend):
    """A network backend that resolves a name once, checks every address, and dials only checked addresses."""

    policy: AddressPolicy
    resolver: Resolver

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's port
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to `host`.

        Raises:
            HostNotAllowedError: The host has an address that is not allowed.
            NetworkError: The name cannot be resolved.
        """
        addresses = await self._resolve(host, port)
        *first, last = addresses[:_MAX_ATTEMPTS]
        # The cast is needed because its stubs hide the type when anyio is missing; anyio also supports trio.
        dial = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())
        for address in first:
            try:
                stream = await dial.connect_tcp(address, port, _ATTEMPT_SECONDS, local_address, socket_options)
                return _DialledStream(stream)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return _DialledStream(await dial.connect_tcp(last, port, timeout, local_address, socket_options))

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - httpcore2's port
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,  # noqa: ARG002 - httpcore2's port
    ) -> httpcore2.AsyncNetworkStream:
        """Reject the connection: local sockets are not part of the network capability."""
        raise NetworkError(
            f"{path} is a Unix socket, which the network capability does not allow", host=path, reason="connect"
        )

    async def sleep(self, seconds: float) -> None:
        """Wait between attempts."""
        await anyio.sleep(seconds)

    async def _resolve(self, host: str, port: int) -> list[str]:
        if parse_address(host) is not None:
            return check_addresses(host, [host], self.policy)
        try:
            answers = list(await self.resolver(host, port))
        except OSError as error:  # includes socket.gaierror
            raise _build_dns_error(host) from error
        if not answers:
            raise _build_dns_error(host)
        return check_addresses(host, answers, self.policy)


@dataclass(frozen=True, slots=True)
class _DialledStream(httpcore2.AsyncNetworkStream):
    """A stream that is closed when its TLS handshake is cancelled; the library would leave it open."""

    stream: httpcore2.AsyncNetworkStream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore2's port
        return await self.stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore2's port
        await self.stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self.stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's port
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return await self.stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self.stream.get_extra_info(info)


def _build_dns_error(host: str) -> NetworkError:
    return NetworkError(f"the host name {host} cannot be resolved; check its spelling", host=host, reason="dns")


_IDLE_SECONDS = 15.0


@dataclass(slots=True)
class _KeptPool:
    """A pool that is kept open, with the number of its holders."""

    pool: httpcore2.AsyncConnectionPool
    holders: int = 0


class ConnectionPools:
    """The connection pools, one for each event loop.

    Connections are kept for reuse only between `keep` and `release`, so that none leaks.
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
        self._kept: RunVar[_KeptPool | None] = RunVar("spindle-network-kept", None)

    def get_pool(self) -> httpcore2.AsyncConnectionPool:
        """Return the pool of this event loop."""
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
        """Keep connections of this event loop for reuse; each call must be paired with a `release`."""
        kept = self._kept.get() or _KeptPool(self._new_pool(max_idle=self._max_connections))
        kept.holders += 1
        self._kept.set(kept)

    async def release(self) -> None:
        """Release the pool; the last holder closes it."""
        kept = self._kept.get()
        if kept is None:
            return
        kept.holders -= 1
        if kept.holders == 0:
            self._kept.set(None)
            with anyio.CancelScope(shield=True):
                await kept.pool.aclose()

    def _new_pool(self, *, max_idle: int) -> httpcore2.AsyncConnectionPool:
        # This low-level library has no proxies, cookies, credentials or redirects, so none can bypass the checks.
        return httpcore2.AsyncConnectionPool(
            ssl_context=self._ssl_context or _default_ssl_context(),
            max_connections=self._max_connections,
            max_keepalive_connections=max_idle,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=self._dialer,
        )


@cache
def _default_ssl_context() -> ssl.SSLContext:
    # Cached: loading the system's certificate authorities takes tens of milliseconds.
    return httpcore2.default_ssl_context()


@contextmanager
def translate_http_errors(host: str) -> Generator[None]:
    """Translate exceptions of the HTTP library.

    Raises:
        NetworkError: The request to `host` failed.
    """
    try:
        yield
    except (TimeoutError, httpcore2.TimeoutException) as error:
        raise NetworkError(
            f"{host} timed out; retry later, or raise timeout_seconds", host=host, reason="timeout"
        ) from error
    except httpcore2.ConnectError as error:
        if _is_tls(error):
            raise NetworkError(
                f"{host} has no valid certificate for its name: {_first_line(error)}", host=host, reason="tls"
            ) from error
        raise NetworkError(f"{host} does not accept connections; is it up?", host=host, reason="connect") from error
    except (httpcore2.NetworkError, OSError) as error:
        raise NetworkError(f"the connection to {host} was lost; retry", host=host, reason="connect") from error
    except (httpcore2.ProtocolError, httpcore2.UnsupportedProtocol) as error:
        raise NetworkError(f"{host} sent invalid HTTP: {_first_line(error)}", host=host, reason="protocol") from error


def _is_tls(error: BaseException) -> bool:
    cause = error.__cause__ or error.__context__
    return isinstance(error, ssl.SSLError) or (cause is not None and _is_tls(cause))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
