"""The sender of an HTTP request: its session, or its token, and the user behind it."""

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


def name_client(token_sha256: str) -> str:
    """Return the name of the client that has a configured token, from the hash of the token."""
    return token_sha256[:16]


def identify_caller(ctx: Context) -> Caller:
    """Return the sender of a request: its session, or on the newer protocol its token."""
    given: object = ctx.request
    if not isinstance(given, Request):
        return Caller(key="pipe")
    request = cast("Request[Any]", given)
    token = get_token(request)
    profile = None if token is None else token.subject
    user = find_user(token)
    if (posted := request.scope.get(SSE_SESSION)) is not None:
        return Caller(key=build_session_key(str(posted), token), profile=profile, user=user)
    session = request.headers.get(SESSION_HEADER)
    owner, is_anonymous = describe_client(token), token is None
    # The newer protocol has no sessions, so the SDK has not verified the header there.
    if session is None or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return Caller(
            key=owner,
            profile=profile,
            user=user,
            has_session=False,
            client=_hash_client_info(ctx),
            is_anonymous=is_anonymous,
        )
    key = build_session_key(session, token)
    return Caller(key=key, profile=profile, user=user, owner=owner, is_anonymous=is_anonymous)


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


def find_user(token: AccessToken | None) -> str | None:
    """Return the user whose logins at upstream servers a request may use; `None` where there are no tokens.

    A user of an authorization server is named by issuer and subject, any other by the profile of its token.
    """
    if token is None:
        return None
    user: object = getattr(token, "user", None)
    if isinstance(user, str):
        return user
    return f"token:{token.client_id}" if token.subject is None else f"profile:{token.subject}"


def describe_client(token: AccessToken | None) -> str:
    """Return how the journal names the owner of a token."""
    if token is None:
        return "everybody"
    # The tokens of one user may have different profiles, which must not share what only one of them may see.
    as_profile = f" as {token.subject}" if token.claims is not None else ""
    return f"token {token.client_id}{as_profile}"


def build_session_key(session: str, token: AccessToken | None) -> str:
    """Return the key of a session of the older protocol, which belongs to one token."""
    # The key is written to the journal, which must not allow a session to be taken over.
    return f"session {token_hash(session)[:16]} of {describe_client(token)}"
