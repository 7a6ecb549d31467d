"""The tokens of HTTP requests: configured ones, and those of an authorization server."""

import hmac
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from spindle.json_types import JsonValue
from spindle.mcp.server.http_callers import name_client, token_hash
from spindle.mcp.server.http_checks import FailedLogins

if TYPE_CHECKING:  # it needs the extra `oauth`
    from spindle.mcp.server.http_oauth import ResourceServer

_SERVER_BUSY = -32_000


class TokenCheck:
    """Checks the bearer tokens of requests, without revealing which tokens exist."""

    def __init__(
        self,
        tokens: Mapping[str, str | None],
        resource: "ResourceServer | None" = None,
        *,
        is_open: Callable[[str], bool],
    ) -> None:
        self._tokens, self._resource = tokens, resource
        self._is_open = is_open
        """Whether a path needs no token."""
        self._failures = FailedLogins()

    async def check(self, request: Request, scope: Scope) -> Response | None:
        """Return the refusal of a request without a valid token, or `None` after its sender was noted."""
        if not self._tokens and self._resource is None:
            return None
        given = request.headers.getlist("authorization")
        # With two headers, a proxy in front may have checked the other one.
        token = _read_bearer(given[0]) if len(given) == 1 else None
        access = None if token is None else self._find_token(token)
        refused: Response | None = None
        is_attack = bool(given)
        if access is None and token is not None and self._resource is not None:
            found = await self._resource.authenticate(token)
            if isinstance(found, AccessToken):
                access = found
            else:
                refused, is_attack = found.response, not found.is_genuine
        if access is not None:
            scope["user"] = AuthenticatedUser(access)
            return None
        if is_attack:
            seconds = await self._failures.slow_down(request.client.host if request.client else "")
            if seconds:
                return build_busy("Too many requests with a wrong token.", seconds)
        if self._is_open(scope["path"]):
            return None
        return refused or self._ask_for_token()

    def _ask_for_token(self) -> Response:
        body = {
            "error": "unauthorized",
            "hint": "send Authorization: Bearer <token>; ask the server's owner for a token",
        }
        challenge = 'Bearer realm="spindle"' if self._resource is None else self._resource.challenge()
        return JSONResponse(body, status_code=401, headers={"WWW-Authenticate": challenge})

    def _find_token(self, token: str) -> AccessToken | None:
        """Return the configured token that was sent, described for the SDK."""
        digest = token_hash(token)
        # Compare with every token, so that timing reveals nothing.
        matching = [known for known in self._tokens if hmac.compare_digest(known, digest)]
        if not matching:
            return None
        profile = self._tokens[matching[0]]
        # The SDK binds a session to the client that opened it by comparing client_id and subject.
        return AccessToken(token=matching[0], client_id=name_client(matching[0]), scopes=[], subject=profile)


def _read_bearer(header: str) -> str | None:
    scheme, _, token = header.partition(" ")
    return (token.strip() or None) if scheme.lower() == "bearer" else None


def build_busy(text: str, seconds: float, id: JsonValue = None, *, status: int = 429) -> Response:
    """Build a refusal that says when to come back."""
    wait = math.ceil(seconds)
    error = {"code": _SERVER_BUSY, "message": f"{text} Try again in {wait} s.", "data": {"retryAfterSeconds": wait}}
    body = {"jsonrpc": "2.0", "id": id, "error": error}
    return JSONResponse(body, status_code=status, headers={"Retry-After": str(wait)})
