"""Builds one tool for each operation of an OpenAPI description; read `build_api_tools`, then `_call`."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from spindle.calls import Err, Label, Ok
from spindle.capabilities.declare import Capabilities
from spindle.capabilities.network.handle import Response
from spindle.capabilities.network.hosts import parse_url
from spindle.errors import CapabilityError, InvalidOpenApiError, InvalidToolError
from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.kit.openapi.document import PLACES, ApiDescription, ApiParameter, Operation
from spindle.kit.openapi.pagination import describe_next_page, find_page_parameters
from spindle.kit.openapi.requests import prepare_request
from spindle.kit.openapi.responses import read_response
from spindle.kit.openapi.schemas import SchemaConverter
from spindle.kit.openapi.security import Credential, add_credentials, choose_credentials
from spindle.media import Media
from spindle.text import quote_name, shorten, to_printable
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.trust.definitions import sanitise_schema
from spindle.trust.sanitise import sanitise

MAX_OPERATIONS: Final = 300
"""Limit of the tools of one description; a larger one needs a selection."""
_MAX_DESCRIPTION: Final = 4_000
_MAX_NAME: Final = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_READING: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_REPEATABLE: Final = _READING | {"PUT", "DELETE"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiTools:
    """The tools of a description, and why operations were left out."""

    tools: tuple[Tool, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Endpoint:
    """What a call needs to know of its operation."""

    operation: Operation
    base_url: str
    parameters: Mapping[str, ApiParameter]
    """The parameter of each argument."""
    credentials: tuple[Credential, ...]


def build_api_tools(
    document: Mapping[str, JsonValue],
    *,
    name: str,
    url: str | None = None,
    base_url: str | None = None,
    secrets: Mapping[str, str] | None = None,
    operations: Iterable[str] | None = None,
    exclude: Iterable[str] = (),
    requires_approval: Collection[str] = (),
    trusted: bool = False,
    output: Label | None = None,
    timeout_seconds: float = 60,
    max_result_chars: int | None = 50_000,
) -> ApiTools:
    """Build a tool `openapi__<name>__<operation id>` for each operation of a parsed description.

    `base_url` replaces the servers of the description; `url` is where the description was read. `secrets` maps
    security schemes to names of secrets. `operations` selects operations by id or by `tag:NAME`, `exclude` removes
    some; both accept patterns such as `list*`. A GET is `read_only`, a DELETE `destructive`; `output` is the
    trust label of what the API returns. Each tool reaches the host of the API only.

    Raises:
        InvalidOpenApiError: No server is known, or more than `MAX_OPERATIONS` operations are selected.
    """
    description = ApiDescription(document, url=url)
    chosen = [each for each in description.read_operations() if _is_selected(each, operations, exclude)]
    _check_count(name, len(chosen))
    problems = description.problems
    found: dict[str, Tool] = {}
    for operation in chosen:
        full_name = _build_name(name, operation.id)
        if full_name in found:
            problems.append(f"{to_printable(operation.id, 200)} is left out: the name {full_name!r} is taken")
            continue
        try:
            endpoint = _prepare(description, operation, base_url, secrets or {})
            found[full_name] = Tool(
                name=full_name,
                description=_describe(operation),
                input_schema=_build_schema(full_name, description, operation, endpoint.parameters),
                handler=partial(_call, endpoint),
                toolset=f"openapi-{name}",
                trusted=trusted,
                output=output,
                destructive=operation.method == "DELETE",
                capabilities=Capabilities(
                    network=[parse_url(endpoint.base_url).host],
                    secrets=[each.secret for each in endpoint.credentials] or None,
                ),
                timeout_seconds=timeout_seconds,
                max_result_chars=max_result_chars,
                read_only=operation.method in _READING,
                idempotent=operation.method in _REPEATABLE,
                requires_approval=_matches(operation, requires_approval),
                meta={"openapi": {"server": name, "method": operation.method, "path": operation.path}},
            )
        except (InvalidOpenApiError, InvalidToolError, CapabilityError) as error:
            problems.append(f"{to_printable(operation.id, 200)} is left out: {error}")
    return ApiTools(tools=tuple(found.values()), problems=tuple(problems))


def _check_count(name: str, count: int) -> None:
    if count > MAX_OPERATIONS:
        raise InvalidOpenApiError(
            f"the description {quote_name(name)} has {count} operations, more than {MAX_OPERATIONS}; "
            "select some with operations=[…], by id or by tag:NAME"
        )


def _is_selected(operation: Operation, wanted: Iterable[str] | None, unwanted: Iterable[str]) -> bool:
    return (wanted is None or _matches(operation, wanted)) and not _matches(operation, unwanted)


def _matches(operation: Operation, patterns: Iterable[str]) -> bool:
    words = (operation.id, *(f"tag:{tag}" for tag in operation.tags))
    return any(fnmatchcase(word, pattern) for pattern in patterns for word in words)


def _build_name(server: str, operation_id: str) -> str:
    plain = _UNSAFE.sub("_", operation_id).strip("_") or "operation"
    return f"openapi__{server}__{plain}"[:_MAX_NAME]


def _describe(operation: Operation) -> str:
    parts = [operation.summary.strip(), operation.description.strip()]
    text = "\n\n".join(dict.fromkeys(part for part in parts if part)) or f"{operation.method} {operation.path}"
    paging = find_page_parameters(operation.parameters)
    hint = f"\n\nResults come in pages; choose one with {', '.join(paging)}." if paging else ""
    return shorten(sanitise(text), _MAX_DESCRIPTION) + hint


def _prepare(
    description: ApiDescription, operation: Operation, base_url: str | None, secrets: Mapping[str, str]
) -> _Endpoint:
    place = base_url or operation.base_url
    if place is None or not place.startswith(("http://", "https://")):
        raise InvalidOpenApiError("the description names no server with an http(s) URL; set base_url")
    credentials = choose_credentials(operation, description.get_schemes(), secrets)
    if credentials is None:
        needed = " or ".join(" and ".join(each) for each in operation.security)
        raise InvalidOpenApiError(f"it needs credentials; name a secret for the security scheme {needed}")
    if credentials and base_url is None and not _is_own_server(description, place):
        raise InvalidOpenApiError(
            f"its description names the server {to_printable(place, 200)!r}, which is not where it was read; "
            "set base_url, so that a description cannot choose who gets the credentials"
        )
    # Arguments have the names of parameters; where two places share a name, the later one gets a suffix.
    names: dict[str, ApiParameter] = {}
    for parameter in sorted(operation.parameters, key=lambda each: PLACES.index(each.place)):
        taken = parameter.name in names or (parameter.name == "body" and operation.body is not None)
        names[f"{parameter.name}_{parameter.place}" if taken else parameter.name] = parameter
    return _Endpoint(operation=operation, base_url=place, parameters=names, credentials=credentials)


def _is_own_server(description: ApiDescription, place: str) -> bool:
    """Return whether a server has the origin of the URL where its description was read; a file is ours."""
    if description.url is None:
        return True
    one, other = urlsplit(description.url), urlsplit(place)
    return (one.scheme, one.netloc.lower()) == (other.scheme, other.netloc.lower())


def _build_schema(
    tool: str, description: ApiDescription, operation: Operation, parameters: Mapping[str, ApiParameter]
) -> JsonObject:
    converter = SchemaConverter(description)
    properties: JsonObject = {}
    required = [name for name, each in parameters.items() if each.is_required]
    for name, parameter in parameters.items():
        properties[name] = _add_description(converter.convert(parameter.schema), parameter.description)
    if operation.body is not None:
        properties["body"] = _add_description(converter.convert(operation.body.schema), operation.body.description)
        required += ["body"] if operation.body.is_required else []
    schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    if converter.definitions:
        schema["$defs"] = converter.definitions
    # Names and values that hide something are refused, all other texts are cleaned, as those of servers.
    return sanitise_schema(schema, tool=tool)


def _add_description(schema: JsonValue, text: str) -> JsonObject:
    given: JsonObject = dict(schema) if is_object(schema) else {}
    return given | {"description": sanitise(shorten(text, _MAX_DESCRIPTION))} if text else given


async def _call(endpoint: _Endpoint, args: JsonObject, ctx: ToolContext, _meta: object) -> Ok | Err | bytes | Media:
    operation = endpoint.operation
    request = prepare_request(operation, endpoint.base_url, endpoint.parameters, args)

    async def get_secret(name: str) -> str:
        return (await ctx.secrets.get(name)).reveal()

    await add_credentials(request, endpoint.credentials, get_secret)
    request.headers.setdefault("accept", "application/json, text/*;q=0.9, */*;q=0.5")
    response: Response = await ctx.network.request(
        request.method,
        request.get_url(),
        headers=request.headers,
        content=request.content,
        # A credential must not follow a redirect to another origin.
        same_origin=bool(endpoint.credentials),
    )
    return await read_response(response, partial(describe_next_page, endpoint.parameters, args))
