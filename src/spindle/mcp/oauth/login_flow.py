"""One login: registration of the client, the authorization URL, and the exchange of the code and of refresh tokens."""

import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from secrets import compare_digest, token_urlsafe
from typing import Final
from urllib.parse import quote, urlencode

from mcp.client.auth.exceptions import OAuthFlowError, OAuthRegistrationError
from mcp.client.auth.oauth2 import PKCEParameters, check_registration_usable
from mcp.client.auth.utils import should_use_client_metadata_url, validate_authorization_response_iss
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken
from pydantic import ValidationError

from spindle.errors import OAuthError
from spindle.json_types import JsonObject
from spindle.mcp.login_settings import LoginSettings, find_url_problem
from spindle.mcp.oauth.discovery import AuthorizationServer
from spindle.mcp.oauth.http import HttpAnswer, OAuthHttp
from spindle.mcp.oauth.token_store import StoredLogin
from spindle.text import to_printable

MAX_TOKEN_CHARS: Final = 16_384
_EARLY_SECONDS: Final = 60.0
"""Tokens are refreshed this long before they expire, but not before half of their time."""
_NO_LONGER_VALID: Final = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingLogin:
    """A login that waits for the redirect of the browser."""

    authorization_url: str
    server: AuthorizationServer
    draft: StoredLogin
    state: str = field(repr=False)
    verifier: str = field(repr=False)


async def begin_login(
    server: AuthorizationServer,
    settings: LoginSettings,
    http: OAuthHttp,
    *,
    redirect_uri: str,
    known: StoredLogin | None = None,
    has_secret: bool = False,
) -> PendingLogin:
    """Register the client if there is none yet, and build the URL at which the user logs in.

    `known` is an earlier login, whose registration is used again where it still fits.

    Raises:
        OAuthError: The authorization server does not register clients.
    """
    draft = StoredLogin(
        issuer=server.issuer,
        token_endpoint=str(server.metadata.token_endpoint),
        resource=server.resource,
        redirect_uri=redirect_uri,
        client_id="",
        auth_method="none",
        revocation_endpoint=_get_revocation_endpoint(server.metadata),
    )
    if settings.client_id is not None:
        method = _choose_method(server.metadata) if has_secret else "none"
        draft = replace(draft, client_id=settings.client_id, auth_method=method)
    elif should_use_client_metadata_url(server.metadata, settings.client_metadata_url):
        draft = replace(draft, client_id=settings.client_metadata_url or "")
    elif known is not None and (known.issuer, known.redirect_uri) == (server.issuer, redirect_uri):
        own = {"client_id": known.client_id, "client_secret": known.client_secret, "auth_method": known.auth_method}
        draft = replace(draft, **own)
    else:
        draft = await _register(draft, server, http)
    state, proof = token_urlsafe(32), PKCEParameters.generate()
    asked = {
        "response_type": "code",
        "client_id": draft.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": proof.code_challenge,
        "code_challenge_method": "S256",
        "resource": server.resource,
    }
    if server.scope is not None:
        asked["scope"] = server.scope
        if "offline_access" in server.scope.split():
            asked["prompt"] = "consent"  # OpenID Connect gives no refresh token without it
    endpoint = str(server.metadata.authorization_endpoint)
    url = f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"
    return PendingLogin(authorization_url=url, server=server, draft=draft, state=state, verifier=proof.code_verifier)


async def finish_login(
    pending: PendingLogin, answer: Mapping[str, str], http: OAuthHttp, *, client_secret: str | None = None
) -> StoredLogin:
    """Check the parameters of the redirect, and exchange the code for tokens.

    Raises:
        OAuthError: The user declined, or the redirect does not belong to this login.
    """
    if not compare_digest(answer.get("state", "").encode(), pending.state.encode()):
        raise OAuthError("the redirect does not belong to this login: its state is another one")
    try:
        validate_authorization_response_iss(answer.get("iss"), pending.server.metadata)
    except OAuthFlowError as error:
        raise OAuthError("the redirect comes from another authorization server than the login") from error
    if "error" in answer:
        said = " ".join(filter(None, (answer["error"], answer.get("error_description"))))
        raise OAuthError(f"the authorization server refused the login: {to_printable(said, 300)}")
    if not answer.get("code"):
        raise OAuthError("the redirect has no code")
    form = {
        "grant_type": "authorization_code",
        "code": answer["code"],
        "redirect_uri": pending.draft.redirect_uri,
        "code_verifier": pending.verifier,
    }
    return await _request_tokens(pending.draft, form, http, client_secret, scope=pending.server.scope)


