"""The server as an OAuth 2.1 resource server: its metadata (RFC 9728), its challenges, and the users of its tokens."""

import hashlib
import json
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from mcp.server.auth.provider import AccessToken
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from spindle.errors import OAuthError, UsageError
from spindle.extras import needs_extra
from spindle.json_types import JsonObject
from spindle.mcp.login_settings import find_url_problem
from spindle.mcp.oauth.settings import ResourceSettings

with needs_extra("oauth", purpose="accepting tokens of an authorization server"):
    from spindle.mcp.oauth.http import OAuthHttp
    from spindle.mcp.oauth.issuer_keys import IssuerKeys
    from spindle.mcp.oauth.verifier import TokenRefusal, TokenVerifier, VerifiedToken

METADATA: Final = "/.well-known/oauth-protected-resource"
_RETRY_SECONDS: Final = 5


class UserToken(AccessToken):
    """A verified token as the SDK sees it; `token` holds a hash of the user, not the token."""

    user: str
    """The user: the issuer and the subject."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """A refused request; `is_genuine` if the token was ours once, so that the sender need not be slowed down."""

    response: Response
    is_genuine: bool


class ResourceServer:
    """The part of the server that accepts the tokens of an authorization server.

    Raises:
        UsageError: The public URL is not a URL that clients can use.
    """

    def __init__(self, settings: ResourceSettings, *, address: str, keys: IssuerKeys | None = None) -> None:
        self._settings = settings
        self.resource = settings.find_resource() or address
        problem = find_url_problem(self.resource)
        if problem is not None:
            raise UsageError(
                f"[server.oauth] needs the public URL of the server: resource {problem}, got {self.resource!r:.80}",
                field="resource",
            )
        if keys is None:
            named = [settings.issuer, *filter(None, [settings.jwks_url])]
            keys = IssuerKeys(settings, OAuthHttp(named))
        self._verifier = TokenVerifier(settings, keys, audience=settings.audience or self.resource)
        parts = urlsplit(self.resource)
        path = "" if parts.path == "/" else parts.path
        self.paths = tuple(dict.fromkeys((f"{METADATA}{path}", METADATA)))
        """The paths of the metadata, which anybody may read."""
        self._metadata_url = f"{parts.scheme}://{parts.netloc}{METADATA}{path}"

    def build_routes(self) -> list[Route]:
        """Return the routes of the metadata."""

        async def show(_request: Request) -> Response:
            return JSONResponse(self.build_metadata(), headers={"Cache-Control": "max-age=300"})

        return [Route(path, show, methods=["GET"]) for path in self.paths]

    def build_metadata(self) -> JsonObject:
        """Return the metadata of the protected resource (RFC 9728)."""
        scopes = dict.fromkeys((*self._settings.required_scopes, *self._settings.scopes))
        return {
            "resource": self.resource,
            "authorization_servers": [self._settings.issuer],
            "scopes_supported": list(scopes),
            "bearer_methods_supported": ["header"],
        }

    async def authenticate(self, token: str) -> UserToken | Refused:
        """Return the user of a token, or the response that refuses it."""
        try:
            found = await self._verifier.verify(token)
        except OAuthError:
            # Not 401: the client would throw away a token that may well be valid.
            body = {
                "error": "temporarily_unavailable",
                "hint": "the keys of the authorization server cannot be fetched",
            }
            headers = {"Retry-After": str(_RETRY_SECONDS)}
            return Refused(response=JSONResponse(body, status_code=503, headers=headers), is_genuine=True)
        if isinstance(found, TokenRefusal):
            return Refused(response=self._refuse(found), is_genuine=found.is_genuine)
        return _build_token(found)

    def challenge(self, **facts: str) -> str:
        """Return the header `WWW-Authenticate`: where to log in, and which scopes to ask for."""
        first = next(iter(self._settings.scopes))
        scope = " ".join(dict.fromkeys((*self._settings.required_scopes, first)))
        named = {"realm": "spindle", **facts, "scope": scope, "resource_metadata": self._metadata_url}
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in named.items())

    def _refuse(self, refusal: TokenRefusal) -> Response:
        header = self.challenge(error=refusal.error, error_description=refusal.reason)
        body = {"error": refusal.error, "hint": f"the token is refused: {refusal.reason}"}
        status = 403 if refusal.error == "insufficient_scope" else 401
        return JSONResponse(body, status_code=status, headers={"WWW-Authenticate": header})


def _build_token(found: VerifiedToken) -> UserToken:
    """Describe the user to the SDK, which binds sessions and states to `client_id`, `iss` and `subject`."""
    digest = hashlib.sha256(json.dumps([found.issuer, found.subject]).encode()).hexdigest()
    return UserToken(
        token=digest,
        client_id=f"user-{digest[:32]}",
        scopes=list(found.scopes),
        expires_at=int(found.expires_at),
        subject=found.profile,
        claims={"iss": found.issuer},
        user=found.user,
    )
