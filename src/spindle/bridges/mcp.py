"""The dialect of MCP: tools as a server lists them, `tools/call` requests as calls, outcomes as `CallToolResult`s.

`content` is for the model: the text the executor showed, in its envelope, and media as blocks. `structuredContent` is
for programs, without an envelope, and is included only if the tool's `outputSchema` declares it; what untrusted tools
put there is sanitised and labelled. Nothing here needs the MCP SDK: everything is plain data that its types accept, in
both current revisions of the protocol.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from spindle.bridges import dialects
from spindle.bridges.content_blocks import find_links, get_result_meta, render_blocks
from spindle.bridges.definitions import Definitions, Spec, build, new_call_id
from spindle.bridges.rendering import (
    MediaPart,
    MediaSupport,
    Part,
    TextPart,
    is_only_markers,
    render_media,
    render_result,
)
from spindle.bridges.structured_content import SHORTENED, TRUST, StructuredContent, prepare_structured
from spindle.bridges.wire import is_list, is_mapping, replace_lone_surrogates
from spindle.calls import Call, CallOutcome, Err, Ok, RawArgs
from spindle.events import Events
from spindle.json_types import JsonObject, is_array, is_object
from spindle.media.media import Media
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.trust.envelope import describe_artifact

DIALECT: Final = dialects.MCP

TITLE: Final = "mcp.title"
"""Key in a tool's `meta` for its human-readable title."""
OUTPUT_SCHEMA: Final = "mcp.output_schema"
"""Key in a tool's `meta` for the JSON Schema of its structured results, whose root must be an object."""
META: Final = "mcp.meta"
"""Key in a tool's `meta` for the `_meta` of its list entry."""
ICONS: Final = "mcp.icons"
"""Key in a tool's `meta` for the icons of its list entry."""
ANNOTATIONS: Final = "mcp.annotations"
"""Key in a tool's `meta` for the hints that an upstream server gives about it."""
UPSTREAM_HINTS: Final = "spindle/upstream-annotations"
"""Key in the `_meta` of a list entry: the hints of an untrusted server, where they differ from what is vouched for."""

WITHHELD: Final = "structured_withheld"
"""The `spindle/code` of a result whose structured content is promised, but cannot be sent."""

ArtifactUri: TypeAlias = Callable[[CallOutcome], str | None]
"""Returns the URI under which a server exposes the artifact of an outcome as a resource."""


class _Anything(MediaSupport):
    """All media: MCP can carry every type, and the client decides which its model accepts."""

    def accepts(self, media: Media) -> bool:  # noqa: ARG002  the signature is that of `MediaSupport`
        return True


ALL_MEDIA: Final[MediaSupport] = _Anything(unsupported="fallback-stash")
"""Images and audio as their own blocks, everything else as embedded resources."""


def definitions(
    tools: ToolRegistry | Iterable[Tool],
    *,
    filter: ToolFilter | None = None,
    strict: bool = False,
    events: Events | None = None,
    structured: bool = True,
) -> Definitions:
    """Return the definitions of tools as `tools/list` shows them; MCP has no strict form.

    With `structured`, tools that have an `outputSchema` declare it, and so return `structuredContent`. Only the newer
    protocol allows a schema whose root is not an object: see `narrow_definition`.

    Raises:
        CannotLowerError: A tool's schema cannot be expressed.
    """
    wrap = _define_typed if structured else _define_untyped
    return build(DIALECT, tools, wrap, filter=filter, strict=strict, events=events)


def narrow_definition(definition: JsonObject) -> JsonObject:
    """Return a definition for the older protocol, in which every `outputSchema` is one of an object."""
    schema = definition.get("outputSchema")
    if schema is None or schema.get("type") == "object":
        return definition
    return {key: value for key, value in definition.items() if key != "outputSchema"}


def calls(request: object, definitions: Definitions | None = None) -> list[Call]:
    """Return the call of a `tools/call` request, or of its params; for a list of requests, return all calls.

    The call has the id of the request, or a new id if only params are passed. Other requests contain no call.
    """
    if is_list(request):
        return [call for each in request for call in calls(each, definitions)]
    plain = _plain(request)
    if plain is None or plain.get("method", "tools/call") != "tools/call":
        return []
    is_whole = "method" in plain
    params = (_plain(plain.get("params")) or {}) if is_whole else plain
    name, args = params.get("name"), _arguments(params.get("arguments"))
    call_id, wire_name = _id(plain.get("id")) if is_whole else None, name if isinstance(name, str) else ""
    if definitions is None:
        return [Call(call_id or new_call_id(), wire_name, args)]
    return [definitions.call(call_id, wire_name, args)]


