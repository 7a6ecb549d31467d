"""The settings of OAuth: of the tokens that our server accepts, and of the logins to an upstream server."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from spindle.errors import UsageError

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""The algorithms of signatures that can be accepted: with public keys only, so that nobody here can make a token."""
DEFAULT_LEEWAY_SECONDS: Final = 30.0
_MAX_LEEWAY_SECONDS: Final = 300.0
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


def _check_url(name: str, url: str | None, *, can_have_query: bool = True) -> None:
    problem = None if url is None else find_url_problem(url, can_have_query=can_have_query)
    if problem is not None:
        raise UsageError(f"{name} {problem}, got {url!r:.80}", field=name)


def _is_scope(text: str) -> bool:
    # RFC 6749, section 3.3.
    return bool(text) and all(0x21 <= ord(each) <= 0x7E and each not in '"\\' for each in text)


def _check_scopes(name: str, scopes: tuple[str, ...] | Mapping[str, str]) -> None:
    for scope in scopes:
        if not _is_scope(scope):
            raise UsageError(f"{name} has an invalid scope {scope!r:.80}", field=name)


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceSettings:
    """The access tokens that the server accepts: JSON Web Tokens of one issuer, made for this server.

    Raises:
        UsageError: A value is invalid; `field` names it.
    """

    issuer: str
    """The authorization server, exactly as its tokens name it."""
    scopes: Mapping[str, str]
    """Scope → profile. A token must have the scopes of exactly one profile; the first scope is the one to ask for."""
    resource: str | None = None
    """The public URL of the server; by default the audience, or the address that it listens on."""
    audience: str | None = None
    """What `aud` of a token must contain; by default the resource."""
    jwks_url: str | None = None
    """The address of the issuer's keys; by default the issuer's metadata names it."""
    required_scopes: tuple[str, ...] = ()
    """Scopes that every token must have."""
    algorithms: tuple[str, ...] = ALGORITHMS
    leeway_seconds: float = DEFAULT_LEEWAY_SECONDS
    """How far clocks may differ."""

    def __post_init__(self) -> None:
        _check_url("issuer", self.issuer, can_have_query=False)
        _check_url("jwks_url", self.jwks_url)
        _check_url("resource", self.resource)
        if not self.scopes:
            raise UsageError(
                "scopes is empty, so that no token would have a profile; map a scope to one", field="scopes"
            )
        _check_scopes("scopes", self.scopes)
        _check_scopes("required_scopes", self.required_scopes)
        if self.audience is not None and not self.audience.strip():
            raise UsageError("audience must not be empty", field="audience")
        unknown = [name for name in self.algorithms if name not in ALGORITHMS]
        if unknown or not self.algorithms:
            given = repr(unknown[0]) if unknown else "none"
            raise UsageError(f"algorithms must be some of {', '.join(ALGORITHMS)}, got {given}", field="algorithms")
        if not (math.isfinite(self.leeway_seconds) and 0 <= self.leeway_seconds <= _MAX_LEEWAY_SECONDS):
            raise UsageError(f"leeway_seconds must be 0 to {_MAX_LEEWAY_SECONDS:g}", field="leeway_seconds")

    def find_resource(self) -> str | None:
        """Return the public URL of the server, if it is set."""
        is_url = self.audience is not None and find_url_problem(self.audience) is None
        return self.resource or (self.audience if is_url else None)


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
    """The name of the secret that holds this client's secret."""
    scopes: tuple[str, ...] = ()
    """The scopes to ask for; by default those that the server names."""
    client_metadata_url: str | None = None
    """The address of a client metadata document, which is the client's id where the issuer supports it."""
    redirect_port: int | None = None
    """The port of `spindle login` for the redirect; by default a free one."""

    def __post_init__(self) -> None:
        _check_url("issuer", self.issuer, can_have_query=False)
        _check_url("client_metadata_url", self.client_metadata_url)
        url = self.client_metadata_url
        if url is not None and (urlsplit(url).scheme != "https" or urlsplit(url).path in ("", "/")):
            raise UsageError("client_metadata_url must be an https:// URL with a path", field="client_metadata_url")
        if self.client_secret is not None and self.client_id is None:
            raise UsageError("client_secret needs client_id", field="client_secret")
        if self.client_id is not None and (not self.client_id.strip() or not self.client_id.isprintable()):
            raise UsageError("client_id must be printable and not empty", field="client_id")
        if self.redirect_port is not None and not 0 < self.redirect_port <= 65_535:
            raise UsageError("redirect_port must be 1 to 65535", field="redirect_port")
        _check_scopes("scopes", self.scopes)
