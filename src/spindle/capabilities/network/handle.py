"""The network handle: host checks, validated requests, redirects and responses. No I/O."""

import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from spindle.capabilities.network.addresses import METADATA_NAMES, AddressPolicy, parse_address
from spindle.capabilities.network.hosts import HostList, WebAddress, join_url, parse_url
from spindle.capabilities.secrets.secret import Secret
from spindle.errors import CapabilityError, HostNotAllowedError, NetworkError
from spindle.json_types import JsonValue, untyped

Data: TypeAlias = bytes
"""An alias of `bytes`, which the method `Response.bytes` shadows inside its class."""

_NON_TEXT_CODECS = {"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "mbcs", "oem"}


@dataclass(frozen=True, slots=True)
class Reach:
    """The hosts one tool may reach: declared by the tool, granted by the caller, at an allowed address."""

    declared: HostList
    granted: HostList
    addresses: AddressPolicy

    def check(self, target: WebAddress) -> None:
        """Check the target of a request; called for the first request and for every redirect.

        Raises:
            HostNotAllowedError: The target is not allowed.
        """
        host = target.host
        if host in METADATA_NAMES:
            raise HostNotAllowedError(f"{host} is a cloud metadata service, which can never be granted", host=host)
        if not self.declared.matches(host):
            raise HostNotAllowedError(
                f"{host} is not one of the hosts this tool declared ({self.declared}); "
                "declare it with Capabilities(network=[…])",
                host=host,
            )
        if not self.granted.matches(host):
            raise HostNotAllowedError(
                f"{host} is not one of the granted hosts ({self.granted}); "
                "grant it with hosts=[…] on the network backend",
                host=host,
            )
        address = parse_address(host)
        if address is not None:
            check_addresses(host, [host], self.addresses)


def check_addresses(host: str, answers: Iterable[str], policy: AddressPolicy) -> list[str]:
    """Return the addresses of `host` after checking that every one may be dialled.

    Raises:
        HostNotAllowedError: An address is not allowed; then the name's other addresses are not trusted either.
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
    """The headers of a response: names are case-insensitive, values of a repeated header are joined by commas."""

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
        """Return the values of a header as a list."""
        return list(self._items.get(name.lower(), ()))

    def __repr__(self) -> str:
        # Values are omitted: they may be cookies or API keys.
        return f"Headers({', '.join(self._items)})"


class Body(Protocol):
    """The body of a response as an async iterator of bytes."""

    def __aiter__(self) -> AsyncIterator[Data]: ...

    async def aclose(self) -> None:
        """Release the connection; safe to call twice."""
        ...


class Response:
    """An HTTP response: status and headers are available at once, the body is read on demand."""

    def __init__(self, status: int, headers: Headers, url: str, body: Body) -> None:
        self.status = status
        self.headers = headers
        self.url = url
        """The final URL, after redirects."""
        self._body = body
        self._is_consumed = False
        self._content: Data | None = None

    async def bytes(self) -> Data:
        """Read the whole body and cache it.

        Raises:
            NetworkError: The body is incomplete, late or over the limits.
        """
        if self._content is None:
            chunks = [chunk async for chunk in self.stream()]
            self._content = b"".join(chunks)
        return self._content

    async def text(self) -> str:
        """Read the whole body as text, decoded by the charset in the headers or else UTF-8.

        Raises:
            NetworkError: As for `bytes`.
        """
        data = await self.bytes()
        charset = _charset(self.headers.get("content-type", ""))
        try:
            return data.decode(charset, errors="replace")
        except (LookupError, ValueError):
            return data.decode("utf-8-sig", errors="replace")

    async def json(self) -> JsonValue:
        """Read the whole body as JSON.

        Raises:
            NetworkError: As for `bytes`, or the body is not JSON.
        """
        data = await self.bytes()
        try:
            return json.loads(data, parse_constant=_reject_constant)
        except (ValueError, RecursionError) as error:
            raise NetworkError(
                f"the response of {self._host} is not JSON; check its status ({self.status}) and text()",
                host=self._host,
                reason="decoding",
            ) from error

    def stream(self) -> AsyncIterator[Data]:
        """Return an iterator over the decoded body as it arrives; the body can be streamed once.

        Raises:
            NetworkError: The body has already been consumed.
        """
        if self._content is not None:
            return _CachedBody(self._content)
        if self._is_consumed:
            raise NetworkError(
                f"the response body of {self._host} was already consumed; call bytes() or text() to use it twice",
                host=self._host,
                reason="consumed",
            )
        self._is_consumed = True
        return self._body.__aiter__()

    async def aclose(self) -> None:
        """Discard the rest of the body and release the connection."""
        self._is_consumed = True
        await self._body.aclose()

    async def __aenter__(self) -> "Response":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def _host(self) -> str:
        return self.url.split("/")[2]

    def __repr__(self) -> str:
        return f"<Response {self.status} from {self._host}>"  # the rest of the URL may contain an API key


class Network(Protocol):
    """The network handle of a call, available to the tool as `ctx.network`."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: Data | str | None = None,
        json: JsonValue = None,
        same_origin: bool = False,
    ) -> Response:
        """Send a request and follow redirects to allowed hosts.

        With `same_origin`, a redirect to another origin is returned as the response instead of followed.

        Raises:
            CapabilityError: The request is not allowed.
            NetworkError: The request failed or its response is invalid.
        """
        ...

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Response:
        """Send a GET request."""
        ...

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: Data | str | None = None,
        json: JsonValue = None,
    ) -> Response:
        """Send a POST request."""
        ...


