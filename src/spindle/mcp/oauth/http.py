"""Requests to authorization servers: bounded, without redirects, over TLS, and to no private address by surprise."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from spindle import capabilities
from spindle.capabilities.declare import CallScope
from spindle.errors import CapabilityError, NetworkError, OAuthError
from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.mcp.login_settings import find_url_problem, get_origin

MAX_BYTES: Final = 1 << 20
TIMEOUT_SECONDS: Final = 15.0
_EVERY_ADDRESS: Final = ("0.0.0.0/0", "::/0")


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpAnswer:
    """The answer of an authorization server; `content` is `None` where it is not a JSON object."""

    status: int
    content: JsonObject | None
    challenge: str = ""
    """The header `WWW-Authenticate`."""


class OAuthHttp:
    """Sends requests for OAuth. Only the origins of `named`, which the configuration names, may be private.

    Metadata is written by others: without this check it could make the gateway reach services of its own network.
    """

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._named = {get_origin(url) for url in named}
        self._public, self._private = (
            capabilities.NetworkBackend(
                ["*"],
                private_addresses=addresses,
                max_response_bytes=MAX_BYTES,
                timeout_seconds=TIMEOUT_SECONDS,
                max_redirects=0,  # one could lead anywhere, and would carry the body of a POST along
            )
            for addresses in ((), _EVERY_ADDRESS)
        )

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> HttpAnswer:
        """Send a GET request.

        Raises:
            OAuthError: The URL is not allowed, or the server does not answer.
        """
        return await self._send("GET", url, {"accept": "application/json", **(headers or {})}, None)

    async def post_form(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """Send a form, as token endpoints expect; raises like `get`."""
        own = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
        return await self._send("POST", url, {**own, **(headers or {})}, urlencode(form).encode())

    async def post_json(self, url: str, content: JsonValue) -> HttpAnswer:
        """Send JSON, as registration endpoints expect; raises like `get`."""
        own = {"accept": "application/json", "content-type": "application/json"}
        return await self._send("POST", url, own, json.dumps(content).encode())

    async def _send(self, method: str, url: str, headers: Mapping[str, str], content: bytes | None) -> HttpAnswer:
        problem = find_url_problem(url)
        if problem is not None:
            raise OAuthError(f"the address {_shorten(url)} of an authorization server {problem}")
        backend = self._private if get_origin(url) in self._named else self._public
        network = backend.open(["*"], CallScope(tool="oauth", session_id=""))
        try:
            response = await network.request(method, url, headers=headers, content=content, same_origin=True)
            if 300 <= response.status < 400:
                raise OAuthError(f"{_shorten(url)} answered with a redirect, which is not followed")
            data = await response.bytes()
            challenge = response.headers.get("www-authenticate", "")
            return HttpAnswer(status=response.status, content=_parse(data), challenge=challenge)
        except (CapabilityError, NetworkError) as error:
            # Its own message has no secrets: neither headers nor the body are part of it.
            raise OAuthError(f"{_shorten(url)} cannot be reached: {error}") from error
        finally:
            await network.aclose()


def _parse(data: bytes) -> JsonObject | None:
    try:
        found: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if is_object(found) else None


def _shorten(url: object) -> str:
    """Return a URL for messages without its query, which may hold a code."""
    return repr(str(url).partition("?")[0][:200])
