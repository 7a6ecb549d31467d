"""Converts a server's tools into ours and keeps their registrations in line with its latest listing."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Protocol, cast

from spindle.bridges.structured_content import allow_any_root
from spindle.calls import Err, Ok
from spindle.errors import InvalidToolArgsError, InvalidToolError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.mcp.client.definition_extras import collect_extras
from spindle.mcp.client.resource_uris import UriMapping
from spindle.mcp.lock.quarantine import CheckedListing, DefinitionGuard
from spindle.mcp.spec import ServerSpec
from spindle.mcp.tool_settings import get_tool_settings, list_unknown
from spindle.text import escape_invisible, to_printable
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry
from spindle.tools.schema.base import Problem
from spindle.tools.schema.json_schema import RawSchema
from spindle.trust.definitions import MAX_TITLE_CHARS, DefinitionTexts, sanitise_definition, sanitise_text

if TYPE_CHECKING:
    from mcp_types import Tool as ForeignTool


_OLD, _NEW = "#/definitions/", "#/$defs/"
_NAMED = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"))
_DATA = frozenset(("enum", "const", "default", "examples", "example"))
_MAX_DEPTH = 200


def rename_definitions(schema: Mapping[str, JsonValue]) -> JsonObject:
    """Return the schema with `definitions` at its root renamed to `$defs`, and its references rewritten.

    A schema that also has `$defs` is returned unchanged, as is a subschema with its own `$id`.
    """
    if not is_object(schema.get("definitions")) or "$defs" in schema:
        return dict(schema)
    moved = {"$defs" if key == "definitions" else key: value for key, value in schema.items()}
    return _rewrite_refs(moved, 0)


def _rewrite_refs(node: JsonValue, depth: int) -> JsonValue:
    if depth > _MAX_DEPTH:
        return node  # the schema's own validation rejects it
    if is_array(node):
        return [_rewrite_refs(each, depth + 1) for each in node]
    if not is_object(node):
        return node
    if depth and ("$id" in node or ("id" in node and isinstance(node["id"], str))):
        return dict(node)
    return {key: _keyword(key, value, depth) for key, value in node.items()}


def _keyword(key: str, value: JsonValue, depth: int) -> JsonValue:
    if key == "$ref" and isinstance(value, str) and value.startswith(_OLD):
        return _NEW + value.removeprefix(_OLD)
    if key in _DATA:
        return value
    if key in _NAMED and is_object(value):
        return {name: _rewrite_refs(each, depth + 1) for name, each in value.items()}
    return _rewrite_refs(value, depth + 1)


OutputCheck = Callable[[JsonValue, bool], str | None]


def build_output_check(schema: Mapping[str, JsonValue], *, tool: str) -> OutputCheck:
    """Return a function that checks structured content and returns the problem, or `None`.

    Raises:
        InvalidToolError: The schema is invalid, or validation would be too costly.
    """
    try:
        validate = RawSchema(allow_any_root(dict(schema)), tool=tool).validate
    except InvalidToolError as error:
        reason = str(error.__cause__ or error)
        raise InvalidToolError(f"its output schema {reason}", tool=tool, field="output_schema") from error

    def check(value: JsonValue, is_given: bool) -> str | None:  # noqa: FBT001  both describe one value
        if not is_given:
            return f"The tool {tool!r} declares an output schema, but returned no structured content."
        try:
            validate(value)
        except InvalidToolArgsError as error:
            said = "; ".join(_describe_problem(problem) for problem in cast("tuple[Problem, ...]", error.problems)[:5])
            return f"The tool {tool!r} returned structured content that does not match its output schema: {said}"
        return None

    return check


def _describe_problem(problem: Problem) -> str:
    where = f"{problem.path}: " if problem.path else ""
    return f"{where}expected {problem.expected}, received {problem.received}"


TOOLSET = "mcp"
_RESERVED = ("mcp__", "artifact_", "openapi__")
_MAX_NAME = 200

Warn = Callable[[str], None]


class Availability(Protocol):
    """The availability check of a server's tools."""

    def __call__(self) -> bool:
        """Return whether they can be called now."""
        ...

    def why(self) -> str:
        """Return why they cannot be called."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class UpstreamCall:
    """One call to an upstream server."""

    tool: str
    """The server's own name of the tool."""
    args: JsonObject
    ctx: ToolContext
    is_repeatable: bool
    """Whether the call may be sent twice: its tool is known to be idempotent."""
    check_output: OutputCheck | None
    timeout_seconds: float = 60


Forward = Callable[[UpstreamCall], Awaitable[Ok | Err]]


def full_name(spec: ServerSpec, bare: str) -> str:
    """Return the name of a server's tool or prompt here."""
    return f"mcp__{spec.name}__{bare}" if spec.prefix else bare


def is_reserved_name(name: str) -> bool:
    """Return whether a name looks like one of another server, an API or an artifact reader: no server may take it."""
    return name.startswith(_RESERVED)


