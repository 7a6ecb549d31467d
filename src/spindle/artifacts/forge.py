"""Making the tools with which a model reads the artifacts of its turn.

A forged tool names the calls it can read when it is made, and looks them up when it is called. What it cannot answer
is an error, never a text that looks like an answer.
"""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, Protocol, cast

from spindle.artifacts.queries import UNDEFINED, Bounds, Query, answer, queries_for, queries_of
from spindle.errors import ArtifactIdCollisionError, ArtifactQueryError, InvalidContextError, SpindleError
from spindle.tools.context import HasToolContext, ToolContext, turn_of
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry
from spindle.tools.schema.base import Schema, schema_of

_ROOM_FOR_A_NOTE = 400


class CallWithResults(Protocol):
    """What forging asks of a recorded call."""

    @property
    def id(self) -> str:
        """The call's id, by which the model names its result."""
        ...

    @property
    def results(self) -> object:
        """Text, an artifact, media, or a sequence of one kind."""
        ...

    @property
    def from_artifact_tool(self) -> bool:
        """Whether a forged tool gave this; such results cannot be read again."""
        ...


class ForgeContext(Protocol):
    """What forging asks of a context."""

    @property
    def tool_calls(self) -> Iterable[CallWithResults]:
        """The calls of the turn so far."""
        ...


class ReaderTool(Tool):
    """A forged tool: reads what another call gave."""

    @cached_property
    def _schema(self) -> Schema:
        # Tools are forged before each trip to the model, mostly for the same calls as before it.
        return _shared_schema(self.name, json.dumps(self.input_schema))


@lru_cache(maxsize=256)
def _shared_schema(name: str, schema: str) -> Schema:
    return schema_of(json.loads(schema), tool=name, strict=False, secret_fields=frozenset())


def forge(cls: type, ctx: ForgeContext, bounds: Bounds) -> ToolRegistry:
    """Make the tools of a class's queries that fit the artifacts present.

    Raises:
        InvalidContextError: `ctx` has no `tool_calls`.
        ArtifactIdCollisionError: One artifact of a list has the address of another call.
    """
    return _forge(queries_of(cls), ctx, bounds)


def forge_all(ctx: ForgeContext, bounds: Bounds | None = None) -> ToolRegistry:
    """Make the tools of every class that is present among the artifacts of a turn."""
    queries: dict[str, Query] = {}
    for artifact in addresses(ctx).values():
        queries |= queries_for(artifact)
    return _forge(queries, ctx, bounds or Bounds())


def forge_open(cls: type, ctx: ForgeContext, bounds: Bounds | None = None) -> ToolRegistry:
    """Make the tools of a class's queries before there is anything to read: they take any id, and name none.

    For clients that look at their list of tools once, and for places where an id is known only to whom it was given.
    """
    return ToolRegistry(_reader_tool(asked, None, ctx, bounds or Bounds()) for asked in queries_of(cls).values())


def addresses(ctx: ForgeContext) -> Mapping[str, Any]:
    """Name every artifact of a turn: by its call's id, or `id#0`, `id#1` … where a call gave several.

    When a provider uses an id twice, the later call has it. A context that has `retrievables` has their artifacts too,
    each by its own id.
    """
    calls = getattr(ctx, "tool_calls", None)
    if not isinstance(calls, Iterable):
        raise InvalidContextError(f"a {type(ctx).__name__} has no tool_calls to forge reader tools for", field="ctx")
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
            parts[call.id] = {f"{call.id}#{n}": item for n, item in enumerate(listed) if queries_for(item)}
        elif queries_for(results):
            single[call.id] = results
    named = _joined(single, parts)
    return named | _retrieved(ctx, taken={*named, *parts})


def _retrieved(ctx: ForgeContext, *, taken: Container[str]) -> dict[str, Any]:
    """Name what was found for a turn and is shown by its handle."""
    found: Iterable[Any] = getattr(ctx, "retrievables", ())
    named = {each.id: each.content for each in found if not each.inline and queries_for(each.content)}
    clash = next((address for address in named if address in taken), None)
    if clash is not None:
        raise ArtifactIdCollisionError(f"{clash!r} is the id of a call and also of a retrieved text; rename the text")
    return named


def _joined(single: dict[str, Any], parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    named = dict(single)
    for several in parts.values():
        clash = next((address for address in several if address in named), None)
        if clash is not None:
            raise ArtifactIdCollisionError(f"{clash!r} is a call's id and also one of several results; rename the call")
        named |= several
    return named


def _forge(queries: Mapping[str, Query], ctx: ForgeContext, bounds: Bounds) -> ToolRegistry:
    present = addresses(ctx)
    kinds = {address: queries_for(artifact) for address, artifact in present.items()}
    tools: list[Tool] = []
    for asked in queries.values():
        readable = [address for address, known in kinds.items() if asked.name in known]
        if readable:
            tools.append(_reader_tool(asked, readable, ctx, bounds))
    return ToolRegistry(tools)


def _reader_tool(asked: Query, readable: list[str] | None, ctx: ForgeContext, bounds: Bounds) -> ReaderTool:
    async def read(args: dict[str, Any], tool_ctx: ToolContext, _meta: Any) -> str:
        within, calls = _fitted(bounds, tool_ctx.result_budget_chars), _calls_at(ctx, tool_ctx)
        return await _read(asked.name, dict(args), calls, within, names_others=readable is not None)

    return ReaderTool(
        name=asked.name,
        description=asked.description,
        input_schema=_schema(asked, readable),
        handler=read,
        ephemeral=True,
        on_collision="replace",
        # They read what the caller was given anyway; a filter that names tools would cut results and hide the rest.
        always_include=True,
        trusted=False,
        read_only=True,
        idempotent=True,
        # Only our own sentences leave `_read`.
        expose_errors=True,
    )


def _calls_at(forged_for: ForgeContext, called_in: ToolContext) -> ForgeContext:
    """Choose whose calls are read: those of the turn that asks, for a reader forged in one turn must not open another.

    What was forged for a holder of calls that is no turn, such as a server's session, belongs to that holder.
    """
    turn = turn_of(called_in)
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


def _fitted(bounds: Bounds, budget_chars: int | None) -> Bounds:
    if budget_chars is None:
        return bounds
    # The note that says what was left out must itself fit, or it is the first thing to be cut.
    room = max(budget_chars - _ROOM_FOR_A_NOTE, budget_chars // 2, 1)
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
        return answer(given, bounds, rest=rest, render=asked.render, from_end=asked.from_end)
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
    present = addresses(ctx)
    artifact = present.get(address)
    if artifact is None:
        known = f"; there are: {', '.join(present) or 'none'}" if names_others else "; take the id from a result"
        raise ArtifactQueryError(f"no artifact with id {address!r} in this turn{known}", tool=tool, field="call_id")
    asked = queries_for(artifact).get(tool)
    if asked is None:
        kind = type(artifact).__name__
        raise ArtifactQueryError(f"{address!r} is a {kind}, which {tool} cannot read", tool=tool, field="call_id")
    return artifact, asked
