"""Hosts and URLs: normalising hosts, matching host patterns and parsing URLs into targets. No I/O."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import quote, urljoin

import idna

from spindle.capabilities.network.addresses import parse_address
from spindle.errors import CapabilityError
from spindle.json_types import untyped
from spindle.text import shorten

_MAX_NAME = 253
_MAX_SPELLING = 1000
"""Length limit before normalisation, which bounds its cost."""

_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


def normalise_host(text: str) -> str:
    """Return the canonical form of a host: a lower-case ASCII name without trailing dot, or a canonical address.

    IPv4 addresses are parsed as browsers do: parts may be decimal, octal or hexadecimal, and may be omitted.

    Raises:
        CapabilityError: The text is not a valid host.
    """
    if text.startswith("[") and text.endswith("]"):
        return _ipv6(text[1:-1], text)
    if ":" in text:
        return _ipv6(text, text)
    name = _ascii(text).removesuffix(".")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return str(_ipv4(name, text))
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise _build_host_error(text)
    return name


def _ascii(text: str) -> str:
    if len(text) > _MAX_SPELLING:
        raise _build_host_error(shorten(text, 40))
    if text.isascii():
        return text.lower()
    try:
        name = idna.uts46_remap(text, std3_rules=False, transitional=False)
        # Digits and dots of other scripts are now ASCII and may form an address.
        return name if name.isascii() else idna.encode(name.removesuffix(".")).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        raise _build_host_error(text) from error


def _ipv4(name: str, text: str) -> IPv4Address:
    parts = name.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise _build_host_error(text)
    try:
        *front, last = [_number(part) for part in parts]
    except ValueError as error:
        raise _build_host_error(text) from error
    if any(part > 255 for part in front) or last >= 256 ** (5 - len(parts)):
        raise _build_host_error(text)
    return IPv4Address(last + sum(part << (24 - 8 * place) for place, part in enumerate(front)))


def _number(part: str) -> int:
    if len(part) > 64:  # int() raises an unrelated error for very long numbers
        raise ValueError(part)
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8 if part.startswith("0") else 10)


def _ipv6(inner: str, text: str) -> str:
    address = parse_address(inner)
    if not isinstance(address, IPv6Address):
        raise _build_host_error(text)
    return str(address)


def _build_host_error(text: str) -> CapabilityError:
    return CapabilityError(
        f"{text!r} is not a host: expected a name such as 'api.example.com' or an address, without a zone", field="host"
    )


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A pattern for one host, the subdomains of one (`*.example.com`), or any host (`*`)."""

    suffix: str
    """The host itself, or the parent of the subdomains, or empty for any host."""
    wild: bool

    @classmethod
    def parse(cls, text: str) -> "HostPattern":
        """Parse a pattern.

        Raises:
            CapabilityError: The text is not a host pattern.
        """
        if not isinstance(untyped(text), str):
            raise _build_pattern_error(text)
        if text == "*":
            return cls("", wild=True)
        wild = text.startswith("*.")
        try:
            suffix = normalise_host(text[2:] if wild else text)
        except CapabilityError as error:
            raise _build_pattern_error(text) from error
        if wild and parse_address(suffix) is not None:
            raise _build_pattern_error(text)
        return cls(suffix, wild=wild)

    def matches(self, host: str) -> bool:
        """Return True if a normalised `host` matches."""
        if not self.wild:
            return host == self.suffix
        return not self.suffix or (host.endswith("." + self.suffix) and parse_address(host) is None)

    def covers(self, other: "HostPattern") -> bool:
        """Return True if every host that matches `other` matches this pattern too."""
        if not other.wild:
            return self.matches(other.suffix)
        if not self.wild:
            return False
        return not self.suffix or self.suffix == other.suffix or other.suffix.endswith("." + self.suffix)

    def __str__(self) -> str:
        if not self.wild:
            return self.suffix
        return f"*.{self.suffix}" if self.suffix else "*"