async def refresh_login(login: StoredLogin, http: OAuthHttp, *, client_secret: str | None = None) -> StoredLogin:
    """Exchange the refresh token for new tokens.

    Raises:
        OAuthError: The user must log in again (`is_refused`), or the authorization server does not answer as it should.
    """
    if login.refresh_token is None:
        raise OAuthError("the access token is no longer valid, and there is no refresh token", is_refused=True)
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    return await _request_tokens(login, form, http, client_secret, scope=login.scope)


async def _request_tokens(
    login: StoredLogin, form: dict[str, str], http: OAuthHttp, client_secret: str | None, *, scope: str | None
) -> StoredLogin:
    form = {**form, "resource": login.resource}
    answer = await _post_as_client(login, login.token_endpoint, form, http, client_secret)
    tokens = _read_tokens(answer)
    now = time.time()
    seconds = tokens.expires_in
    return replace(
        login,
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or login.refresh_token,
        expires_at=None if seconds is None else now + seconds,
        refresh_at=None if seconds is None else now + max(seconds - _EARLY_SECONDS, seconds / 2),
        scope=tokens.scope or scope,
    )


async def withdraw_login(login: StoredLogin, http: OAuthHttp, *, client_secret: str | None = None) -> bool:
    """Withdraw the tokens at the authorization server (RFC 7009); return whether it did.

    Raises:
        OAuthError: It cannot be reached.
    """
    token = login.refresh_token or login.access_token
    if login.revocation_endpoint is None or not token:
        return False
    return (
        await _post_as_client(login, login.revocation_endpoint, {"token": token}, http, client_secret)
    ).status == 200


async def _post_as_client(
    login: StoredLogin, url: str, form: Mapping[str, str], http: OAuthHttp, client_secret: str | None
) -> HttpAnswer:
    secret = login.client_secret or client_secret or ""
    sent, headers = {**form, "client_id": login.client_id}, dict[str, str]()
    if login.auth_method == "client_secret_basic":
        pair = f"{quote(login.client_id, safe='')}:{quote(secret, safe='')}"
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif login.auth_method == "client_secret_post":
        sent["client_secret"] = secret
    return await http.post_form(url, sent, headers)


def _read_tokens(answer: HttpAnswer) -> OAuthToken:
    """Return the tokens of an answer; the texts of errors leave out what the server wrote beside its error code."""
    content = answer.content or {}
    if answer.status not in (200, 201):
        code = to_printable(str(content.get("error", "")), 60)
        said = f"the token endpoint answered with the status {answer.status} {code}".rstrip()
        raise OAuthError(said, is_refused=code in _NO_LONGER_VALID)
    try:
        tokens = OAuthToken.model_validate(content)
    except ValidationError:
        raise OAuthError("the token endpoint answered without a bearer token") from None  # it quotes its input
    for token in filter(None, (tokens.access_token, tokens.refresh_token)):
        if len(token) > MAX_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
            raise OAuthError("the token endpoint answered with a malformed token")
    if not tokens.access_token or (tokens.expires_in is not None and tokens.expires_in < 0):
        raise OAuthError("the token endpoint answered with a malformed token")
    return tokens


async def _register(draft: StoredLogin, server: AuthorizationServer, http: OAuthHttp) -> StoredLogin:
    endpoint = server.metadata.registration_endpoint
    if endpoint is None:
        raise OAuthError(f"{server.issuer} does not register clients; register one there, and set client_id")
    supported = server.metadata.token_endpoint_auth_methods_supported
    asked: JsonObject = {
        "client_name": "Spindle",
        "redirect_uris": [draft.redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "application_type": "native" if draft.redirect_uri.startswith("http://") else "web",
        "token_endpoint_auth_method": "none" if supported is None or "none" in supported else supported[0],
    }
    if server.scope is not None:
        asked["scope"] = server.scope
    answer = await http.post_json(str(endpoint), asked)
    if answer.status not in (200, 201) or answer.content is None:
        code = to_printable(str((answer.content or {}).get("error", "")), 60)
        raise OAuthError(f"{server.issuer} did not register the client: status {answer.status} {code}".rstrip())
    try:
        client = OAuthClientInformationFull.model_validate(answer.content)
        check_registration_usable(client)
    except (ValidationError, OAuthRegistrationError) as error:
        raise OAuthError(f"{server.issuer} registered the client in a way that cannot be used") from error
    method = client.token_endpoint_auth_method or ("none" if client.client_secret is None else "client_secret_basic")
    return replace(draft, client_id=client.client_id, client_secret=client.client_secret, auth_method=method)


def _get_revocation_endpoint(metadata: OAuthMetadata) -> str | None:
    found = None if metadata.revocation_endpoint is None else str(metadata.revocation_endpoint)
    return found if find_url_problem(found) is None else None


def _choose_method(metadata: OAuthMetadata) -> str:
    supported = metadata.token_endpoint_auth_methods_supported
    is_post_only = supported is not None and "client_secret_basic" not in supported
    return "client_secret_post" if is_post_only else "client_secret_basic"
