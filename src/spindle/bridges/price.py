"""The price of definitions: the tokens that a tool costs in each request to a model, estimated for each dialect."""

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from spindle.artifacts.tokens import estimate_from_text
from spindle.bridges import dialects
from spindle.bridges.anthropic import conversation as anthropic
from spindle.bridges.bedrock import conversation as bedrock
from spindle.bridges.definitions import Spec, WireDefinition, Wrap, build_one
from spindle.bridges.dialects import Dialect
from spindle.bridges.gemini import conversation as gemini
from spindle.bridges.openai import chat_completions, responses_api
from spindle.errors import CannotLowerError
from spindle.json_types import JsonObject
from spindle.tools.declaration import Tool

DIALECT_NAMES: Final = tuple(dialect.name for dialect in dialects.ALL)


def price_tool(tool: Tool, dialect_names: Iterable[str] = DIALECT_NAMES) -> dict[str, int]:
    """Return the tokens of a tool's definition by dialect; a dialect that cannot express the tool is left out.

    The estimate is that of `Artifact.estimate_tokens`: within about 15 % of o200k, the same in every process.
    """
    found: dict[str, int] = {}
    for name in dialect_names:
        try:
            definition = define_tool(tool, name)
        except CannotLowerError:
            continue
        found[name] = price_definition(definition)
    return found


def price_definition(definition: WireDefinition) -> int:
    """Return the tokens of one definition as a provider receives it."""
    return estimate_from_text(definition.json)


def price_text(text: str) -> int:
    """Return the tokens of a text, such as the description of a prompt."""
    return estimate_from_text(text.encode("utf-8", "replace"))


def define_tool(tool: Tool, dialect_name: str, *, strict: bool = False) -> WireDefinition:
    """Return the definition of a tool in a dialect, whether or not the tool is available now.

    Raises:
        CannotLowerError: Its schema cannot be expressed in the dialect.
    """
    dialect, wrap = _get_dialects()[dialect_name]
    return build_one(dialect, tool, wrap, strict=strict)


@cache
def _get_dialects() -> Mapping[str, tuple[Dialect, Wrap]]:
    apis = (chat_completions.API, responses_api.API, anthropic.API, gemini.API, bedrock.API)
    found = {api.dialect.name: (api.dialect, api.wrap) for api in apis}
    return MappingProxyType(found | {dialects.MCP.name: (dialects.MCP, _wrap_mcp)})


def _wrap_mcp(spec: Spec) -> JsonObject:
    """Return the parts of an MCP tool that clients pass on to their model."""
    return {"name": spec.name, "description": spec.description, "inputSchema": spec.schema}
