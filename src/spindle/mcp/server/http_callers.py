"""The sender of an HTTP request: its session, or its token."""

import hashlib
import json
from typing import Any, Final, cast

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from spindle.mcp.server.peer import Context
from spindle.mcp.server.sessions import Caller

SESSION_HEADER: Final = "mcp-session-id"
SSE_SESSION: Final = "spindle.sse_session"
"""Key in the scope of a request: the session of the older transport to which it was posted."""


def token_hash(token: str) -> str:
    """Return the SHA-256 hash of a token, which is all the server stores."""
    return hashlib.sha256(token.encode()).hexdigest()


def identify_caller(ctx: Context) -> Caller:
    """Return the sender of a request: its session, or on the newer protocol its token."""
    given: object = ctx.request
    if not isinstance(given, Request):
        return Caller(key="pipe")
    request = cast("Request[Any]", given)
    token = get_token(request)
    profile = None if token is None else token.subject
    if (posted := request.scope.get(SSE_SESSION)) is not None:
        return Caller(key=build_session_key(str(posted), token), profile=profile)
    session = request.headers.get(SESSION_HEADER)
    owner, is_anonymous = describe_client(token), token is None
    # The newer protocol has no sessions, so the SDK has not verified the header there.
    if session is None or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        client = _hash_client_info(ctx)
        return Caller(key=owner, profile=profile, has_session=False, client=client, is_anonymous=is_anonymous)
    return Caller(key=build_session_key(session, token), profile=profile, owner=owner, is_anonymous=is_anonymous)


def _hash_client_info(ctx: Context) -> str:
    params = ctx.session.client_params
    return hash_names() if params is None else hash_names(params.client_info.name, params.client_info.version)


def hash_names(*names: object) -> str:
    """Return a short hash of the names of a client."""
    return token_hash(json.dumps(names, default=str))[:16]


def get_token(request: "Request[Any]") -> AccessToken | None:
    """Return the bearer token that a request was sent with, once it was checked."""
    user = request.scope.get("user")
    return user.access_token if isinstance(user, AuthenticatedUser) else None


def describe_client(token: AccessToken | None) -> str:
    """Return how the journal names the owner of a token."""
    return "everybody" if token is None else f"token {token.client_id}"


def build_session_key(session: str, token: AccessToken | None) -> str:
    """Return the key of a session of the older protocol, which belongs to one token."""
    # The key is written to the journal, which must not allow a session to be taken over.
    return f"session {token_hash(session)[:16]} of {describe_client(token)}"
