"""Tool definitions as a provider receives them, cached per tool and dialect, and the reverse mapping for calls."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from uuid import uuid4
from weakref import WeakKeyDictionary

from spindle.bridges.dialects import Dialect
from spindle.bridges.provider_limits import NameMap, wire_name
from spindle.bridges.schema_lowering.lowering import Lowered, lower
from spindle.bridges.schema_lowering.report import Loss, LossReport, sort_losses
from spindle.bridges.schema_lowering.restore import Restorer
from spindle.bridges.schema_lowering.strict import Size, measure_size
from spindle.calls import Call, RawArgs
from spindle.errors import CannotLowerError, InvalidToolArgsError, TooManyToolsError
from spindle.events import Events
from spindle.json_types import JsonObject
from spindle.tools.arguments import read_arguments
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class Spec:
    """A tool lowered to a dialect, before the dialect wraps it in its own JSON shape."""

    name: str
    """The name sent to the provider."""
    description: str
    schema: JsonObject
    strict: bool
    """Whether the schema is in the dialect's strict form."""
    tool: Tool


Wrap: TypeAlias = Callable[[Spec], JsonObject]
"""Converts a tool to the provider's JSON shape. Must be a module-level function: it is part of a cache key."""


@dataclass(frozen=True, slots=True)
class WireDefinition:
    """One tool's definition as JSON, with the data needed to read its calls."""

    name: str
    wire_name: str
    json: bytes
    report: LossReport
    restore: Restorer | None
    strict_size: Size | None = None
    """Size of the strict schema; `None` if the schema is in its loose form."""


_cache: WeakKeyDictionary[Tool, dict[tuple[str, bool, Wrap], WireDefinition]] = WeakKeyDictionary()

_UNOBSERVED = Events()
"""Default for callers without observers: warnings only reach the log."""


@dataclass(frozen=True, slots=True)
class Definitions:
    """The definitions of a list of tools for one provider, and the way to read the calls that name them."""

    dialect: Dialect
    entries: tuple[WireDefinition, ...]
    names: NameMap
    _by_name: Mapping[str, WireDefinition] = field(repr=False, compare=False)
    """The same definitions by the tools' own names."""

    @property
    def tools(self) -> list[JsonObject]:
        """The definitions in the provider's shape, as a fresh copy."""
        return json.loads(self.json)

    @property
    def json(self) -> bytes:
        """The definitions as one JSON list; the same tools produce the same bytes in every process."""
        return b"[" + b",".join([definition.json for definition in self.entries]) + b"]"

    @property
    def reports(self) -> tuple[LossReport, ...]:
        """The loss report of each tool's schema, in the order of the tools."""
        return tuple(definition.report for definition in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, name: str) -> WireDefinition | None:
        """Return the definition of a tool by its own name."""
        return self._by_name.get(name)

    def call(self, tool_call_id: str | None, wire_name: str, args: RawArgs = None) -> Call:
        """Build the call a model requested, with the tool's own name and arguments, and a new id if it has none.

        Arguments that are not a JSON object are passed on unchanged; the executor rejects them.
        """
        name = self.names.to_own(wire_name)
        return Call(tool_call_id or new_call_id(), name, self._restore_arguments(name, args))

    def _restore_arguments(self, name: str, args: RawArgs) -> RawArgs:
        definition = self.get(name)
        if definition is None or definition.restore is None:
            return args
        try:
            return definition.restore(read_arguments(args, tool=name, empty_ok=False))
        except (InvalidToolArgsError, RecursionError):
            return args


def new_call_id() -> str:
    """Return a new unique id for a call that came without one."""
    return f"call_{uuid4().hex}"


def build(
    dialect: Dialect,
    tools: ToolRegistry | Iterable[Tool],
    wrap: Wrap,
    *,
    filter: ToolFilter | None = None,
    strict: bool = False,
    events: Events | None = None,
) -> Definitions:
    """Build the definitions of all available, visible and allowed tools, in registration order.

    Raises:
        CannotLowerError: A tool's schema cannot be expressed in the dialect.
        TooManyToolsError: There are more tools than the provider accepts.
    """
    shown = _fit_tool_limit(dialect, _select_tools(tools, filter, events), events or _UNOBSERVED)
    key = (dialect.name, strict, wrap)
    listed = tuple([_cache.get(tool, {}).get(key) or _build_definition(dialect, tool, key) for tool in shown])
    if strict and dialect.limits.max_strict_tools is not None:
        listed = _fit_strict_limits(dialect, shown, listed, wrap)
    listed = _separate_names(dialect, shown, listed, wrap)
    names = NameMap.from_pairs([(each.name, each.wire_name) for each in listed], dialect=dialect.name)
    return Definitions(dialect, listed, names, {each.name: each for each in listed})


def build_one(dialect: Dialect, tool: Tool, wrap: Wrap, *, strict: bool = False) -> WireDefinition:
    """Build the definition of one tool, whether or not it is available now.

    Raises:
        CannotLowerError: Its schema cannot be expressed in the dialect.
    """
    key = (dialect.name, strict, wrap)
    return _cache.get(tool, {}).get(key) or _build_definition(dialect, tool, key)


def _select_tools(tools: ToolRegistry | Iterable[Tool], filter: ToolFilter | None, events: Events | None) -> list[Tool]:
    registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)
    return [entry.tool for entry in registry.visible_entries(filter, events=events)]


