"""Finding the authorization server of an upstream server, with every step checked: an upstream may be hostile."""

from dataclasses import dataclass
from typing import Final

from mcp.client.auth.exceptions import OAuthFlowError
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    get_client_metadata_scopes,
    issuers_match,
    validate_metadata_issuer,
)
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import ValidationError

from spindle.errors import OAuthError
from spindle.json_types import JsonObject
from spindle.mcp.login_settings import LoginSettings, find_url_problem, get_origin
from spindle.mcp.oauth.challenges import Challenge, parse_challenge
from spindle.mcp.oauth.http import OAuthHttp

_PROBE: Final[JsonObject] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_MAX_SCOPE_CHARS: Final = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorizationServer:
    """The authorization server of an upstream server, and what to ask it for."""

    metadata: OAuthMetadata
    issuer: str
    resource: str
    """What tokens are to be bound to (RFC 8707)."""
    scope: str | None


async def discover(url: str, settings: LoginSettings, http: OAuthHttp) -> AuthorizationServer:
    """Find the authorization server of an upstream server.

    Raises:
        OAuthError: There is none, it is not the configured one, or its metadata is wrong.
    """
    challenge = await _probe(url, http)
    protected = await _find_protected_resource(url, challenge, http)
    issuer = _choose_issuer(url, protected, settings)
    metadata = await _read_metadata(issuer, http)
    resource = resource_url_from_server_url(url) if protected is None else str(protected.resource)
    scope = " ".join(settings.scopes) or get_client_metadata_scopes(
        challenge.scope, protected, metadata, ["authorization_code", "refresh_token"]
    )
    if scope is not None and len(scope) > _MAX_SCOPE_CHARS:
        raise OAuthError(f"{url} asks for too many scopes; set scopes")
    return AuthorizationServer(metadata=metadata, issuer=str(metadata.issuer), resource=resource, scope=scope or None)


async def _probe(url: str, http: OAuthHttp) -> Challenge:
    """Send a request without a token, to learn where to get one."""
    try:
        answer = await http.post_json(url, _PROBE)
    except OAuthError:
        return Challenge()  # the well-known addresses may still answer
    return parse_challenge(answer.challenge) if answer.status == 401 else Challenge()


async def _find_protected_resource(url: str, challenge: Challenge, http: OAuthHttp) -> ProtectedResourceMetadata | None:
    named = challenge.resource_metadata
    if named is not None and (find_url_problem(named) is not None or get_origin(named) != get_origin(url)):
        named = None  # a server describes itself, not another one
    for address in build_protected_resource_metadata_discovery_urls(named, url):
        answer = await http.get(address)
        if answer.status >= 500 or answer.status == 429:
            raise OAuthError(f"{address} answered with the status {answer.status}; try again later")
        if answer.status != 200 or answer.content is None:
            continue
        try:
            found = ProtectedResourceMetadata.model_validate(answer.content)
        except ValidationError:
            continue
        if not check_resource_allowed(resource_url_from_server_url(url), str(found.resource)):
            raise OAuthError(f"{address} describes another resource than {url}")
        return found
    return None


def _choose_issuer(url: str, protected: ProtectedResourceMetadata | None, settings: LoginSettings) -> str:
    if protected is None:
        scheme, host, port = get_origin(url)
        shown = f"[{host}]" if ":" in host else host
        # The revision of 2025-03-26 had the authorization server at the origin of the resource.
        return settings.issuer or f"{scheme}://{shown}:{port}"
    listed = [str(each) for each in protected.authorization_servers]
    if settings.issuer is None:
        return listed[0]
    if not any(issuers_match(each, settings.issuer) for each in listed):
        raise OAuthError(f"{url} does not use the configured issuer {settings.issuer}")
    return settings.issuer


async def _read_metadata(issuer: str, http: OAuthHttp) -> OAuthMetadata:
    problem = find_url_problem(issuer, can_have_query=False)
    if problem is not None:
        raise OAuthError(f"the issuer {issuer[:200]!r} {problem}")
    for address in build_oauth_authorization_server_metadata_discovery_urls(issuer, issuer):
        answer = await http.get(address)
        if answer.status != 200 or answer.content is None:
            continue
        try:
            found = OAuthMetadata.model_validate(answer.content)
        except ValidationError as error:
            raise OAuthError(f"the metadata at {address} is invalid") from error
        try:
            own = str(found.issuer)
            validate_metadata_issuer(found, own if issuers_match(own, issuer) else issuer)
        except OAuthFlowError as error:
            raise OAuthError(f"the metadata at {address} is that of another issuer") from error
        _check_metadata(found, address)
        return found
    raise OAuthError(f"{issuer} has no metadata of an authorization server")


def _check_metadata(metadata: OAuthMetadata, address: str) -> None:
    endpoints = (metadata.authorization_endpoint, metadata.token_endpoint, metadata.registration_endpoint)
    for endpoint in endpoints:
        problem = None if endpoint is None else find_url_problem(str(endpoint))
        if problem is not None:
            raise OAuthError(f"the metadata at {address} has an endpoint that {problem}")
    if "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise OAuthError(f"the authorization server at {address} does not support PKCE with S256")