async def results(
    outcomes: Sequence[CallOutcome],
    *,
    definitions: Definitions | None = None,
    media: MediaSupport | None = None,
    fenced: bool = True,
    structured: bool | None = None,
    artifact_uri: ArtifactUri | None = None,
    max_structured_chars: int | None = None,
    any_value: bool = False,
) -> list[JsonObject]:
    """Return the `CallToolResult` of each outcome, in order.

    Without `fenced`, texts are returned as the tool wrote them, for a client that fences them itself. `structured`
    decides whether objects are also returned as `structuredContent`; `None`: if the definitions have an `outputSchema`.
    Beyond `max_structured_chars`, strings of structured content are cut, or it is left out. With `any_value` it need
    not be an object, as in the newer protocol.

    Raises:
        UnsupportedMediaError: `media` does not accept the media, and its `unsupported` is "throw".
    """
    names = {outcome.name for outcome in outcomes}
    promised = _promises(definitions, names, any_value=any_value) if structured is None else dict[str, JsonObject]()
    return [
        await _result(
            outcome,
            media or ALL_MEDIA,
            fenced=fenced,
            wants_structured=outcome.name in promised if structured is None else structured,
            schema=promised.get(outcome.name),
            uri=artifact_uri(outcome) if artifact_uri and _artifact(outcome) is not None else None,
            max_chars=max_structured_chars,
            any_value=any_value,
        )
        for outcome in outcomes
    ]


# --- definitions


def _define_typed(spec: Spec) -> JsonObject:
    schema = spec.tool.meta.get(OUTPUT_SCHEMA)
    if not is_object(schema):
        return _define_untyped(spec)
    return _sort_keys(_define_untyped(spec) | {"outputSchema": schema})


def _define_untyped(spec: Spec) -> JsonObject:
    tool = spec.tool
    title, icons = tool.meta.get(TITLE), tool.meta.get(ICONS)
    hints, meta = _hints(tool)
    definition: JsonObject = {
        "name": spec.name,
        "description": spec.description,
        # Arguments are always an object, and the protocol requires the type.
        "inputSchema": {**spec.schema, "type": "object"},
    }
    if hints:
        definition["annotations"] = hints
    if isinstance(title, str):
        definition["title"] = title
    if is_array(icons):
        definition["icons"] = icons
    own = tool.meta.get(META)
    if is_object(own) or meta:
        definition["_meta"] = {**(own if is_object(own) else {}), **meta}
    return _sort_keys(definition)


def _sort_keys(definition: JsonObject) -> JsonObject:
    order = ("name", "title", "description", "icons", "inputSchema", "outputSchema", "annotations", "_meta")
    return {key: definition[key] for key in order if key in definition}


def _hints(tool: Tool) -> tuple[JsonObject, JsonObject]:
    """Return the annotations of a tool, and what its `_meta` says about them."""
    given = tool.meta.get(ANNOTATIONS)
    if is_object(given) or tool.meta.get("mcp.server") is not None:
        return _pass_hints_on(tool, given if is_object(given) else {})
    hints = {
        "readOnlyHint": tool.read_only,
        # Tools that may write do not declare whether they only add, so assume the worst.
        "destructiveHint": not tool.read_only,
        "idempotentHint": tool.idempotent or tool.read_only,
    }
    return hints | ({"openWorldHint": True} if tool.capabilities.network else {}), {}


