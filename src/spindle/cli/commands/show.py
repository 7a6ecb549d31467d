"""`spindle show NAME`: print one tool in full."""

from typing import Annotated

from cyclopts import Parameter

from spindle.capabilities.declare import CAPABILITY_NAMES
from spindle.cli.arguments import get_types, parameters
from spindle.cli.commands.list import ListedTool, format_flags, get_source, load_tools, tool_to_json
from spindle.cli.completers import tool_names
from spindle.cli.main import OK
from spindle.cli.options import (
    DEFAULT_CONFIG_OPTIONS,
    ConfigOptions,
    Json,
    ProfileName,
    build_unknown_tool_error,
    restrict_servers,
)
from spindle.cli.output import Branch, Output
from spindle.cli.runtime_registry import build_filter
from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.tools.entry import Entry
from spindle.tools.filters import find_refusal


def show_tool(
    name: Annotated[str, Parameter(help="The tool's name.", completer=tool_names)],
    /,
    *,
    profile: ProfileName = None,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Show the description, parameters and requirements of a tool, and an example call."""
    config = where.load_for_tools()
    allowed = build_filter(config, profile)
    found = {each.entry.tool.name: each for each in load_tools(restrict_servers(config, name))}
    listed = found.get(name)
    if listed is None:
        raise build_unknown_tool_error(name, found)
    out, entry = Output(), listed.entry
    refused = find_refusal(entry, allowed)
    if json:
        facts = tool_to_json(listed) | {
            "input_schema": entry.tool.describe()["input_schema"],
            "fingerprint": entry.tool.fingerprint,
            "capabilities": _needs(entry),
            "max_result_chars": entry.tool.max_result_chars,
            "allowed": refused is None,
        }
        out.json(facts)
        return OK
    _print(out, listed)
    if refused is not None:
        out.line()
        out.line((f"This profile may not use this tool ({refused.rule}).", "yellow"))
    return OK


def _print(out: Output, listed: ListedTool) -> None:
    entry, tool = listed.entry, listed.entry.tool
    flags = format_flags(listed)
    out.line((tool.name, "bold"), "  ", (get_source(entry), "dim"), (f"  {flags}" if flags else "", "yellow"))
    out.line()
    out.prose(tool.description.strip())
    out.line()
    schema = tool.describe()["input_schema"]
    takes = parameters(schema)
    out.tree("parameters" if takes else "no parameters", takes)
    facts = _facts(entry)
    if facts:
        out.tree("requirements and limits", facts)
    out.line()
    out.line((f"spindle call {tool.name} {_example(schema)}".rstrip(), "cyan"))


def _facts(entry: Entry) -> list[Branch]:
    tool = entry.tool
    needs = [f"{name}: {_format_need(need)}" for name, need in _needs(entry).items()]
    limits = [
        f"times out after {tool.timeout_seconds:g} s" if tool.timeout_seconds else "",
        f"result limited to {tool.max_result_chars} characters" if tool.max_result_chars else "",
        "output is trusted" if tool.trusted else "",
        "idempotent" if tool.idempotent else "",
    ]
    return [(text, ()) for text in (*needs, *limits) if text]


def _needs(entry: Entry) -> JsonObject:
    needs = entry.tool.capabilities
    found = {name: getattr(needs, name) for name in CAPABILITY_NAMES}
    if needs.files is not None:
        found["files"] = {"read": list(needs.files.read), "write": list(needs.files.write)}
    return {name: need for name, need in found.items() if need is not None}


def _format_need(need: JsonValue) -> str:
    if is_object(need):
        return ", ".join(f"{way} {' '.join(paths)}" for way, paths in need.items() if paths)
    return need if isinstance(need, str) else " ".join(map(str, need))


def _example(schema: JsonObject) -> str:
    required = schema.get("required", ())
    words = {"string": "…", "integer": "1", "number": "1", "boolean": "true", "array": "…"}
    pairs: list[str] = []
    for name in required:
        kinds = get_types(schema.get("properties", {}).get(name), schema)
        pairs.append(f"{name}={words[kinds[0]]}" if kinds and kinds[0] in words else f"{name}:='{{…}}'")
    return " ".join(pairs)
