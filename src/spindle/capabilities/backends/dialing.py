"""Connections that go to checked addresses only."""

import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import anyio
import httpcore2

from spindle.capabilities.addresses import AddressPolicy, parse_address
from spindle.capabilities.network import check_addresses
from spindle.errors import NetworkError

Resolver: TypeAlias = Callable[[str, int], Awaitable[Iterable[str]]]
"""Gives the addresses of a host name, for a port."""

_MAX_ATTEMPTS = 6
_ATTEMPT_SECONDS = 3.0
"""How long an address may hold up the next one of the same name."""


async def system_resolver(host: str, port: int) -> list[str]:
    """Ask the operating system for the addresses of `host`."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in found]


@dataclass(frozen=True, slots=True)
class CheckedDialer(httpcore2.AsyncNetworkBackend):
    """Resolves a name once, checks every answer, and dials one of the answers it checked."""

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
            HostNotAllowedError: It has an address that may not be dialled.
            NetworkError: Its name cannot be resolved.
        """
        addresses = await self._checked(host, port)
        *first, last = addresses[:_MAX_ATTEMPTS]
        # Its stubs hide what it is where anyio is missing; anyio serves trio, too.
        dial = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())
        for address in first:
            try:
                stream = await dial.connect_tcp(address, port, _ATTEMPT_SECONDS, local_address, socket_options)
                return _Dialled(stream)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return _Dialled(await dial.connect_tcp(last, port, timeout, local_address, socket_options))

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - httpcore2's port
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,  # noqa: ARG002 - httpcore2's port
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse: a socket on this machine is not the network."""
        raise NetworkError(f"{path} is a socket file, which is never dialled", host=path, reason="connect")

    async def sleep(self, seconds: float) -> None:
        """Wait between attempts."""
        await anyio.sleep(seconds)

    async def _checked(self, host: str, port: int) -> list[str]:
        if parse_address(host) is not None:
            return check_addresses(host, [host], self.policy)
        try:
            answers = list(await self.resolver(host, port))
        except OSError as error:  # socket.gaierror is one
            raise _unknown(host) from error
        if not answers:
            raise _unknown(host)
        return check_addresses(host, answers, self.policy)


@dataclass(frozen=True, slots=True)
class _Dialled(httpcore2.AsyncNetworkStream):
    """A stream that is also closed when its TLS handshake is cancelled, which the library leaves open."""

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


def _unknown(host: str) -> NetworkError:
    return NetworkError(f"the name {host} cannot be resolved; check its spelling", host=host, reason="dns")
