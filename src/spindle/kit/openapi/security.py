"""The credentials of an API: which security schemes an operation needs, and how each secret is sent."""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from spindle.json_types import JsonObject
from spindle.kit.openapi.document import Operation
from spindle.kit.openapi.requests import PreparedRequest

Way: TypeAlias = Literal["header", "query", "cookie", "bearer", "basic"]
GetSecret: TypeAlias = Callable[[str], Awaitable[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Credential:
    """A secret and how it is sent."""

    secret: str
    """The name of the secret."""
    way: Way
    field: str = ""
    """The name of the header, the query parameter or the cookie."""


def choose_credentials(
    operation: Operation, schemes: Mapping[str, JsonObject], secrets: Mapping[str, str]
) -> tuple[Credential, ...] | None:
    """Return the credentials of the first alternative that `secrets` (scheme → name of a secret) can serve.

    An operation without credentials needs none; `None` if no alternative can be served.
    """
    if not operation.security:
        return ()
    for alternative in operation.security:
        found = [_build_credential(schemes.get(name), secrets.get(name)) for name in alternative]
        known = [each for each in found if each is not None]
        if len(known) == len(found):
            return tuple(known)
    return None


def _build_credential(scheme: JsonObject | None, secret: str | None) -> Credential | None:
    if scheme is None or secret is None:
        return None
    kind, name = scheme.get("type"), str(scheme.get("name") or "")
    if kind == "apiKey":
        place = scheme.get("in")
        ways: dict[object, Way] = {"header": "header", "query": "query", "cookie": "cookie"}
        return Credential(secret=secret, way=ways[place], field=name) if place in ways and name else None
    if kind == "http":
        scheme_name = str(scheme.get("scheme") or "").lower()
        if scheme_name == "basic":
            return Credential(secret=secret, way="basic")
        return Credential(secret=secret, way="bearer") if scheme_name == "bearer" else None
    return Credential(secret=secret, way="bearer") if kind in {"oauth2", "openIdConnect"} else None


async def add_credentials(request: PreparedRequest, credentials: Sequence[Credential], get_secret: GetSecret) -> None:
    """Add the credentials to a request; they replace what the arguments put in the same place."""
    for each in credentials:
        # A value read from a file may end with a newline, which a header must not contain.
        value = (await get_secret(each.secret)).strip()
        match each.way:
            case "header":
                _set_header(request, each.field, value)
            case "bearer":
                _set_header(request, "authorization", f"Bearer {value}")
            case "basic":
                _set_header(request, "authorization", f"Basic {b64encode(value.encode()).decode()}")
            case "query":
                request.query[:] = [pair for pair in request.query if pair[0] != each.field] + [(each.field, value)]
            case "cookie":
                request.cookies[:] = [pair for pair in request.cookies if pair[0] != each.field] + [(each.field, value)]
    if request.cookies:
        _set_header(request, "cookie", "; ".join(f"{name}={value}" for name, value in request.cookies))


def _set_header(request: PreparedRequest, name: str, value: str) -> None:
    for given in [given for given in request.headers if given.lower() == name.lower()]:
        del request.headers[given]
    request.headers[name] = value
