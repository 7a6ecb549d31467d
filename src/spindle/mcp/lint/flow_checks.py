"""Checks of what tools declare for a flow policy: arguments without a role, and sources that outsiders can write to."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.mcp.lint.findings import Finding
from spindle.mcp.lint.rules import report
from spindle.mcp.lint.subjects import Subject
from spindle.text import to_printable
from spindle.tools.declaration import Tool
from spindle.trust.flow.policy import FlowPolicy

_MAX_NAMED: Final = 8
_MAX_NAME_CHARS: Final = 60
_MAX_DEPTH: Final = 6
_NO_TEXT: Final = frozenset({"integer", "number", "boolean", "null"})


class UndeclaredArgument(NamedTuple):
    """An argument without a role, and the role that it counts as."""

    name: str
    role: str


def check_flow(subjects: Sequence[Subject], policy: FlowPolicy) -> Iterator[Finding]:
    """Yield what the tools of definitions leave to the strictest reading, and labels that outsiders can misuse."""
    for subject in subjects:
        if subject.tool is None:
            continue
        undeclared = find_undeclared(subject.tool, policy)
        if undeclared:
            yield report("SP601", subject, f"has arguments without a role: {describe_undeclared(undeclared)}")
        exposed = find_exposed_source(subject.tool)
        if exposed is not None:
            yield report("SP602", subject, exposed)


def find_undeclared(tool: Tool, policy: FlowPolicy) -> list[UndeclaredArgument]:
    """Return the arguments of a tool whose calls are judged that have no role."""
    flow = tool.flow
    if flow.is_free_by_default or not policy.may_ask(flow):
        return []
    schema: JsonObject = tool.describe()["input_schema"]
    properties = schema.get("properties")
    declared = {path.partition(".")[0] for path in flow.roles}
    return [
        UndeclaredArgument(name, "target" if _may_have_text(each, schema) else "setting")
        for name, each in (properties.items() if is_object(properties) else ())
        if name not in declared
    ]


def describe_undeclared(undeclared: Sequence[UndeclaredArgument]) -> str:
    """Return the names of arguments and what they count as, at most a few."""
    shown = ", ".join(
        f"{to_printable(each.name, _MAX_NAME_CHARS)} counts as {each.role}" for each in undeclared[:_MAX_NAMED]
    )
    left = len(undeclared) - _MAX_NAMED
    return f"{shown}, and {left} more" if left > 0 else shown


def find_exposed_source(tool: Tool) -> str | None:
    """Return why a tool's label trusts what outsiders can write, or `None`."""
    flow = tool.flow
    if flow.is_reader or flow.output not in {"trusted", "first-party"} or not flow.reaches_network:
        return None
    if tool.meta.has("mcp.server"):
        where = "it runs in an MCP server"
    else:
        where = "it belongs to an API" if tool.meta.has("openapi.server") else "it reaches the network"
    return f"returns {flow.output} content, but {where}: what outsiders write there would not taint a session"


def _may_have_text(given: JsonValue, root: JsonObject, depth: int = 0) -> bool:
    """Return whether a value of a schema can be, or contain, text; a schema that does not say so can."""
    if not is_object(given) or depth > _MAX_DEPTH:
        return True
    reference = given.get("$ref")
    if isinstance(reference, str):
        definitions: JsonValue = root.get("$defs") or root.get("definitions")
        named = definitions.get(reference.rpartition("/")[2]) if is_object(definitions) else None
        return _may_have_text(named, root, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        options = given.get(keyword)
        if is_array(options):
            return any(_may_have_text(each, root, depth + 1) for each in options)
    kinds = given.get("type")
    if kinds == "array":
        return _may_have_text(given.get("items"), root, depth + 1)
    named = kinds if is_array(kinds) else [kinds]
    return not all(isinstance(kind, str) and kind in _NO_TEXT for kind in named)
