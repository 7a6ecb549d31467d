"""Converts a server's tools into ours and keeps their registrations in line with its latest listing."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from spindle.calls import Err, Ok
from spindle.errors import InvalidToolArgsError, InvalidToolError
from spindle.mcp.spec import ServerSpec
from spindle.tools.context import ToolContext
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry
from spindle.tools.schema.json_schema import RawSchema
from spindle.tools.schema.problems import Problem, to_printable

if TYPE_CHECKING:
    from mcp_types import Tool as ForeignTool


_OLD, _NEW = "#/definitions/", "#/$defs/"
_NAMED = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"))
_DATA = frozenset(("enum", "const", "default", "examples", "example"))
_MAX_DEPTH = 200


def rename_definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with `definitions` at its root renamed to `$defs`, and its references rewritten.

    A schema that also has `$defs` is returned unchanged, as is a subschema with its own `$id`.
    """
    if not isinstance(schema.get("definitions"), Mapping) or "$defs" in schema:
        return dict(schema)
    moved = {"$defs" if key == "definitions" else key: value for key, value in schema.items()}
    return cast("dict[str, Any]", _rewrite_refs(moved, 0))


def _rewrite_refs(node: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return node  # the schema's own validation rejects it
    if isinstance(node, list):
        return [_rewrite_refs(each, depth + 1) for each in cast("list[Any]", node)]
    if not isinstance(node, Mapping):
        return node
    found = cast("Mapping[str, Any]", node)
    if depth and ("$id" in found or ("id" in found and isinstance(found["id"], str))):
        return dict(found)
    return {key: _keyword(key, value, depth) for key, value in found.items()}


def _keyword(key: str, value: Any, depth: int) -> Any:
    if key == "$ref" and isinstance(value, str) and value.startswith(_OLD):
        return _NEW + value.removeprefix(_OLD)
    if key in _DATA:
        return value
    if key in _NAMED and isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        return {name: _rewrite_refs(each, depth + 1) for name, each in named.items()}
    return _rewrite_refs(value, depth + 1)


OutputCheck = Callable[[Any, bool], str | None]


def build_output_check(schema: Mapping[str, Any], *, tool: str) -> OutputCheck:
    """Return a function that checks structured content and returns the problem, or `None`.

    Raises:
        InvalidToolError: The schema is invalid, or validation would be too costly.
    """
    try:
        validate = cast("Callable[[Any], Any]", RawSchema(_of_any_value(schema), tool=tool).validate)
    except InvalidToolError as error:
        reason = str(error.__cause__ or error)
        raise InvalidToolError(f"its output schema {reason}", tool=tool, field="output_schema") from error

    def check(value: Any, is_given: bool) -> str | None:  # noqa: FBT001  both describe one value
        if not is_given:
            return f"The tool {tool!r} declares an output schema, but returned no structured content."
        try:
            validate(value)
        except InvalidToolArgsError as error:
            said = "; ".join(_describe_problem(problem) for problem in cast("tuple[Problem, ...]", error.problems)[:5])
            return f"The tool {tool!r} returned structured content that does not match its output schema: {said}"
        return None

    return check


def _of_any_value(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Move the root `type` into `allOf`: `RawSchema` requires an object at the root, a result may be any value."""
    conditions = schema.get("allOf", [])
    if "type" not in schema or not isinstance(conditions, list):
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword != "type"}
    return {**rest, "allOf": [*cast("list[Any]", conditions), {"type": schema["type"]}]}


def _describe_problem(problem: Problem) -> str:
    where = f"{problem.path}: " if problem.path else ""
    return f"{where}expected {problem.expected}, received {problem.received}"


TOOLSET = "mcp"
_MAX_DESCRIPTION = 10_000
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
    args: dict[str, Any]
    ctx: ToolContext
    is_repeatable: bool
    """Whether the call may be sent twice: its tool is known to be idempotent."""
    check_output: OutputCheck | None


Forward = Callable[[UpstreamCall], Awaitable[Ok | Err]]


def full_name(server: str, tool: str) -> str:
    """Return the registered name of a server's tool."""
    return f"mcp__{server}__{tool}"


def make_tool(spec: ServerSpec, foreign: "ForeignTool", forward: Forward, available: Availability, warn: Warn) -> Tool:
    """Build a `Tool` from a server's definition; its annotations count only if the server is trusted.

    Raises:
        InvalidToolError: Its input schema is invalid, or validation would be too costly.
    """
    bare = foreign.name
    check = _output_check_of(foreign, warn)
    hints = foreign.annotations
    read_only = spec.trusted and hints is not None and hints.read_only_hint is True
    idempotent = read_only or (spec.trusted and hints is not None and hints.idempotent_hint is True)

    async def handler(args: dict[str, Any], ctx: ToolContext, _meta: object) -> Ok | Err:
        return await forward(UpstreamCall(tool=bare, args=args, ctx=ctx, is_repeatable=idempotent, check_output=check))

    return Tool(
        name=full_name(spec.name, bare),
        description=_description(foreign),
        input_schema=rename_definitions(foreign.input_schema),
        handler=handler,
        meta={"mcp": _about(spec, foreign, is_checked=check is not None)},
        trusted=spec.trusted,
        toolset=TOOLSET,
        max_result_chars=spec.max_result_chars,
        is_available=available,
        timeout_seconds=spec.timeout_seconds,
        read_only=read_only,
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


def _description(foreign: "ForeignTool") -> str:
    text = foreign.description if (foreign.description or "").strip() else None
    text = text or foreign.title or foreign.name
    return text if len(text) <= _MAX_DESCRIPTION else f"{text[:_MAX_DESCRIPTION]} …"


def _about(spec: ServerSpec, foreign: "ForeignTool", *, is_checked: bool) -> dict[str, Any]:
    about: dict[str, Any] = {"server": spec.name, "tool": foreign.name, "title": foreign.title}
    if foreign.annotations is not None:
        about["annotations"] = foreign.annotations.model_dump(mode="json", by_alias=True, exclude_none=True)
    if is_checked:
        about["output_schema"] = foreign.output_schema
    return {key: value for key, value in about.items() if value is not None}


def quote_name(name: str) -> str:
    """Quote a server-provided name for a warning."""
    return repr(to_printable(name, _MAX_NAME))


@dataclass(slots=True)
class _RegisteredTool:
    listed: str
    """The definition as its server listed it, to detect changes."""
    tool: Tool


class ServerTools:
    """The registered tools of one server."""

    def __init__(self, spec: ServerSpec, registry: ToolRegistry, warn: Warn) -> None:
        self._spec = spec
        self._registry = registry
        self._warn = warn
        self._registered: dict[str, _RegisteredTool] = {}
        self._rejected: dict[str, str] = {}
        """Why tools are not offered, so that each problem is reported once."""

    def __len__(self) -> int:
        return len(self._registered)

    def update(self, foreign: Sequence["ForeignTool"], make: Callable[["ForeignTool"], Tool]) -> bool:
        """Update the registry to the server's current listing; return whether anything changed."""
        wanted, refused = self._select_tools(foreign)
        changed = False
        for bare in [bare for bare in self._registered if bare not in wanted]:
            self._registry.unregister(self._registered.pop(bare).tool.name)
            changed = True
        for bare, each in wanted.items():
            listed = json.dumps(each.model_dump(mode="json", by_alias=True, exclude_none=True), sort_keys=True)
            row = self._registered.get(bare)
            if row is not None and row.listed == listed:
                continue
            problem = self._register(bare, each, listed, make)
            if problem is None:
                changed = True
                continue
            refused[bare] = problem
            if row is not None:  # the server no longer accepts the registered definition
                self._registry.unregister(self._registered.pop(bare).tool.name)
                changed = True
        self._warn_rejected(refused)
        return changed

    def _select_tools(self, foreign: Sequence["ForeignTool"]) -> tuple[dict[str, "ForeignTool"], dict[str, str]]:
        allowed, refused = self._spec.tools, dict[str, str]()
        wanted: dict[str, ForeignTool] = {}
        for each in foreign:
            if allowed is not None and each.name not in allowed:
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
        return wanted, refused

    def _register(
        self, bare: str, foreign: "ForeignTool", listed: str, make: Callable[["ForeignTool"], Tool]
    ) -> str | None:
        """Register one tool; return the problem if that is not possible."""
        name = full_name(self._spec.name, bare)
        holder = self._registry.entry(name)
        if holder is not None and (holder.mcp_server, holder.mcp_tool) != (self._spec.name, bare):
            return (
                f"its tool {quote_name(bare)} is left out: the name {quote_name(name)} is taken by {holder.provenance}"
            )
        try:
            tool = make(foreign)
        except InvalidToolError as error:
            return f"its tool {quote_name(bare)} is left out: {error}"
        self._registry.register(tool, overwrite=True, mcp=(self._spec.name, bare))
        self._registered[bare] = _RegisteredTool(listed, tool)
        return None

    def _warn_rejected(self, refused: dict[str, str]) -> None:
        for key, problem in refused.items():
            if self._rejected.get(key) != problem:
                self._warn(problem)
        self._rejected = refused

    @property
    def has_rejected(self) -> bool:
        """Whether a tool was rejected, and may be accepted once another server's tool is gone."""
        return bool(self._rejected)
