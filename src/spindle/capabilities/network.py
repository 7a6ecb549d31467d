"""The network capability: where a tool may go, and what it is given back. No I/O."""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from spindle.capabilities.address_table import METADATA_NAMES
from spindle.capabilities.addresses import AddressPolicy, parse_address
from spindle.capabilities.hosts import HostList
from spindle.capabilities.urls import Target
from spindle.errors import HostNotAllowedError, NetworkError

Data: TypeAlias = bytes
"""`Response.bytes` hides the builtin inside its class."""

_NOT_FOR_TEXT = {"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "mbcs", "oem"}


@dataclass(frozen=True, slots=True)
class Reach:
    """What one tool may reach: declared by it, granted by the caller, and at an address that is not forbidden."""

    declared: HostList
    granted: HostList
    addresses: AddressPolicy

    def check(self, target: Target) -> None:
        """Judge a request before it is made, the first one and every redirect alike.

        Raises:
            HostNotAllowedError: The target is out of reach.
        """
        host = target.host
        if host in METADATA_NAMES:
            raise HostNotAllowedError(f"{host} is a cloud metadata service, which can never be granted", host=host)
        if not self.declared.matches(host):
            raise HostNotAllowedError(
                f"{host} is not among the hosts this tool declared ({self.declared}); "
                "declare it with Capabilities(network=[…])",
                host=host,
            )
        if not self.granted.matches(host):
            raise HostNotAllowedError(
                f"{host} is not among the hosts that were granted ({self.granted}); "
                "grant it with hosts=[…] on the network backend",
                host=host,
            )
        address = parse_address(host)
        if address is not None:
            check_addresses(host, [host], self.addresses)


def check_addresses(host: str, answers: Iterable[str], policy: AddressPolicy) -> list[str]:
    """Give the addresses of `host`, if every one of them may be dialled.

    Raises:
        HostNotAllowedError: One of them may not: then a name is not to be trusted with the others either.
    """
    checked: dict[str, None] = {}
    for answer in answers:
        address = parse_address(answer)
        why = "not a plain address" if address is None else policy.refusal(address)
        if why is not None:
            at = "" if answer == host else f" ({answer})"
            raise HostNotAllowedError(f"{host}{at} is {why}", host=host)
        checked[str(address)] = None
    return list(checked)


class Headers(Mapping[str, str]):
    """Headers of a response: names in any case; values of a repeated header are joined by commas."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[tuple[str, str]] = ()) -> None:
        self._items: dict[str, list[str]] = {}
        for name, value in items:
            self._items.setdefault(name.lower(), []).append(value)

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._items[name.lower()])

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def get_list(self, name: str) -> list[str]:
        """Give each value of a header by itself."""
        return list(self._items.get(name.lower(), ()))

    def __repr__(self) -> str:
        # Values may be cookies and keys.
        return f"Headers({', '.join(self._items)})"


class Body(Protocol):
    """The bytes of a response, as they come in."""

    def __aiter__(self) -> AsyncIterator[Data]: ...

    async def aclose(self) -> None:
        """Let go of the connection; doing so twice is fine."""
        ...


class Response:
    """An answer: its status and headers at once, its body when asked for."""

    def __init__(self, status: int, headers: Headers, url: str, body: Body) -> None:
        self.status = status
        self.headers = headers
        self.url = url
        """Where the answer came from, after redirects."""
        self._body = body
        self._taken = False
        self._content: Data | None = None

    async def bytes(self) -> Data:
        """Read the whole body; a second time it is there already.

        Raises:
            NetworkError: It did not arrive whole, in time and within the limits.
        """
        if self._content is None:
            chunks = [chunk async for chunk in self.stream()]
            self._content = b"".join(chunks)
        return self._content

    async def text(self) -> str:
        """Read the whole body as text, in the charset the headers name or else UTF-8.

        Raises:
            NetworkError: As `bytes`.
        """
        data = await self.bytes()
        charset = _charset(self.headers.get("content-type", ""))
        try:
            return data.decode(charset, errors="replace")
        except (LookupError, ValueError):
            return data.decode("utf-8-sig", errors="replace")

    async def json(self) -> Any:
        """Read the whole body as JSON.

        Raises:
            NetworkError: As `bytes`, or it is not JSON.
        """
        data = await self.bytes()
        try:
            return json.loads(data, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise NetworkError(
                f"the answer of {self._host} is not JSON; look at its status ({self.status}) and text()",
                host=self._host,
                reason="decoding",
            ) from error

    def stream(self) -> AsyncIterator[Data]:
        """Give the body as it comes in, decoded; it can be taken once.

        Raises:
            NetworkError: It was taken before.
        """
        if self._content is not None:
            return _Kept(self._content)
        if self._taken:
            raise NetworkError(
                f"the body of the answer of {self._host} was already taken; call bytes() or text() to use it twice",
                host=self._host,
                reason="consumed",
            )
        self._taken = True
        return self._body.__aiter__()

    async def aclose(self) -> None:
        """Leave the rest of the body unread, and let go of the connection."""
        self._taken = True
        await self._body.aclose()

    async def __aenter__(self) -> "Response":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def _host(self) -> str:
        return self.url.split("/")[2]

    def __repr__(self) -> str:
        return f"<Response {self.status} from {self._host}>"  # the rest of the URL may hold a key


class Network(Protocol):
    """The handle a tool has as `ctx.network`."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: Data | str | None = None,
        json: Any = None,
        same_origin: bool = False,
    ) -> Response:
        """Ask `url`, following redirects that stay within reach.

        With `same_origin` a redirect to another origin is not followed: it is the answer.

        Raises:
            CapabilityError: The request may not be made.
            NetworkError: There is no proper answer.
        """
        ...

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Response:
        """Ask with GET."""
        ...

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: Data | str | None = None,
        json: Any = None,
    ) -> Response:
        """Ask with POST."""
        ...


class _Kept:
    """A body that has been read already."""

    def __init__(self, content: Data) -> None:
        self._left = content

    def __aiter__(self) -> AsyncIterator[Data]:
        return self

    async def __anext__(self) -> Data:
        if not self._left:
            raise StopAsyncIteration
        content, self._left = self._left, b""
        return content


def _charset(content_type: str) -> str:
    for part in content_type.split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip("\"'").lower().replace("-", "_")
            return "utf-8" if charset in _NOT_FOR_TEXT else charset
    return "utf-8-sig"


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
