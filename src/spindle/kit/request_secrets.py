"""`http_request` with secrets: the model refers to them by name, and each is sent only to its allowed destinations."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, Field, create_model

from spindle.calls import Err, Ok
from spindle.capabilities.declare import Capabilities
from spindle.capabilities.network.hosts import HostPattern, WebAddress, parse_url
from spindle.errors import CapabilityError, HostNotAllowedError, UsageError
from spindle.json_types import JsonObject, JsonValue, untyped
from spindle.kit.web import Url, build_response_result
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.trust.flow.roles import Content, Free, Setting

_DESCRIPTION = (
    "Send an HTTP request, for example to an API, and return the status, the headers and the body of the response. "
    "A status such as 404 is a response too, not a failure of this tool. Credentials are sent by the name of a secret; "
    "a redirect to another host is then not followed but returned as the response."
)
_HTTPS_PORT = 443


class _RequestArguments(BaseModel):
    method: Annotated[
        Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
        Field(description="The HTTP method."),
        Setting(),
    ]
    url: Annotated[Url, Field(description='The full URL, such as "https://api.example.org/items?limit=5".')]
    headers: Annotated[
        dict[str, str] | None,
        Field(description='Headers to send, such as {"accept": "application/json"}.'),
        Content(),
    ] = None
    body: Annotated[
        str | JsonObject | list[JsonValue] | None,
        Field(description="Text to send as is, or an object or a list, which is sent as JSON."),
        Content(),
    ] = None


def build_http_request(secrets: Mapping[str, Iterable[str]]) -> Tool:
    """Build an `http_request` tool that can send secrets by name, each only to its own destinations.

    A destination is a host (`api.shop.example`) or its subdomains (`*.shop.example`), both over https on port 443, or a
    whole origin (`http://localhost:8080`).

    Raises:
        UsageError: A name or one of its destinations is invalid.
    """
    places = _places_of(secrets)

    async def send(args: Any, ctx: ToolContext, _meta: object) -> Ok | Err:
        uses = _uses(args)
        target = parse_url(args.url)
        for use in uses:
            if not any(place.matches(target) for place in places[use.secret]):
                raise _build_not_allowed_error(use.secret, places[use.secret], target)
        headers: dict[str, str] = dict(args.headers or {})
        twice = _find_duplicate([*headers, *(use.header for use in uses)])
        if twice is not None:
            return Err("input_invalid", f"The header {twice!r} is set twice; remove one.", field="headers")
        return await _send(args, headers, uses, ctx)

    return Tool(
        name="http_request",
        description=_DESCRIPTION,
        input_schema=_schema(places),
        handler=send,
        toolset="web",
        capabilities=Capabilities(network=["*"], secrets=list(places)),
        timeout_seconds=90,
        max_result_chars=40_000,
    )


@dataclass(frozen=True, slots=True)
class _SecretHeader:
    """A requested secret and the header to put it in."""

    header: str
    secret: str
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class _Destination:
    """A destination of a secret: an origin, or hosts over https."""

    text: str
    origin: tuple[str, str, int] | None
    hosts: HostPattern | None

    @classmethod
    def parse(cls, text: str) -> "_Destination":
        if "://" in text:
            target = parse_url(text)
            if target.path != "/":
                raise CapabilityError(f"{text!r} has a path; name an origin without one", field="secrets")
            return cls(text, target.origin, None)
        hosts = HostPattern.parse(text)
        if not hosts.suffix:
            raise CapabilityError("'*' would allow any host; name the hosts", field="secrets")
        return cls(text, None, hosts)

    def matches(self, target: WebAddress) -> bool:
        if self.hosts is None:
            return target.origin == self.origin
        return target.scheme == "https" and target.port == _HTTPS_PORT and self.hosts.matches(target.host)


def _places_of(secrets: Mapping[str, Iterable[str]]) -> dict[str, tuple[_Destination, ...]]:
    if not isinstance(untyped(secrets), Mapping) or not secrets:
        raise UsageError(
            "http_secrets: expected a mapping of secret names to hosts, such as {'SHOP_KEY': ['api.shop.example']}",
            field="secrets",
        )
    return {_check_name(name): _check_places(name, texts) for name, texts in secrets.items()}


def _check_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or "*" in name:
        raise UsageError(f"http_secrets: {name!r} is not the name of one secret", field="secrets")
    return name


def _check_places(name: str, texts: Iterable[str]) -> tuple[_Destination, ...]:
    found = () if isinstance(texts, (str, bytes)) else tuple(texts)
    if not found:
        raise UsageError(
            f"http_secrets: expected a list of the hosts that {name!r} may be sent to, got {texts!r}", field="secrets"
        )
    try:
        return tuple(_Destination.parse(text) for text in found)
    except CapabilityError as error:
        raise UsageError(f"http_secrets: {name!r} cannot be sent there: {error}", field="secrets") from error


def _schema(places: Mapping[str, tuple[_Destination, ...]]) -> type[BaseModel]:
    available = "; ".join(f"{name} (to {_format_destinations(where)})" for name, where in places.items())
    # The names are known only at run time, so the Literal cannot be written statically.
    names: Any = cast("Any", Literal)[tuple(places)]
    bearer = Field(None, description=f"Send this secret as `Authorization: Bearer …`. Available: {available}.")
    headers = Field(None, description='Headers whose values are secrets, by name, such as {"x-api-key": "<name>"}.')
    fields: JsonObject = {
        "bearer_secret": (Annotated[names | None, Free()], bearer),  # each secret has its own destinations
        "secret_headers": (Annotated[dict[str, names] | None, Content()], headers),
    }
    return create_model("http_request", __base__=_RequestArguments, **fields)


def _format_destinations(places: Iterable[_Destination]) -> str:
    return ", ".join(place.text for place in places)


def _uses(args: Any) -> list[_SecretHeader]:
    named: dict[str, str] = args.secret_headers or {}
    uses = [_SecretHeader(header, secret) for header, secret in named.items()]
    return (
        uses if args.bearer_secret is None else [*uses, _SecretHeader("authorization", args.bearer_secret, "Bearer ")]
    )


def _find_duplicate(headers: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for header in headers:
        if header.lower() in seen:
            return header
        seen.add(header.lower())
    return None


def _build_not_allowed_error(name: str, places: Iterable[_Destination], target: WebAddress) -> HostNotAllowedError:
    return HostNotAllowedError(
        f"the secret {name!r} may not be sent to {target.scheme}://{target.authority}, "
        f"only to {_format_destinations(places)} "
        "(a host means https)",
        host=target.host,
        tool="http_request",
    )


async def _send(args: Any, headers: dict[str, str], uses: Iterable[_SecretHeader], ctx: ToolContext) -> Ok:
    has_secrets = False
    for use in uses:
        # A value read from a file may end with a newline, which a header must not contain.
        value = (await ctx.secrets.get(use.secret)).reveal().strip()
        headers[use.header] = use.prefix + value
        has_secrets = True
    network = ctx.network
    is_text = isinstance(args.body, str)
    response = await network.request(
        args.method,
        args.url,
        headers=headers,
        content=args.body if is_text else None,
        json=None if is_text else args.body,
        same_origin=has_secrets,
    )
    return await build_response_result(response)
