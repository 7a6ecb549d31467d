"""Reading a URL into the one thing that is judged and dialled. No I/O."""

import re
from dataclasses import dataclass
from urllib.parse import quote, urljoin

from spindle.capabilities.addresses import parse_address
from spindle.capabilities.hosts import normalise_host
from spindle.errors import CapabilityError

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
"""Ports of mail, chat, name and file services, where an HTTP request could pass for a command; browsers refuse them."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes: every part in its one spelling."""

    scheme: str
    host: str
    """A normalised host; an IPv6 address is without brackets."""
    port: int
    path: str
    """Path and query, in ASCII."""

    @property
    def origin(self) -> tuple[str, str, int]:
        """What must not change for a redirect to stay at home."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The host as a URL or the Host header writes it, with the port where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL, without a fragment."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_url(text: str) -> Target:
    """Read an absolute http or https URL.

    Raises:
        CapabilityError: It is none, or has user info, a port that is not for HTTP, or doubtful characters.
    """
    if not isinstance(text, str) or len(text) > MAX_URL_CHARS:  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
        raise _refused(f"expected a text of at most {MAX_URL_CHARS} characters")
    found = _URL.fullmatch(text)
    if found is None or _CONTROL.search(text):
        raise _refused("expected an absolute one without control characters, such as 'https://api.example.com/v1'")
    scheme, authority, path, query = found[1].lower(), found[2], found[3], found[4] or ""
    if scheme not in _PORTS:
        raise _refused(f"the scheme {scheme!r} is not allowed; use http or https")
    if "@" in authority:
        raise _refused("it has user info before the host; send credentials in a header instead")
    if "\\" in authority + path:
        raise _refused("it has a backslash; use '/'")
    host, port = _host_and_port(authority, scheme)
    return Target(scheme, host, port, _quoted(path or "/") + _quoted(query))


def join_url(base: Target, reference: str) -> Target:
    """Read a URL that may be relative to `base`, as in a Location header.

    Raises:
        CapabilityError: As `parse_url`.
    """
    if len(reference) > MAX_URL_CHARS or "\\" in reference or _CONTROL.search(reference):
        raise _refused("a redirect leads to one with doubtful characters")
    try:
        return parse_url(urljoin(base.url, reference))
    except ValueError as error:
        raise _refused("a redirect leads to one that cannot be read") from error


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?", authority, re.ASCII)
    if found is None or not found[1]:
        raise _refused("expected 'host' or 'host:port' after '://'")
    port = int(found[2]) if found[2] else _PORTS[scheme]
    if not 0 < port < 65_536 or port in BAD_PORTS:
        raise _refused(f"port {port} is not one for HTTP")
    host = normalise_host(found[1])
    if found[1].startswith("[") and parse_address(host) is None:
        raise _refused("what stands in brackets is no IPv6 address")
    return host, port


def _quoted(text: str) -> str:
    try:
        return quote(text, safe=_KEPT)
    except UnicodeEncodeError as error:
        raise _refused("it has characters that are not text") from error


def _refused(why: str) -> CapabilityError:
    # Never the URL itself: its query may hold a key.
    return CapabilityError(f"this URL cannot be fetched: {why}", field="url")