def _fit_tool_limit(dialect: Dialect, tools: list[Tool], events: Events) -> list[Tool]:
    """Return at most as many tools as the provider accepts; artifact readers are dropped first, the newest first."""
    most = dialect.limits.max_tools
    if most is None or len(tools) <= most:
        return tools
    message = f"{dialect.name} accepts at most {most} tools, got {len(tools)}; reduce them with a ToolFilter"
    if dialect.limits.tools_limit != "refuse":
        events.warn(message, source="definitions")
        return tools
    readers, too_many = [tool.name for tool in tools if tool.is_artifact_reader], len(tools) - most
    if len(readers) < too_many:
        raise TooManyToolsError(message, dialect=dialect.name, count=len(tools), max_tools=most)
    left_out = readers[-too_many:]
    events.warn(f"{message}; omitted now: {', '.join(left_out)}", source="definitions")
    return [tool for tool in tools if tool.name not in left_out]


def _fit_strict_limits(
    dialect: Dialect, tools: list[Tool], listed: tuple[WireDefinition, ...], wrap: Wrap
) -> tuple[WireDefinition, ...]:
    """Replace strict definitions beyond the limits of one request by loose ones; earlier tools have precedence."""
    limits, fitting, used = dialect.limits, list[WireDefinition](), Size()
    most = [limits.max_strict_tools, limits.max_strict_optional, limits.max_strict_unions]
    count = 0
    for tool, each in zip(tools, listed, strict=True):
        size = each.strict_size
        if size is None:
            fitting.append(each)
            continue
        needed = [count + 1, used.optional + size.optional, used.unions + size.unions]
        if any(limit is not None and number > limit for number, limit in zip(needed, most, strict=True)):
            fitting.append(_get_loose_definition(dialect, tool, wrap))
        else:
            count, used.optional, used.unions = needed
            fitting.append(each)
    return tuple(fitting)


def _get_loose_definition(dialect: Dialect, tool: Tool, wrap: Wrap) -> WireDefinition:
    key = (f"{dialect.name} without room", False, wrap)
    known = _cache.get(tool, {}).get(key)
    if known is None:
        loose = _build_definition(dialect, tool, (dialect.name, False, wrap))
        loss = Loss(
            "", "strict", "dropped", "sent in the loose form: the request's limits for strict tools are used up"
        )
        report = replace(loose.report, losses=sort_losses([*loose.report.losses, loss]))
        known = _cache[tool][key] = replace(loose, report=report)
    return known


def _separate_names(
    dialect: Dialect, tools: list[Tool], listed: tuple[WireDefinition, ...], wrap: Wrap
) -> tuple[WireDefinition, ...]:
    """Give another name to each tool whose wire name another tool has: a valid name may look like a mapped one.

    A mapped name is kept before a valid one, so that no tool can take the name of another by listing it first.
    """
    holders: dict[str, str] = {}
    for each in sorted(listed, key=lambda each: each.wire_name == each.name):
        holders.setdefault(each.wire_name, each.name)
    if len(holders) == len(listed):
        return listed
    separate: list[WireDefinition] = []
    for tool, each in zip(tools, listed, strict=True):
        name, attempt = each.wire_name, 0
        while holders.setdefault(name, each.name) != each.name:
            attempt += 1
            name = wire_name(each.name, dialect.limits, attempt=attempt)
        key = (dialect.name, each.strict_size is not None, wrap)
        separate.append(each if not attempt else _build_definition(dialect, tool, key, name=name))
    return tuple(separate)


def _build_definition(
    dialect: Dialect, tool: Tool, key: tuple[str, bool, Wrap], *, name: str | None = None
) -> WireDefinition:
    described = tool.describe()
    _, strict, wrap = key
    try:
        lowered, strict = _lower_schema(dialect, described["input_schema"], strict=strict)
    except CannotLowerError as error:
        message = f"the schema of tool {tool.name!r} cannot be expressed in {dialect.name}: {error}"
        raise CannotLowerError(message, tool=tool.name, dialect=dialect.name, path=error.path, why=error.why) from error
    is_usual, name = name is None, name or wire_name(tool.name, dialect.limits)
    shape = wrap(Spec(name, described["description"], lowered.schema, strict, tool))
    definition = WireDefinition(
        name=tool.name,
        wire_name=name,
        json=_serialize(shape),
        report=LossReport(tool.name, dialect.name, lowered.kept, lowered.losses),
        restore=lowered.restore,
        strict_size=measure_size(lowered.schema) if strict else None,
    )
    if is_usual:
        _cache.setdefault(tool, {})[key] = definition
    return definition


def _lower_schema(dialect: Dialect, schema: JsonObject, *, strict: bool) -> tuple[Lowered, bool]:
    """Lower to the strict form if requested and possible, else to the loose form with a loss entry."""
    if not strict:
        return lower(schema, dialect.rules), False
    detail = "sent in the loose form: the dialect has no strict form"
    if dialect.strict_rules is not None:
        try:
            return lower(schema, dialect.strict_rules), True
        except CannotLowerError as error:
            detail = f"sent in the loose form: the strict form cannot express {error.path or '/'}: {error.why}"
    loose = lower(schema, dialect.rules)
    return replace(loose, losses=sort_losses([*loose.losses, Loss("", "strict", "dropped", detail)])), False


def _serialize(shape: JsonObject) -> bytes:
    text = json.dumps(shape, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        # A lone surrogate cannot be encoded as UTF-8, but can be sent as a JSON escape.
        return json.dumps(shape, allow_nan=False, separators=(",", ":")).encode()