@dataclass(frozen=True, slots=True, init=False)
class HostList:
    """A list of host patterns; an empty list matches nothing."""

    patterns: tuple[HostPattern, ...]

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        """Parse the patterns.

        Raises:
            CapabilityError: A pattern is invalid, or `patterns` is a string instead of a list.
        """
        if isinstance(patterns, (str, bytes)):
            raise CapabilityError(
                f"hosts: expected a list of hosts, got {patterns!r}; write [{patterns!r}]", field="hosts"
            )
        object.__setattr__(self, "patterns", tuple(HostPattern.parse(text) for text in patterns))

    def matches(self, host: str) -> bool:
        """Return True if a normalised `host` matches."""
        return any(pattern.matches(host) for pattern in self.patterns)

    def find_uncovered(self, declared: "HostList") -> list[str]:
        """Return the patterns of `declared` that are not fully granted here; `*` means whatever is granted."""
        return [
            str(need)
            for need in declared.patterns
            if need.suffix and not any(pattern.covers(need) for pattern in self.patterns)
        ]

    def __str__(self) -> str:
        shown = ", ".join(str(pattern) for pattern in self.patterns[:10])
        return shown + (", …" if len(self.patterns) > 10 else "") if shown else "none"


def _build_pattern_error(text: str) -> CapabilityError:
    return CapabilityError(
        f"{text!r} is not a host pattern: expected a host without scheme, port and path ('api.example.com'), "
        "its subdomains ('*.example.com'), or '*'",
        field="hosts",
    )


MAX_URL_CHARS = 32_768

_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_KEPT = "!$%&'()*+,/:;=?@[]\\|~"

BAD_PORTS = frozenset(
    {1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110}
    | {111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531}
    | {532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190}
    | {5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080}
)
"""Ports of other services (mail, chat, DNS, files) that could misread an HTTP request; browsers block them too."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """The target of a request, with every part normalised."""

    scheme: str
    host: str
    """A normalised host; IPv6 addresses have no brackets."""
    port: int
    path: str
    """Path and query, percent-encoded to ASCII."""

    @property
    def origin(self) -> tuple[str, str, int]:
        """The scheme, host and port."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The host as in a URL or a Host header, with the port unless it is the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL without a fragment."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_url(text: str) -> WebAddress:
    """Parse an absolute http or https URL.

    Raises:
        CapabilityError: The URL is invalid, or has user info, a blocked port or forbidden characters.
    """
    if not isinstance(untyped(text), str) or len(text) > MAX_URL_CHARS:
        raise _build_url_error(f"expected a string of at most {MAX_URL_CHARS} characters")
    found = _URL.fullmatch(text)
    if found is None or _CONTROL.search(text):
        raise _build_url_error(
            "expected an absolute URL without control characters, such as 'https://api.example.com/v1'"
        )
    scheme, authority, path, query = found[1].lower(), found[2], found[3], found[4] or ""
    if scheme not in _PORTS:
        raise _build_url_error(f"the scheme {scheme!r} is not allowed; use http or https")
    if "@" in authority:
        raise _build_url_error("it has user info before the host; send credentials in a header instead")
    if "\\" in authority + path:
        raise _build_url_error("it has a backslash; use '/'")
    host, port = _host_and_port(authority, scheme)
    return WebAddress(scheme, host, port, _percent_encode(path or "/") + _percent_encode(query))


def join_url(base: WebAddress, reference: str) -> WebAddress:
    """Parse a URL that may be relative to `base`, as in a Location header.

    Raises:
        CapabilityError: As for `parse_url`.
    """
    if len(reference) > MAX_URL_CHARS or "\\" in reference or _CONTROL.search(reference):
        raise _build_url_error("the redirect's URL is too long or has forbidden characters")
    try:
        return parse_url(urljoin(base.url, reference))
    except ValueError as error:
        raise _build_url_error("the redirect's URL cannot be parsed") from error


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?", authority, re.ASCII)
    if found is None or not found[1]:
        raise _build_url_error("expected 'host' or 'host:port' after '://'")
    port = int(found[2]) if found[2] else _PORTS[scheme]
    if not 0 < port < 65_536 or port in BAD_PORTS:
        raise _build_url_error(f"port {port} is not allowed for HTTP")
    host = normalise_host(found[1])
    if found[1].startswith("[") and parse_address(host) is None:
        raise _build_url_error("expected an IPv6 address in the brackets")
    return host, port


def _percent_encode(text: str) -> str:
    try:
        return quote(text, safe=_KEPT)
    except UnicodeEncodeError as error:
        raise _build_url_error("it has lone surrogates, which cannot be encoded") from error


def _build_url_error(why: str) -> CapabilityError:
    # The message omits the URL: its query may contain an API key.
    return CapabilityError(f"this URL cannot be fetched: {why}", field="url")
