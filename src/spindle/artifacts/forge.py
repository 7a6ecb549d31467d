"""Forging of reader tools, with which a model reads the artifacts of its turn.

A tool forged by `Artifact.forge_tools` or `forge_all` lists the calls it can read when it is created; one forged by a
`ReaderSession` lists none, so that its schema never changes. Both resolve an id when they are called. A query that
fails raises an error; it never returns text that looks like an answer.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, Protocol, cast

from spindle.artifacts.queries import UNDEFINED, Bounds, Query, get_class_queries, get_queries, render_answer
from spindle.calls import CallOutcome, Ok
from spindle.errors import ArtifactIdCollisionError, ArtifactQueryError, InvalidContextError, SpindleError
from spindle.json_types import JsonObject, is_list_or_tuple
from spindle.text import join_options, quote_name, to_printable
from spindle.tools.context import ToolContext, get_turn
from spindle.tools.declaration import Tool
from spindle.tools.invocation import HasToolContext
from spindle.tools.registry import ToolRegistry
from spindle.tools.schema.base import Schema, build_schema

_NOTE_CHARS = 400
_MAX_ID_CHARS = 200


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

    is_artifact_reader = True

    @cached_property
    def _schema(self) -> Schema:
        # Tools are forged before every model request, mostly for the same calls as before.
        return _build_shared_schema(self.name, json.dumps(self.input_schema))


@lru_cache(maxsize=256)
def _build_shared_schema(name: str, schema: str) -> Schema:
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


def can_be_read_back(outcome: CallOutcome) -> bool:
    """Return whether a call left an artifact for reader tools; what they return themselves is not read again."""
    result = outcome.result
    return isinstance(result, Ok) and result.artifact is not None and not outcome.from_artifact_tool


class ReaderSession:
    """The reader tools for the calls of one context.

    The schemas list no ids: otherwise every result would change every definition, which is compiled and serialized
    again and invalidates the model's prompt cache. An unknown id is rejected when the tool is called; the rejection
    names the existing ids unless `names_ids` is false, where clients that share the context must not learn them.
    """

    def __init__(self, ctx: ForgeContext, *, kinds: Iterable[type] = (), names_ids: bool = True) -> None:
        self._ctx = ctx
        self._names_ids = names_ids
        self._tools: dict[str, ReaderTool] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: type) -> None:
        """Forge the tools for an artifact class; a tool that already exists stays as it is."""
        for asked in get_class_queries(kind).values():
            if asked.name not in self._tools:
                self._tools[asked.name] = _build_reader(asked, None, self._ctx, Bounds(), names_ids=self._names_ids)

    def tools(self) -> list[ReaderTool]:
        """Return all tools forged so far, including those for artifacts that were added to the context since."""
        index = _get_index(self._ctx)
        index.check()
        retrieved = _collect_retrieved(self._ctx, index)
        for kind in {**index.kinds, **dict.fromkeys(artifact.__class__ for artifact in retrieved.values())}:
            self.add(kind)
        return list(self._tools.values())

    @property
    def names(self) -> list[str]:
        """The names of the tools forged so far."""
        return list(self._tools)

    def can_read(self, name: str) -> bool:
        """Return whether the context has an artifact that the tool of this name can read."""
        return any(name in get_queries(artifact) for artifact in collect_artifacts(self._ctx).values())

    def extend(self, base: ToolRegistry) -> ToolRegistry:
        """Return a copy of a registry with the tools whose names are not registered."""
        extended = base.copy()
        for reader in self.tools():
            if reader.name not in extended:
                extended.register(reader)
        return extended


class ArtifactIndex:
    """The artifacts of calls by address: the call's id, or `id#0`, `id#1` … if a call returned several.

    When a provider reuses an id, the later call keeps it. A context with many calls keeps one as `artifact_index` and
    adds each new call, so that readers look at no call twice.
    """

    def __init__(self, calls: Iterable[CallWithResults] = ()) -> None:
        self._single: dict[str, object] = {}
        self._several: dict[str, dict[str, object]] = {}
        """By the id of the call that returned them."""
        self._items: dict[str, object] = {}
        """The artifacts of calls that returned several."""
        self._clashes: set[str] = set()
        self.kinds: dict[type, None] = {}
        """The classes of the artifacts so far, in order."""
        for call in calls:
            self.add(call)

    def add(self, call: CallWithResults) -> None:
        """Add the artifacts of a call."""
        if call.from_artifact_tool:
            return
        self._remove(call.id)
        results = call.results
        if is_list_or_tuple(results):
            items = {f"{call.id}#{n}": item for n, item in enumerate(results) if get_queries(item)}
            self._several[call.id] = items
            self._items |= items
            self._clashes |= items.keys() & self._single.keys()
            self.kinds |= dict.fromkeys(item.__class__ for item in items.values())
        elif get_queries(results):
            self._single[call.id] = results
            if call.id in self._items:
                self._clashes.add(call.id)
            self.kinds[results.__class__] = None

    def _remove(self, id: str) -> None:
        if self._single.pop(id, None) is not None:
            self._clashes.discard(id)
        for address in self._several.pop(id, ()):
            del self._items[address]
            self._clashes.discard(address)

    def get(self, address: str) -> object | None:
        """Return the artifact with this address.

        Raises:
            ArtifactIdCollisionError: An artifact in a list has the same address as another call.
        """
        self.check()
        return self._single.get(address, self._items.get(address))

    def all(self) -> dict[str, object]:
        """Return the artifacts by address, those of calls that returned several last.

        Raises:
            ArtifactIdCollisionError: An artifact in a list has the same address as another call.
        """
        self.check()
        return {**self._single, **self._items}

    def has(self, id: str) -> bool:
        """Return whether an id is an address, or that of a call that returned several results."""
        return id in self._single or id in self._items or id in self._several

    def check(self) -> None:
        """Check that no two artifacts have the same address.

        Raises:
            ArtifactIdCollisionError: An artifact in a list has the same address as another call.
        """
        if self._clashes:
            clash = min(self._clashes)
            raise ArtifactIdCollisionError(f"{clash!r} is a call's id and also one of several results; rename the call")


def collect_artifacts(ctx: ForgeContext) -> Mapping[str, object]:
    """Return the artifacts of a turn by address; those of a context's `retrievables` are included, each under its id.

    Raises:
        InvalidContextError: `ctx` has no `tool_calls`.
        ArtifactIdCollisionError: Two artifacts have the same address.
    """
    index = _get_index(ctx)
    return index.all() | _collect_retrieved(ctx, index)


def _get_index(ctx: ForgeContext) -> ArtifactIndex:
    """Return the index that a context keeps, or that of its calls."""
    kept = getattr(ctx, "artifact_index", None)
    if isinstance(kept, ArtifactIndex):
        return kept
    calls: Iterable[CallWithResults] | None = getattr(ctx, "tool_calls", None)
    if not isinstance(calls, Iterable):
        raise InvalidContextError(f"Expected a context with tool_calls, got {type(ctx).__name__}", field="ctx")
    return ArtifactIndex(calls)


def _collect_retrieved(ctx: ForgeContext, index: ArtifactIndex) -> dict[str, object]:
    """Return the retrieved artifacts that are shown by handle, by id."""
    found: Iterable[Any] = getattr(ctx, "retrievables", ())
    named = {each.id: each.content for each in found if not each.inline and get_queries(each.content)}
    clash = next(filter(index.has, named), None)
    if clash is not None:
        raise ArtifactIdCollisionError(f"{clash!r} is the id of a call and also of a retrieved text; rename the text")
    return named


def _forge(queries: Mapping[str, Query], ctx: ForgeContext, bounds: Bounds) -> ToolRegistry:
    present = collect_artifacts(ctx)
    kinds = {address: get_queries(artifact) for address, artifact in present.items()}
    tools: list[Tool] = []
    for asked in queries.values():
        readable = [address for address, known in kinds.items() if asked.name in known]
        if readable:
            tools.append(_build_reader(asked, readable, ctx, bounds, names_ids=True))
    return ToolRegistry(tools)


def _build_reader(
    asked: Query, readable: list[str] | None, ctx: ForgeContext, bounds: Bounds, *, names_ids: bool
) -> ReaderTool:
    async def read(args: JsonObject, tool_ctx: ToolContext, _meta: object) -> str:
        within, calls = _fit_bounds(bounds, tool_ctx.result_budget_chars), _select_context(ctx, tool_ctx)
        return await _read(asked.name, dict(args), calls, within, names_ids=names_ids)

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


def _schema(asked: Query, readable: list[str] | None) -> JsonObject:
    call_id: JsonObject = {"type": "string"}
    chosen: JsonObject = {}
    # A list of values costs tokens on every trip, and changes; without it the handler names them when it refuses one.
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


def _one_of(texts: Sequence[str]) -> JsonObject:
    return {"anyOf": [{"type": "string", "enum": list(texts)}, {"type": "null"}]}


def _fit_bounds(bounds: Bounds, budget_chars: int | None) -> Bounds:
    if budget_chars is None:
        return bounds
    # Reserve room for the note about omitted items; otherwise the note would be truncated first.
    room = max(budget_chars - _NOTE_CHARS, budget_chars // 2, 1)
    return replace(bounds, max_chars=min(bounds.max_chars, room))


async def _read(tool: str, args: JsonObject, ctx: ForgeContext, bounds: Bounds, *, names_ids: bool) -> str:
    address = args.pop("call_id")
    artifact, asked = _resolve(tool, address, ctx, names_ids=names_ids)
    try:
        value = await asked.run(artifact, args, bounds)
        first = args.get("start") or args.get("start_line") or 0

        def rest(shown: int) -> str:
            return asked.rest.replace("{next}", str(first + shown))

        given = UNDEFINED if value is None and asked.none_is_absent else value
        read_on = asked.read_on(args, bounds) if asked.read_on else None
        return render_answer(given, bounds, rest=rest, render=asked.render, from_end=asked.from_end, read_on=read_on)
    except ArtifactQueryError:
        raise
    except SpindleError as error:
        raise ArtifactQueryError(str(error), tool=tool, field=error.field) from error
    except Exception as error:
        why = type(error).__name__
        raise ArtifactQueryError(
            f"{address!r} could not be read by {tool} ({why}); try another tool", tool=tool
        ) from error


def _resolve(tool: str, address: str, ctx: ForgeContext, *, names_ids: bool) -> tuple[object, Query]:
    index = _get_index(ctx)
    artifact = index.get(address)
    if artifact is None:
        artifact = _collect_retrieved(ctx, index).get(address)
    if artifact is None:
        known = f"there are: {_list_ids(tool, collect_artifacts(ctx))}" if names_ids else "take the id from a result"
        message = f"no artifact with id {quote_name(address)} in this turn; {known}"
        raise ArtifactQueryError(message, tool=tool, field="call_id")
    asked = get_queries(artifact).get(tool)
    if asked is None:
        kind = type(artifact).__name__
        raise ArtifactQueryError(f"{address!r} is a {kind}, which {tool} cannot read", tool=tool, field="call_id")
    return artifact, asked


def _list_ids(tool: str, present: Mapping[str, object]) -> str:
    """List the ids that a tool can read, the newest first; a long list is cut."""
    readable = [address for address, artifact in present.items() if tool in get_queries(artifact)]
    return join_options(f"'{to_printable(address, _MAX_ID_CHARS)}'" for address in reversed(readable)) or "none"