class _CachedBody:
    """An iterator over a body that has already been read."""

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
            return "utf-8" if charset in _NON_TEXT_CODECS else charset
    return "utf-8-sig"


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


REDIRECTS = frozenset({301, 302, 303, 307, 308})
ACCEPTED_CODINGS = "gzip, deflate"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_FORBIDDEN_METHODS = {"CONNECT", "TRACE", "TRACK"}
# The caller may not set the headers that select the site or frame the message: a custom Host header would reach
# another site behind the same address.
_RESERVED_HEADERS = {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection"} | {
    "te",
    "trailer",
    "upgrade",
    "expect",
}
_CROSS_ORIGIN_HEADERS = {"accept", "accept-language", "user-agent", "content-type"}
_BODY_HEADERS = {"content-type", "content-encoding", "content-language", "content-location"}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A validated request, as it is sent."""

    method: str
    target: WebAddress
    headers: tuple[tuple[str, str], ...]
    """The headers set by the caller, names in lower case."""
    content: bytes | None

    def wire_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the encoded headers of the message, defaults included."""
        set_by_caller = {name for name, _ in self.headers}
        lines = [("host", self.target.authority)]
        defaults = (("accept", "*/*"), ("accept-encoding", ACCEPTED_CODINGS), ("user-agent", "spindle"))
        lines += [line for line in defaults if line[0] not in set_by_caller]
        lines += self.headers
        if self.content is not None or self.method in {"POST", "PUT", "PATCH"}:
            lines.append(("content-length", str(len(self.content or b""))))
        return [(name.encode("ascii"), value.encode("latin-1")) for name, value in lines]


def outgoing(
    method: str, url: str, headers: Mapping[str, str] | None, content: bytes | str | None, json_value: JsonValue
) -> Outgoing:
    """Validate the parts of a request and build it.

    Raises:
        CapabilityError: A part is invalid.
    """
    method = str(method).upper()
    if not _TOKEN.fullmatch(method) or method in _FORBIDDEN_METHODS:
        raise CapabilityError(
            f"the method {method!r} is not allowed; use GET, POST or another standard method", field="method"
        )
    target = parse_url(url)
    lines = [_check_header(name, value) for name, value in (headers or {}).items()]
    data, kind = _encode_body(content, json_value)
    if kind is not None and all(name != "content-type" for name, _ in lines):
        lines.append(("content-type", kind))
    return Outgoing(method, target, tuple(lines), data)


def redirected(sent: Outgoing, status: int, location: str) -> Outgoing:
    """Return the request that follows a redirect; its target is not checked yet.

    Raises:
        CapabilityError: The redirect's URL is invalid, or following it would send a body unencrypted.
    """
    target = join_url(sent.target, location)
    rewritten = (status in {301, 302} and sent.method == "POST") or (
        status == 303 and sent.method not in {"GET", "HEAD"}
    )
    following = replace(sent, target=target)
    if rewritten:
        following = replace(following, method="GET", content=None, headers=_drop_headers(sent.headers, _BODY_HEADERS))
    if target.origin != sent.target.origin:
        kept = tuple(line for line in following.headers if line[0] in _CROSS_ORIGIN_HEADERS)
        following = replace(following, headers=kept)
    if following.content is not None and (sent.target.scheme, target.scheme) == ("https", "http"):
        raise CapabilityError(
            f"{sent.target.host} redirects to http, which would send the body unencrypted; use an https URL",
            field="url",
        )
    return following


def _drop_headers(headers: tuple[tuple[str, str], ...], names: set[str]) -> tuple[tuple[str, str], ...]:
    return tuple(line for line in headers if line[0] not in names)


def _check_header(name: str, value: object) -> tuple[str, str]:
    if isinstance(value, Secret):  # its text is a mask, which would be sent instead of the value
        raise CapabilityError(
            f"the value of the header {name!r} is a Secret; pass its reveal() instead", field="headers"
        )
    name, text = str(name), str(value)
    if not _TOKEN.fullmatch(name) or name.lower() in _RESERVED_HEADERS:
        raise CapabilityError(f"the header {name!r} cannot be set; leave it out", field="headers")
    if not _VALUE.fullmatch(text):
        # The message omits the value: it may be an API key.
        raise CapabilityError(
            f"the value of the header {name!r} has line breaks or other control characters", field="headers"
        )
    return name.lower(), text.strip(" \t")


def _encode_body(content: bytes | str | None, json_value: JsonValue) -> tuple[bytes | None, str | None]:
    if json_value is not None:
        if content is not None:
            raise CapabilityError("expected either content or json, got both; leave one out", field="content")
        try:
            text = json.dumps(json_value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            return text.encode(), "application/json"
        except (TypeError, ValueError, RecursionError) as error:
            raise CapabilityError(f"json: the value cannot be serialized as JSON: {error}", field="json") from error
    if isinstance(content, str):
        return content.encode(errors="replace"), "text/plain; charset=utf-8"
    if content is not None and not isinstance(untyped(content), (bytes, bytearray, memoryview)):
        raise CapabilityError(f"content: expected bytes or text, got {type(content).__name__}", field="content")
    return (None if content is None else bytes(content)), None
