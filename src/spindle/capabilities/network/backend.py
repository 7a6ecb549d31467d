"""The network backend over HTTP; needs the extra `network`."""

import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from spindle.capabilities.declare import CallScope
from spindle.capabilities.network.addresses import AddressPolicy
from spindle.capabilities.network.handle import Reach, Response, outgoing
from spindle.capabilities.network.hosts import HostList
from spindle.errors import CapabilityError, SpindleError
from spindle.extras import needs_extra
from spindle.json_types import JsonValue, untyped

if TYPE_CHECKING:
    from spindle.capabilities.network.backend_exchange import Exchange


class NetworkBackend:
    """A backend that serves HTTP to tools, limited to the granted hosts and private addresses.

    `hosts` are exact names, `*.example.com` for the subdomains of example.com, and `*` for any public host; a tool
    reaches hosts that it declared and that are granted here. `private_addresses` are non-public CIDRs that may be
    dialled. Inside `async with backend:` connections are kept alive and reused, also between calls.
    """

    def __init__(
        self,
        hosts: Iterable[str] = (),
        *,
        private_addresses: Iterable[str] = (),
        max_response_bytes: int = 10_000_000,
        timeout_seconds: float = 30.0,
        max_redirects: int = 5,
        max_connections: int = 20,
        resolver: Callable[[str, int], Awaitable[Iterable[str]]] | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Validate the grants and the limits.

        Raises:
            CapabilityError: A grant or a limit is invalid.
            MissingExtraError: The HTTP library is not installed.
        """
        self.hosts = HostList(hosts)
        self.addresses = AddressPolicy(private_addresses)
        _check_minimum(1, max_response_bytes=max_response_bytes, max_connections=max_connections)
        _check_minimum(0, max_redirects=max_redirects)
        if not timeout_seconds > 0:
            raise CapabilityError(f"timeout_seconds: expected more than 0, got {timeout_seconds!r}", field="network")
        with needs_extra("network", purpose="the network capability"):
            from spindle.capabilities.network.backend_dialer import ConnectionPools  # noqa: PLC0415 - an extra
            from spindle.capabilities.network.backend_exchange import Exchange, RequestLimits  # noqa: PLC0415 - an extra
        self._exchange = Exchange
        self._limits = RequestLimits(
            max_response_bytes=max_response_bytes, timeout_seconds=timeout_seconds, max_redirects=max_redirects
        )
        self._connections = ConnectionPools(
            self.addresses, resolver=resolver, ssl_context=ssl_context, max_connections=max_connections
        )

    def open(self, need: Iterable[str], scope: CallScope) -> "HttpNetwork":
        """Return the handle of one call; the caller must `aclose` it when the call has ended.

        Raises:
            CapabilityError: A declared host is not a host pattern.
        """
        reach = Reach(HostList(need), self.hosts, self.addresses)
        return HttpNetwork(self._exchange(self._connections, reach, self._limits), scope.tool)

    def lacking(self, need: Iterable[str]) -> list[str]:
        """Return the declared hosts that are not granted."""
        return self.hosts.find_uncovered(HostList(need))

    async def __aenter__(self) -> "NetworkBackend":
        self._connections.keep()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connections.release()


class HttpNetwork:
    """The network handle of one call: an HTTP client limited to the tool's hosts."""

    def __init__(self, exchange: "Exchange", tool: str) -> None:
        self._exchange = exchange
        self._tool = tool

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | str | None = None,
        json: JsonValue = None,
        same_origin: bool = False,
    ) -> Response:
        """Send a request and follow redirects to allowed hosts.

        With `same_origin`, a redirect to another scheme, host or port is returned as the response instead of followed.

        Raises:
            CapabilityError: The request, or a redirect it leads to, is not allowed.
            NetworkError: The request failed or its response is invalid.
        """
        try:
            return await self._exchange.send(outgoing(method, url, headers, content, json), same_origin=same_origin)
        except SpindleError as error:
            error.tool = error.tool or self._tool
            raise

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Response:
        """Send a GET request; see `request`."""
        return await self.request("GET", url, headers=headers)

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | str | None = None,
        json: JsonValue = None,
    ) -> Response:
        """Send a POST request; see `request`."""
        return await self.request("POST", url, headers=headers, content=content, json=json)

    async def aclose(self) -> None:
        """Close every response that was not read to its end."""
        await self._exchange.aclose()


def _check_minimum(least: int, **values: int) -> None:
    for name, value in values.items():
        if not isinstance(untyped(value), int) or value < least:
            raise CapabilityError(
                f"{name}: expected a whole number of at least {least}, got {value!r}", field="network"
            )
