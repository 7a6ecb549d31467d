"""The streamable HTTP transport: no redirects, bounded responses, and credentials resolved for each request."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx2
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client

from spindle.errors import LoginRequiredError, OAuthError, SpindleError
from spindle.mcp.client.lifecycle import UserTokens
from spindle.mcp.client.link import MAX_MESSAGE_BYTES, ErrorMarker, LinkFailure
from spindle.mcp.client.running_calls import get_current_headers
from spindle.mcp.oauth.challenges import parse_challenge
from spindle.mcp.spec import ServerSpec

LIMITED_TIMEOUT = httpx2.Timeout(30.0, connect=10.0, read=None)
"""No read timeout: a call's own deadline limits how long a response may take."""
_LIMITS = httpx2.Limits(max_connections=512, max_keepalive_connections=64)
_NOT_UNDERSTOOD = frozenset((400, 404, 405))
"""How servers of the older HTTP+SSE transport answer a POST to the address of their stream."""
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)

Resolve = Callable[[str], Awaitable[str]]
"""Returns the value of a secret by its name."""


class HttpLink:
    """The streamable HTTP link."""

    is_older = False

    def __init__(self, spec: ServerSpec, resolve: Resolve, tokens: UserTokens | None = None) -> None:
        self.tokens = tokens
        self.error_marker = ErrorMarker()
        self.broken = anyio.Event()
        self._spec = spec
        self._resolve = resolve
        self.refused_status: int | None = None
        """The status of the last POST that was not understood as one of this transport."""

    def describe_exit(self) -> str:
        """Return an empty string: a remote server has no stderr here."""
        return ""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any, None]:
        """Connect and yield the message streams."""
        url = self._spec.url or ""
        guarded = build_guarded_transport(url, self)
        async with (
            httpx2.AsyncClient(transport=guarded, timeout=LIMITED_TIMEOUT, headers=self._spec.headers) as client,
            streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
        ):
            yield streams

    async def resolve_credentials(self) -> dict[str, str]:
        """Resolve the headers that hold secrets; a bare token for Authorization is sent as a bearer token."""
        found: dict[str, str] = {}
        for header, name in self._spec.header_secrets.items():
            value = await self._resolve(name)
            is_bare = header.lower() == "authorization" and " " not in value.strip()
            found[header] = f"Bearer {value.strip()}" if is_bare else value
        return found


def build_guarded_transport(url: str, link: HttpLink) -> httpx2.AsyncBaseTransport:
    """Return the transport of a link, which sends its credentials and checks each response."""
    return _ErrorResponseTransport(_transport_to(url), link)


def _transport_to(url: str) -> httpx2.AsyncHTTPTransport:
    parts = httpx2.URL(url)
    proxy = None if proxy_bypass(parts.host) else getproxies().get(parts.scheme)
    return httpx2.AsyncHTTPTransport(limits=_LIMITS, proxy=proxy)


class _ErrorResponseTransport(httpx2.AsyncBaseTransport):
    """A transport that turns the failure of a request into an error response, so that other requests go on."""

    def __init__(self, inner: httpx2.AsyncHTTPTransport, link: HttpLink) -> None:
        self._inner = inner
        self._link = link

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            request.headers.update(await self._link.resolve_credentials())
            request.headers.update(get_current_headers())
            token = await self._authorize(request)
        except (LoginRequiredError, OAuthError) as error:
            return self._build_error_response(request, "refused", str(error))
        except SpindleError as error:
            return self._build_error_response(request, "undelivered", f"a secret it needs cannot be resolved: {error}")
        except ValueError:
            return self._build_error_response(request, "undelivered", "a secret it needs is not a valid header value")
        # The size limit counts bytes on the wire, and a small compressed body could expand without bound.
        request.headers["accept-encoding"] = "identity"
        try:
            response = await self._inner.handle_async_request(request)
            if token is not None and response.status_code == 401:
                response = await self._send_again(request, response, token)
        except (LoginRequiredError, OAuthError) as error:
            return self._build_error_response(request, "refused", str(error))
        except _NEVER_SENT as error:
            return self._build_error_response(request, "undelivered", f"it cannot be reached ({type(error).__name__})")
        except httpx2.TransportError as error:
            return self._build_error_response(request, "lost", f"the connection was lost ({type(error).__name__})")
        return await self._check_response(request, response)

    async def _authorize(self, request: httpx2.Request) -> str | None:
        """Set the token of the connection's user, whatever other headers say; return it."""
        if self._link.tokens is None:
            return None
        token = await self._link.tokens.get()
        request.headers["authorization"] = f"Bearer {token}"
        return token

    async def _send_again(self, request: httpx2.Request, response: httpx2.Response, token: str) -> httpx2.Response:
        """Send a request that was rejected for its token, and so not run, once more with a new one."""
        await response.aclose()
        if self._link.tokens is not None:
            request.headers["authorization"] = f"Bearer {await self._link.tokens.renew(token)}"
        return await self._inner.handle_async_request(request)

    async def _check_response(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        verdict: tuple[LinkFailure, str] | None = None
        if request.method == "POST" and response.status_code in _NOT_UNDERSTOOD:
            self._link.refused_status = response.status_code
        if 300 <= response.status_code < 400:
            verdict = "refused", f"it answered with a redirect ({response.status_code}); set url to the final address"
        elif response.status_code in (401, 403):
            verdict = "refused", self._explain_rejection(response)
        elif response.status_code == 404 and MCP_SESSION_ID in request.headers:
            verdict = "gone", "it no longer knows our session"
        elif response.headers.get("content-encoding", "identity").lower() != "identity":
            verdict = "refused", "it answered with a compression that was not requested"
        if verdict is not None:
            await response.aclose()
            return self._build_error_response(request, *verdict)
        # An event stream may last for hours; the SDK limits the size of each event.
        is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        response.stream = _BoundedStream(response.stream, None if is_events else MAX_MESSAGE_BYTES)
        return response

    def _explain_rejection(self, response: httpx2.Response) -> str:
        if self._link.tokens is None:
            return f"it rejected our credentials ({response.status_code}); check header_secrets"
        wanted = parse_challenge(response.headers.get("www-authenticate", ""))
        if wanted.error == "insufficient_scope" and wanted.scope is not None:
            return f"the login lacks scopes; add {wanted.scope!r:.200} to its oauth scopes, and log in again"
        return f"it rejected the user's token ({response.status_code}); log in again"

    def _build_error_response(self, request: httpx2.Request, trouble: LinkFailure, message: str) -> httpx2.Response:
        body = self._link.error_marker.build_body(trouble, message)
        return httpx2.Response(502, headers={"content-type": "application/json"}, content=body, request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    """A body with a size limit, which raises an error the SDK handles when it is too long or interrupted."""

    def __init__(self, inner: Any, max_bytes: int | None) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        try:
            async for chunk in self._inner:
                seen += len(chunk)
                if self._max_bytes is not None and seen > self._max_bytes:
                    raise httpx2.StreamError(f"its answer is larger than the limit of {self._max_bytes} bytes")
                yield chunk
        except httpx2.TransportError as error:
            raise httpx2.StreamError(f"the connection was lost ({type(error).__name__})") from error

    async def aclose(self) -> None:
        await self._inner.aclose()
