"""The public keys of an issuer: discovered, cached, and fetched again when a token names an unknown one."""

import time
from collections.abc import Callable
from typing import Final

import anyio
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls

from spindle.errors import OAuthError
from spindle.json_types import JsonObject, is_array, is_object
from spindle.mcp.oauth.http import OAuthHttp
from spindle.mcp.oauth.settings import ResourceSettings

FRESH_SECONDS: Final = 600.0
"""Keys are fetched again after this time."""
MAX_AGE_SECONDS: Final = 3_600.0
"""Keys are used this long while the issuer cannot be reached: a withdrawn key must not stay valid."""
REFETCH_SECONDS: Final = 30.0
"""Least time between two fetches, whatever tokens name."""
MAX_KEYS: Final = 100
_KEY_TYPES: Final = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}


class IssuerKeys:
    """The keys of one issuer; requests that need the same fetch share it."""

    def __init__(
        self, settings: ResourceSettings, http: OAuthHttp, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings, self._http, self._clock = settings, http, clock
        self._keys: list[Key] = []
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._problem = ""
        self._lock = anyio.Lock()

    async def find(self, kid: str | None, algorithm: str) -> Key | None:
        """Return the key of a token, or `None` if the issuer has none.

        Raises:
            OAuthError: The keys cannot be fetched.
        """
        if not self._is_younger(FRESH_SECONDS):
            await self._fetch()
        found = self._match(kid, algorithm)
        if found is None and self._may_fetch():
            await self._fetch()
            found = self._match(kid, algorithm)
        if not self._is_younger(MAX_AGE_SECONDS):
            raise OAuthError(f"the keys of {self._settings.issuer} cannot be fetched: {self._problem}")
        return found

    def _is_younger(self, seconds: float) -> bool:
        return self._fetched_at is not None and self._clock() - self._fetched_at < seconds

    def _may_fetch(self) -> bool:
        return self._tried_at is None or self._clock() - self._tried_at >= REFETCH_SECONDS

    async def _fetch(self) -> None:
        async with self._lock:
            if not self._may_fetch():  # another request has just fetched them, or failed to
                return
            self._tried_at = self._clock()
            try:
                url = self._settings.jwks_url or await self._discover()
                answer = await self._http.get(url)
                self._keys = _read_keys(answer.content if answer.status == 200 else None)
                self._fetched_at = self._clock()
            except OAuthError as error:
                self._problem = str(error)

    async def _discover(self) -> str:
        """Return the address of the keys that the issuer's metadata names."""
        issuer = self._settings.issuer
        for url in build_oauth_authorization_server_metadata_discovery_urls(issuer, issuer):
            answer = await self._http.get(url)
            if answer.status != 200 or answer.content is None:
                continue
            if answer.content.get("issuer") != issuer:
                raise OAuthError(f"the metadata at {url} is that of another issuer")
            found = answer.content.get("jwks_uri")
            if isinstance(found, str):
                return found
        raise OAuthError(f"{issuer} has no metadata with a jwks_uri; set jwks_url")

    def _match(self, kid: str | None, algorithm: str) -> Key | None:
        fitting = [key for key in self._keys if _fits(key, algorithm) and (kid is None or key.kid == kid)]
        # Without a kid, a guess among several keys would try signatures with keys meant for other things.
        return fitting[0] if len(fitting) == 1 else None


def _read_keys(content: JsonObject | None) -> list[Key]:
    listed = None if content is None else content.get("keys")
    if not is_array(listed):
        raise OAuthError("the issuer's keys are not a JSON Web Key Set")
    found: list[Key] = []
    for each in listed[:MAX_KEYS]:
        kind = _KEY_TYPES.get(str(each.get("kty"))) if is_object(each) else None  # no "oct": those sign, too
        if kind is None or not is_object(each):
            continue
        try:
            found.append(kind.import_key({str(name): value for name, value in each.items()}))
        except (JoseError, ValueError, TypeError, KeyError):
            continue  # of a kind that is not supported; others may be
    return found


def _fits(key: Key, algorithm: str) -> bool:
    own: object = key.get("alg")
    if key.get("use") not in (None, "sig") or own not in (None, algorithm):
        return False
    try:
        JWSRegistry.algorithms[algorithm].check_key(key)
        key.check_key_op("verify")
    except JoseError:
        return False
    return True
