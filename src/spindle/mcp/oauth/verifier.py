"""Access tokens of clients: JSON Web Tokens of one issuer, for this server, whose scopes name one profile."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from joserfc import jws, jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jws import JWSRegistry
from typing_extensions import override

from spindle.json_types import JsonValue, is_array
from spindle.mcp.oauth.issuer_keys import IssuerKeys
from spindle.mcp.oauth.settings import ResourceSettings

MAX_TOKEN_CHARS: Final = 16_384
MAX_SCOPES: Final = 256
_MAX_SUBJECT_CHARS: Final = 255
_MAX_TIME: Final = 1e15
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""The types of access tokens (RFC 9068), and of tokens that do not say."""


class _Registry(JWSRegistry):
    max_header_length = 4_096
    max_payload_length = MAX_TOKEN_CHARS

    @override
    def get_alg(self, name: str) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # of the older name of Ed25519
            return super().get_alg(name)


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifiedToken:
    """The facts of a token that was verified; it does not hold the token."""

    issuer: str
    subject: str
    profile: str
    scopes: tuple[str, ...]
    expires_at: float

    @property
    def user(self) -> str:
        """The user: unique, because an issuer has no `#`."""
        return f"{self.issuer}#{self.subject}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRefusal:
    """Why a token is refused, in words that reveal nothing of it."""

    error: Literal["invalid_token", "insufficient_scope"]
    reason: str
    is_genuine: bool = False
    """Whether the issuer made it for us: an expired token is not an attack."""


class TokenVerifier:
    """Verifies the access tokens of one issuer; its `verify` is the only way in."""

    def __init__(
        self,
        settings: ResourceSettings,
        keys: IssuerKeys,
        *,
        audience: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._keys, self._audience, self._clock = settings, keys, audience, clock
        self._registry = _Registry(algorithms=list(settings.algorithms), strict_check_header=False)

    async def verify(self, token: str) -> VerifiedToken | TokenRefusal:
        """Verify a token: signature, issuer, audience, times, and scopes.

        Raises:
            OAuthError: The keys of the issuer cannot be fetched, so that nothing can be verified.
        """
        if len(token) > MAX_TOKEN_CHARS or not token.isascii() or token.count(".") != 2:
            return _refuse("it is not a JSON Web Token")
        claims = await self._check_signature(token)
        if isinstance(claims, TokenRefusal):
            return claims
        return self._check_claims(claims)

    async def _check_signature(self, token: str) -> "Mapping[str, JsonValue] | TokenRefusal":
        try:
            header = jws.extract_compact(token.encode(), registry=self._registry).headers()
        except (JoseError, ValueError, TypeError, RecursionError):
            return _refuse("it is malformed")
        algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ")
        if not isinstance(algorithm, str) or algorithm not in self._settings.algorithms:
            return _refuse("its algorithm is not accepted")
        if not (kind is None or (isinstance(kind, str) and kind.lower() in _TYPES)):
            return _refuse("it is not an access token")
        if not (kid is None or isinstance(kid, str)):
            return _refuse("it is malformed")
        # Keys that the token brings along or points to (jwk, jku, x5c, x5u) are not looked at.
        key = await self._keys.find(kid, algorithm)
        if key is None:
            return _refuse("its issuer has no such key")
        try:
            return jwt.decode(token, key, algorithms=[algorithm], registry=self._registry).claims
        except (JoseError, ValueError, TypeError, RecursionError):
            return _refuse("its signature is wrong")

    def _check_claims(self, claims: "Mapping[str, JsonValue]") -> VerifiedToken | TokenRefusal:
        if claims.get("iss") != self._settings.issuer:
            return _refuse("it is from another issuer")
        given = claims.get("aud")
        if self._audience not in (given if is_array(given) else [given]):
            return _refuse("it was made for another audience")
        if "cnf" in claims:
            return _refuse("it is bound to a key of its client, which this server cannot check")
        expires_at = self._check_times(claims)
        if isinstance(expires_at, str):
            return TokenRefusal(error="invalid_token", reason=expires_at, is_genuine=True)
        subject = claims.get("sub")
        if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT_CHARS or not subject.isprintable():
            return _refuse("it names no user")
        scopes = _read_scopes(claims)
        if scopes is None:
            return _refuse("its scopes are malformed")
        profile = self._find_profile(scopes)
        if isinstance(profile, TokenRefusal):
            return profile
        return VerifiedToken(
            issuer=self._settings.issuer, subject=subject, profile=profile, scopes=scopes, expires_at=expires_at
        )

    def _check_times(self, claims: "Mapping[str, JsonValue]") -> float | str:
        """Return when the token expires, or what is wrong with its times."""
        now, leeway = self._clock(), self._settings.leeway_seconds
        for name in ("nbf", "iat"):
            if name in claims:
                start = _read_time(claims[name])
                if start is None:
                    return f"its {name} is malformed"
                if start > now + leeway:
                    return "it is not valid yet"
        end = _read_time(claims.get("exp"))
        if end is None:
            return "its exp is missing or malformed"
        return "it has expired" if end <= now - leeway else end

    def _find_profile(self, scopes: tuple[str, ...]) -> str | TokenRefusal:
        missing = [scope for scope in self._settings.required_scopes if scope not in scopes]
        profiles = list(dict.fromkeys(profile for scope, profile in self._settings.scopes.items() if scope in scopes))
        if missing:
            return _refuse_scope(f"it lacks the scope {missing[0]}")
        if not profiles:
            return _refuse_scope("none of its scopes names a profile")
        if len(profiles) > 1:
            # Neither the wider nor the narrower one is what both sides expect.
            return _refuse_scope("its scopes name several profiles; ask for the scope of one")
        return profiles[0]


def _read_time(value: JsonValue) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < _MAX_TIME else None


def _read_scopes(claims: "Mapping[str, JsonValue]") -> tuple[str, ...] | None:
    """Return the scopes of `scope` (RFC 9068), or of `scp`, which some issuers write instead."""
    given = claims.get("scope", claims.get("scp", ""))
    listed = given.split(" ") if isinstance(given, str) else given
    if not is_array(listed) or len(listed) > MAX_SCOPES or not all(isinstance(each, str) for each in listed):
        return None
    if is_array(given) and any(" " in each for each in listed):
        return None
    return tuple(dict.fromkeys(each for each in listed if each))


def _refuse(reason: str) -> TokenRefusal:
    return TokenRefusal(error="invalid_token", reason=reason)


def _refuse_scope(reason: str) -> TokenRefusal:
    return TokenRefusal(error="insufficient_scope", reason=reason, is_genuine=True)
