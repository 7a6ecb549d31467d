"""The settings of the access tokens that our server accepts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spindle.errors import UsageError
from spindle.mcp.login_settings import check_scopes, check_url, find_url_problem

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""The signatures that can be accepted: with public keys only, so that a key that is known here cannot make a token."""
DEFAULT_LEEWAY_SECONDS: Final = 30.0
_MAX_LEEWAY_SECONDS: Final = 300.0


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
        check_url("issuer", self.issuer, can_have_query=False)
        check_url("jwks_url", self.jwks_url)
        check_url("resource", self.resource)
        if not self.scopes:
            raise UsageError(
                "scopes is empty, so that no token would have a profile; map a scope to one", field="scopes"
            )
        check_scopes("scopes", self.scopes)
        check_scopes("required_scopes", self.required_scopes)
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
