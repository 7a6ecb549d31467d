"""How users log in to an upstream server, and which URLs may be used for it."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from spindle.errors import UsageError

_MAX_URL_CHARS: Final = 2_000


def is_loopback_name(host: str) -> bool:
    """Return whether a host of a URL is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_url_problem(url: object, *, can_have_query: bool = True) -> str | None:
    """Return why a URL must not be used for OAuth, or `None`: it needs TLS, except on this machine."""
    if not isinstance(url, str) or not url.isascii() or not url.isprintable() or " " in url:
        return "must be a URL"
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return "must be a URL"
    if len(url) > _MAX_URL_CHARS or not parts.hostname or not has_port:
        return "must be a URL"
    if parts.username is not None or parts.password is not None:
        return "must not contain a user name or password"
    if parts.fragment or "#" in url or (parts.query and not can_have_query):
        return "must not have a query or fragment"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback_name(parts.hostname)):
        return "must be an https:// URL; http:// is only accepted for this machine"
    return None


def get_origin(url: str) -> tuple[str, str, int]:
    """Return the scheme, host and port of a URL."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or (443 if parts.scheme == "https" else 80)


def check_url(name: str, url: str | None, *, can_have_query: bool = True) -> None:
    """Check the URL of a setting.

    Raises:
        UsageError: It must not be used for OAuth.
    """
    problem = None if url is None else find_url_problem(url, can_have_query=can_have_query)
    if problem is not None:
        raise UsageError(f"{name} {problem}, got {url!r:.80}", field=name)


def _is_scope(text: str) -> bool:
    # RFC 6749, section 3.3.
    return bool(text) and all(0x21 <= ord(each) <= 0x7E and each not in '"\\' for each in text)


def check_scopes(name: str, scopes: Iterable[str]) -> None:
    """Check the scopes of a setting.

    Raises:
        UsageError: One of them is not a scope.
    """
    for scope in scopes:
        if not _is_scope(scope):
            raise UsageError(f"{name} has an invalid scope {scope!r:.80}", field=name)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginSettings:
    """How to log in to an upstream server; by default everything is discovered, and the client is registered.

    Raises:
        UsageError: A value is invalid; `field` names it.
    """

    issuer: str | None = None
    """The only authorization server to accept; a private address is reached only if it is named here."""
    client_id: str | None = None
    """The id of a client that was registered by hand."""
    client_secret: str | None = None
    """The name of the secret that holds this client's secret; it needs `issuer`, which alone gets it."""
    scopes: tuple[str, ...] = ()
    """The scopes to ask for; by default those that the server names."""
    client_metadata_url: str | None = None
    """The address of a client metadata document, which is the client's id where the issuer supports it."""
    redirect_port: int | None = None
    """The port of `spindle login` for the redirect; by default a free one."""

    def __post_init__(self) -> None:
        check_url("issuer", self.issuer, can_have_query=False)
        check_url("client_metadata_url", self.client_metadata_url)
        url = self.client_metadata_url
        if url is not None and (urlsplit(url).scheme != "https" or urlsplit(url).path in ("", "/")):
            raise UsageError("client_metadata_url must be an https:// URL with a path", field="client_metadata_url")
        if self.client_secret is not None and self.client_id is None:
            raise UsageError("client_secret needs client_id", field="client_secret")
        if self.client_secret is not None and self.issuer is None:
            raise UsageError(
                "client_secret needs issuer: otherwise the upstream server names the one that gets it",
                field="client_secret",
            )
        if self.client_id is not None and (not self.client_id.strip() or not self.client_id.isprintable()):
            raise UsageError("client_id must be printable and not empty", field="client_id")
        if self.redirect_port is not None and not 0 < self.redirect_port <= 65_535:
            raise UsageError("redirect_port must be 1 to 65535", field="redirect_port")
        check_scopes("scopes", self.scopes)
