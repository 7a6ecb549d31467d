"""Forging of reader tools, with which a model reads the artifacts of its turn.

A forged tool lists the calls it can read when it is created, and resolves them when it is called. A query that fails
raises an error; it never returns text that looks like an answer.
"""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, Protocol, cast

from spindle.artifacts.queries import UNDEFINED, Bounds, Query, get_class_queries, get_queries, render_answer
from spindle.errors import ArtifactIdCollisionError, ArtifactQueryError, InvalidContextError, SpindleError
from spindle.tools.context import HasToolContext, ToolContext, get_turn
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry
from spindle.tools.schema.base import Schema, build_schema

_NOTE_CHARS = 400


class CallWithResults(Protocol):
    """The part of a recorded call that forging uses."""

    @property
    def id(self) -> str:
        """The call's id, which the model passes to read its result."""
        ...

    @property
    def results(self) -> object:
        """Text, an artifact, media, or a sequence of items of one kind."""
        ...

    @property
    def from_artifact_tool(self) -> bool:
        """Whether a forged tool returned the result; such results cannot be read by reader tools."""
        ...


class ForgeContext(Protocol):
    """The part of a context that forging uses."""

    @property
    def tool_calls(self) -> Iterable[CallWithResults]:
        """The calls of the turn so far."""
        ...


class ReaderTool(Tool):
    """A forged tool that reads the result of another call."""

    @cached_property
    def _schema(self) -> Schema:
        # Tools are forged before every model request, mostly for the same calls as before.
        return _shared_schema(self.name, json.dumps(self.input_schema))


@lru_cache(maxsize=256)
def _shared_schema(name: str, schema: str) -> Schema:
    return build_schema(json.loads(schema), tool=name, strict=False, secret_fields=frozenset())


def forge(cls: type, ctx: ForgeContext, bounds: Bounds) -> ToolRegistry:
    """Create the tools for those queries of a class that apply to the artifacts present.

    Raises:
        InvalidContextError: `ctx` has no `tool_calls`.
        ArtifactIdCollisionError: An artifact in a list has the same address as another call.
    """
    return _forge(get_class_queries(cls), ctx, bounds)


def forge_all(ctx: ForgeContext, bounds: Bounds | None = None) -> ToolRegistry:
    """Create the tools for every artifact class that is present in a turn."""
    queries: dict[str, Query] = {}
    for artifact in collect_artifacts(ctx).values():
        queries |= get_queries(artifact)
    return _forge(queries, ctx, bounds or Bounds())


def forge_without_ids(cls: type, ctx: ForgeContext, bounds: Bounds | None = None) -> ToolRegistry:
    """Create the tools of a class's queries without listing ids: they accept any id.

    For clients that fetch the tool list only once, and where an id must be known only to the caller that received it.
    """
    return ToolRegistry(_reader_tool(asked, None, ctx, bounds or Bounds()) for asked in get_class_queries(cls).values())


def collect_artifacts(ctx: ForgeContext) -> Mapping[str, Any]:
    """Return the artifacts of a turn by address: the call's id, or `id#0`, `id#1` … if a call returned several.

    When a provider reuses an id, the later call keeps it. The artifacts of a context's `retrievables` are included,
    each under its own id.
    """
    calls = getattr(ctx, "tool_calls", None)
    if not isinstance(calls, Iterable):
        raise InvalidContextError(f"Expected a context with tool_calls, got {type(ctx).__name__}", field="ctx")
    single: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for call in cast("Iterable[CallWithResults]", calls):
        if call.from_artifact_tool:
            continue
        single.pop(call.id, None)
        parts.pop(call.id, None)
        results = call.results
        if isinstance(results, list | tuple):
            listed = cast("Sequence[object]", results)
            parts[call.id] = {f"{call.id}#{n}": item for n, item in enumerate(listed) if get_queries(item)}
        elif get_queries(results):
            single[call.id] = results
    named = _merge_addresses(single, parts)
    return named | _collect_retrieved(ctx, taken={*named, *parts})


def _collect_retrieved(ctx: ForgeContext, *, taken: Container[str]) -> dict[str, Any]:
    """Return the retrieved artifacts that are shown by handle, by id."""
    found: Iterable[Any] = getattr(ctx, "retrievables", ())
    named = {each.id: each.content for each in found if not each.inline and get_queries(each.content)}
    clash = next((address for address in named if address in taken), None)
    if clash is not None:
        raise ArtifactIdCollisionError(f"{clash!r} is the id of a call and also of a retrieved text; rename the text")
    return named