def _pass_hints_on(tool: Tool, given: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Pass on the hints of a server, except a claim to be read-only of a tool that is not treated as such here.

    A client trusts the gateway, and may run what is read-only without a question.
    """
    hints = {**given, "readOnlyHint": True} if tool.read_only else given
    if tool.read_only or given.get("readOnlyHint") is not True:
        return hints, {}
    hints = {name: value for name, value in given.items() if name != "readOnlyHint"}
    # To a client, a missing hint means the worst: that would say the opposite of what the server says.
    return {"destructiveHint": False, **hints}, {UPSTREAM_HINTS: given}


def _promises(definitions: Definitions | None, names: Set[str], *, any_value: bool) -> dict[str, JsonObject]:
    """Return the `outputSchema` of those tools whose definition has one."""
    if definitions is None:
        return {}
    found = {name: each for name in names if (each := definitions.get(name)) is not None}
    schemas = {name: _read_output_schema(each.json) for name, each in found.items()}
    return {
        name: schema
        for name, schema in schemas.items()
        if schema is not None and (any_value or schema.get("type") == "object")
    }


@lru_cache(maxsize=4096)
def _read_output_schema(definition: bytes) -> JsonObject | None:
    return json.loads(definition).get("outputSchema") if b'"outputSchema":' in definition else None


# --- calls


def _plain(value: object) -> Mapping[str, object] | None:
    """Return an SDK object as plain data, and plain data unchanged."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        value = dump(by_alias=True, mode="json", exclude_none=True)
    return value if is_mapping(value) else None


def _id(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


def _arguments(value: object) -> RawArgs:
    """Return the arguments of a request; a value that is not an object becomes JSON text, which executors reject."""
    if value is None:
        return {}  # the protocol allows omitting empty arguments
    if isinstance(value, str | bytes) or is_mapping(value):
        return value
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return "not JSON"


# --- results


async def _result(
    outcome: CallOutcome,
    media_support: MediaSupport,
    *,
    fenced: bool,
    wants_structured: bool,
    schema: JsonObject | None,
    uri: str | None,
    max_chars: int | None,
    any_value: bool,
) -> JsonObject:
    structured = StructuredContent()
    if wants_structured:
        structured = prepare_structured(outcome, schema, clean=fenced, max_chars=max_chars, any_value=any_value)
    content = await render_blocks(outcome, media_support, fenced=fenced)
    if content is None:
        content = await _render_text(outcome, media_support, fenced=fenced, is_marked=structured.is_present)
        content += find_links(outcome, fenced=fenced, max_chars=max_chars)
    if uri is not None:
        content.append(await _link(outcome, uri))
    if structured.problem is not None:
        content.insert(0, {"type": "text", "text": structured.problem})
    # Missing structured content is an error: a client would reject the whole result, including the text.
    is_error = not outcome.ok or (schema is not None and not structured.is_present)
    result: JsonObject = {"content": content, "isError": is_error, "resultType": "complete"}
    if structured.is_present:
        result["structuredContent"] = structured.value
    meta = get_result_meta(outcome, fenced=fenced, max_chars=max_chars) | _describe_result(outcome, structured)
    return replace_lone_surrogates(result | ({"_meta": meta} if meta else {}))


async def _render_text(
    outcome: CallOutcome, media_support: MediaSupport, *, fenced: bool, is_marked: bool
) -> list[JsonObject]:
    parts = (await render_result(outcome, media_support)).parts if fenced else await _bare(outcome, media_support)
    content = [_block(part) for part in parts]
    if is_marked:
        # A client that reads both sees which one is for its model.
        content = [{**each, "annotations": {"audience": ["assistant"]}} for each in content]
    return content


def _describe_result(outcome: CallOutcome, structured: StructuredContent) -> JsonObject:
    result = outcome.result
    if isinstance(result, Err):
        return {"spindle/code": result.code, "spindle/retryable": result.retryable}
    if structured.problem is not None:
        return {"spindle/code": WITHHELD, "spindle/retryable": False}
    meta: JsonObject = {}
    if structured.is_present and not result.trusted:
        meta[TRUST] = "untrusted"
    if structured.is_shortened:
        meta[SHORTENED] = True
    return meta


async def _bare(outcome: CallOutcome, media_support: MediaSupport) -> Sequence[Part]:
    result = outcome.result
    if isinstance(result, Err):
        return [TextPart(result.error)]
    media = await render_media(result.media, media_support, tool=outcome.name)
    if result.artifact is not None and not result.value:
        return [TextPart(describe_artifact(outcome.tool_call_id, result.artifact)), *media]
    return media if media and is_only_markers(result.value, result.media) else [TextPart(result.value), *media]


def _block(part: Part) -> JsonObject:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if part.mime_type.startswith(("image/", "audio/")):
        return {"type": part.mime_type.split("/")[0], "data": part.base64, "mimeType": part.mime_type}
    return {"type": "resource", "resource": _embed(part)}


def _embed(part: MediaPart) -> JsonObject:
    return {"uri": f"spindle://media/{quote(part.media.id, safe='')}", "mimeType": part.mime_type, "blob": part.base64}


async def _link(outcome: CallOutcome, uri: str) -> JsonObject:
    link = {"type": "resource_link", "uri": uri, "name": outcome.tool_call_id}
    try:
        return {**link, "size": await _artifact(outcome).byte_length()}
    except Exception:  # noqa: BLE001  an artifact of unknown size can still be read
        return link


def _artifact(outcome: CallOutcome) -> Any:
    return outcome.result.artifact if isinstance(outcome.result, Ok) else None