def make_tool(spec: ServerSpec, foreign: "ForeignTool", forward: Forward, available: Availability, warn: Warn) -> Tool:
    """Build a `Tool` from a server's definition; its annotations count only if the server is trusted.

    Raises:
        InvalidToolError: Its input schema is invalid, validation would be too costly, or a name or value of its
            contract hides something.
    """
    check = _output_check_of(foreign, warn)
    foreign = _sanitise(foreign if check is not None else foreign.model_copy(update={"output_schema": None}))
    bare = foreign.name
    settings = get_tool_settings(spec.tool_settings, bare)
    hints = foreign.annotations
    read_only = spec.trusted and hints is not None and hints.read_only_hint is True
    idempotent = read_only or (spec.trusted and hints is not None and hints.idempotent_hint is True)

    seconds = settings.timeout_seconds or spec.timeout_seconds

    async def handler(args: JsonObject, ctx: ToolContext, _meta: object) -> Ok | Err:
        wanted = UpstreamCall(tool=bare, args=args, ctx=ctx, is_repeatable=idempotent, check_output=check)
        return await forward(replace(wanted, timeout_seconds=seconds))

    return Tool(
        name=full_name(spec, bare),
        description=_description(foreign),
        input_schema=rename_definitions(foreign.input_schema),
        handler=handler,
        meta={"mcp": _about(spec, foreign, is_checked=check is not None)},
        trusted=spec.trusted,
        toolset=TOOLSET,
        max_result_chars=settings.max_result_chars or spec.max_result_chars,
        is_available=available,
        timeout_seconds=seconds,
        requires_approval=settings.requires_approval is True,
        read_only=read_only,
        # Only a hint that makes a policy stricter counts from a server that is not trusted.
        destructive=not read_only and hints is not None and hints.destructive_hint is True,
        idempotent=idempotent,
    )


def _output_check_of(foreign: "ForeignTool", warn: Warn) -> OutputCheck | None:
    if foreign.output_schema is None:
        return None
    try:
        return build_output_check(foreign.output_schema, tool=foreign.name)
    except InvalidToolError as error:
        warn(f"the results of its tool {quote_name(foreign.name)} are not checked: {error}")
        return None


def _sanitise(foreign: "ForeignTool") -> "ForeignTool":
    """Return the definition with all texts sanitised, before anything of it is shown."""
    clean = sanitise_definition(
        DefinitionTexts(
            name=foreign.name,
            title=foreign.title,
            description=foreign.description,
            input_schema=foreign.input_schema,
            output_schema=foreign.output_schema,
        )
    )
    hints = foreign.annotations
    if hints is not None and hints.title is not None:
        hints = hints.model_copy(update={"title": sanitise_text(hints.title, MAX_TITLE_CHARS)})
    texts = {each.name: getattr(clean, each.name) for each in fields(clean)}
    return foreign.model_copy(update={**texts, "annotations": hints})


def _description(foreign: "ForeignTool") -> str:
    text = foreign.description if (foreign.description or "").strip() else None
    return text or foreign.title or foreign.name


def _about(spec: ServerSpec, foreign: "ForeignTool", *, is_checked: bool) -> JsonObject:
    extras = collect_extras(foreign, UriMapping(spec.name, is_prefixed=spec.prefix))
    about: JsonObject = {"server": spec.name, "tool": foreign.name, "title": foreign.title, **extras}
    if is_checked:
        about["output_schema"] = foreign.output_schema
    return {key: value for key, value in about.items() if value is not None}


def to_definition(foreign: "ForeignTool") -> JsonObject:
    """Return a definition as its server listed it."""
    return foreign.model_dump(mode="json", by_alias=True, exclude_unset=True)