def _merge_addresses(single: dict[str, Any], parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    named = dict(single)
    for several in parts.values():
        clash = next((address for address in several if address in named), None)
        if clash is not None:
            raise ArtifactIdCollisionError(f"{clash!r} is a call's id and also one of several results; rename the call")
        named |= several
    return named


def _forge(queries: Mapping[str, Query], ctx: ForgeContext, bounds: Bounds) -> ToolRegistry:
    present = collect_artifacts(ctx)
    kinds = {address: get_queries(artifact) for address, artifact in present.items()}
    tools: list[Tool] = []
    for asked in queries.values():
        readable = [address for address, known in kinds.items() if asked.name in known]
        if readable:
            tools.append(_reader_tool(asked, readable, ctx, bounds))
    return ToolRegistry(tools)


def _reader_tool(asked: Query, readable: list[str] | None, ctx: ForgeContext, bounds: Bounds) -> ReaderTool:
    async def read(args: dict[str, Any], tool_ctx: ToolContext, _meta: Any) -> str:
        within, calls = _fit_bounds(bounds, tool_ctx.result_budget_chars), _select_context(ctx, tool_ctx)
        return await _read(asked.name, dict(args), calls, within, names_others=readable is not None)

    return ReaderTool(
        name=asked.name,
        description=asked.description,
        input_schema=_schema(asked, readable),
        handler=read,
        ephemeral=True,
        on_collision="replace",
        # They only read results the caller already received; hiding them would make truncated results unreadable.
        always_include=True,
        trusted=False,
        read_only=True,
        idempotent=True,
        # `_read` raises only errors whose messages are our own.
        expose_errors=True,
    )


def _select_context(forged_for: ForgeContext, called_in: ToolContext) -> ForgeContext:
    """Return the context to read: the calling turn's, because a reader forged in one turn must not open another.

    A tool forged for another holder of calls, such as a server's session, keeps reading that holder's calls.
    """
    turn = get_turn(called_in)
    return forged_for if turn is None or not isinstance(forged_for, HasToolContext) else cast("ForgeContext", turn)


def _schema(asked: Query, readable: list[str] | None) -> dict[str, Any]:
    call_id: dict[str, Any] = {"type": "string", "description": "The call whose result to read."}
    if readable is not None:
        call_id["enum"] = readable
    chosen = {name: _one_of(choices()) for name, choices in asked.choices.items()}
    return {
        "type": "object",
        **asked.schema,
        "properties": {"call_id": call_id, **asked.schema["properties"], **chosen},
        "required": ["call_id", *asked.schema.get("required", ())],
        "additionalProperties": False,
    }


def _one_of(texts: Sequence[str]) -> dict[str, Any]:
    return {"anyOf": [{"type": "string", "enum": list(texts)}, {"type": "null"}]}


def _fit_bounds(bounds: Bounds, budget_chars: int | None) -> Bounds:
    if budget_chars is None:
        return bounds
    # Reserve room for the note about omitted items; otherwise the note would be truncated first.
    room = max(budget_chars - _NOTE_CHARS, budget_chars // 2, 1)
    return replace(bounds, max_chars=min(bounds.max_chars, room))


async def _read(tool: str, args: dict[str, Any], ctx: ForgeContext, bounds: Bounds, *, names_others: bool) -> str:
    address = args.pop("call_id")
    artifact, asked = _resolve(tool, address, ctx, names_others=names_others)
    bound = asked.bind(args, bounds)
    try:
        value = await getattr(artifact, asked.method)(**bound)
        first = args.get("start") or args.get("start_line") or 0

        def rest(shown: int) -> str:
            return asked.rest.replace("{next}", str(first + shown))

        given = UNDEFINED if value is None and asked.none_is_absent else value
        return render_answer(given, bounds, rest=rest, render=asked.render, from_end=asked.from_end)
    except ArtifactQueryError:
        raise
    except SpindleError as error:
        raise ArtifactQueryError(str(error), tool=tool, field=error.field) from error
    except Exception as error:
        why = type(error).__name__
        raise ArtifactQueryError(
            f"{address!r} could not be read by {tool} ({why}); try another tool", tool=tool
        ) from error


def _resolve(tool: str, address: str, ctx: ForgeContext, *, names_others: bool) -> tuple[Any, Query]:
    present = collect_artifacts(ctx)
    artifact = present.get(address)
    if artifact is None:
        known = f"; there are: {', '.join(present) or 'none'}" if names_others else "; take the id from a result"
        raise ArtifactQueryError(f"no artifact with id {address!r} in this turn{known}", tool=tool, field="call_id")
    asked = get_queries(artifact).get(tool)
    if asked is None:
        kind = type(artifact).__name__
        raise ArtifactQueryError(f"{address!r} is a {kind}, which {tool} cannot read", tool=tool, field="call_id")
    return artifact, asked