def quote_name(name: str) -> str:
    """Quote a server-provided name for a warning."""
    return repr(to_printable(escape_invisible(name), _MAX_NAME))


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A tool of a listing, ready to be registered."""

    listed: str
    """The definition as its server listed it, to detect changes."""
    tool: Tool | None
    problem: str | None = None
    """Why it is not offered."""

    @property
    def was_withheld(self) -> bool:
        """Whether the lock withheld it, so that it was not converted."""
        return self.tool is None and self.problem is None


@dataclass(frozen=True, slots=True)
class PreparedListing:
    """A listing of which every new or changed definition was converted."""

    candidates: dict[str, _Candidate]
    refused: dict[str, str]
    warnings: list[str]
    checked: CheckedListing | None = None
    """What the lock says; `None` if the listing was checked before."""


class ServerTools:
    """The registered tools of one server."""

    def __init__(self, spec: ServerSpec, registry: ToolRegistry, warn: Warn, guard: DefinitionGuard) -> None:
        self._spec = spec
        self._guard = guard
        self._registry = registry
        self._warn = warn
        self._known: dict[str, _Candidate] = {}
        """The tools of the last listing by their own names, also those that cannot be offered."""
        self._registered: dict[str, Tool] = {}
        self._rejected: dict[str, str] = {}
        """Why tools are not offered, so that each problem is reported once."""

    def __len__(self) -> int:
        return len(self._registered)

    def get_listed(self) -> list[JsonObject]:
        """Return the definitions of the last listing as the server wrote them: nothing in them is sanitised."""
        return [json.loads(each.listed) for each in self._known.values()]

    def prepare(self, foreign: Sequence["ForeignTool"], make: Callable[["ForeignTool", Warn], Tool]) -> PreparedListing:
        """Convert what is new or changed in a listing; changes nothing, so it may run in a thread."""
        checked = self._guard.check("tool", [to_definition(each) for each in foreign])
        wanted, refused = self._select_tools(foreign)
        warnings: list[str] = []
        known = self._known
        candidates: dict[str, _Candidate] = {}
        for bare, each in wanted.items():
            listed = json.dumps(each.model_dump(mode="json", by_alias=True, exclude_none=True), sort_keys=True)
            if checked.is_withheld(bare):
                candidates[bare] = _Candidate(listed, None)
                continue
            row = known.get(bare)
            if row is not None and row.listed == listed and not row.was_withheld:
                candidates[bare] = row
                continue
            try:
                candidates[bare] = _Candidate(listed, make(each, warnings.append))
            except InvalidToolError as error:
                problem = f"its tool {quote_name(bare)} is left out: {error}"
                candidates[bare] = _Candidate(listed, None, problem)
        return PreparedListing(candidates, refused, warnings, checked)

    def apply(self, prepared: PreparedListing) -> bool:
        """Register the changes of a listing; return whether there were any."""
        refused, changed = dict(prepared.refused), False
        if prepared.checked is not None:
            self._guard.apply(prepared.checked)
        for bare in [bare for bare in self._registered if bare not in prepared.candidates]:
            self._registry.unregister(self._registered.pop(bare).name)
            changed = True
        for bare, each in prepared.candidates.items():
            problem = each.problem or self._find_holder(bare)
            if problem is None and each.tool is not None:
                if self._registered.get(bare) is not each.tool:
                    self._registry.register(each.tool, overwrite=True, mcp=(self._spec.name, bare))
                    self._registered[bare] = each.tool
                    changed = True
                continue
            refused[bare] = problem or ""
            if bare in self._registered:  # the server no longer accepts the registered definition
                self._registry.unregister(self._registered.pop(bare).name)
                changed = True
        self._known = prepared.candidates
        for text in prepared.warnings:
            self._warn(text)
        self._warn_rejected(refused)
        return changed

    def retry(self) -> bool:
        """Register tools whose name was taken and may be free now; return whether anything changed."""
        waiting = [bare for bare, each in self._known.items() if each.tool is not None and bare not in self._registered]
        return bool(waiting) and self.apply(PreparedListing(self._known, self._listing_problems(), []))

    def _listing_problems(self) -> dict[str, str]:
        return {key: problem for key, problem in self._rejected.items() if key not in self._known}

    def _select_tools(self, foreign: Sequence["ForeignTool"]) -> tuple[dict[str, "ForeignTool"], dict[str, str]]:
        allowed, refused = self._spec.tools, dict[str, str]()
        wanted: dict[str, ForeignTool] = {}
        for each in foreign:
            if allowed is not None and each.name not in allowed:
                continue
            if get_tool_settings(self._spec.tool_settings, each.name).hidden:
                continue
            if each.name in wanted:
                refused[f"{each.name} (again)"] = f"it lists {quote_name(each.name)} twice; the first is used"
            elif not each.name:
                refused[""] = "it lists a tool without a name, which is left out"
            else:
                wanted[each.name] = each
        for name in allowed or ():
            if name not in wanted:
                refused[f"{name} (missing)"] = f"it has no tool {quote_name(name)}, which its spec names in tools"
        for name in list_unknown(self._spec.tool_settings, (each.name for each in foreign)):
            refused[f"{name} (settings)"] = f"it has no tool {quote_name(name)}, for which its spec has settings"
        return wanted, refused

    def _find_holder(self, bare: str) -> str | None:
        """Return the problem if another tool has the name."""
        name = full_name(self._spec, bare)
        if not self._spec.prefix and is_reserved_name(bare):
            return f"its tool {quote_name(bare)} is left out: without a prefix, no name may start like that"
        holder = self._registry.entry(name)
        if holder is None or (holder.mcp_server, holder.mcp_tool) == (self._spec.name, bare):
            return None
        return f"its tool {quote_name(bare)} is left out: the name {quote_name(name)} is taken by {holder.provenance}"

    def _warn_rejected(self, refused: dict[str, str]) -> None:
        for key, problem in refused.items():
            if problem and self._rejected.get(key) != problem:  # the guard reports what it withholds
                self._warn(problem)
        self._rejected = refused
