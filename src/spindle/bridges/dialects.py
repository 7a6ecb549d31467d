"""The dialects of all providers as data: name, limits, and the rules by which schemas are lowered."""

from dataclasses import dataclass

from spindle.bridges import provider_limits
from spindle.bridges.provider_limits import ProviderLimits, Rules


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """The form in which one provider accepts tool definitions."""

    name: str
    limits: ProviderLimits
    rules: Rules
    strict_rules: Rules | None = None
    """Rules of the form whose arguments the provider guarantees; `None` if there is no such form."""


_BASE = frozenset(("type", "properties", "required", "items", "enum", "description", "title", "anyOf"))
_REFS = frozenset(("$ref", "$defs", "definitions"))
_BOUNDS = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
_OPENAI_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")

# The loose form rejects these keywords at the top level, and arrays without items; everything else is passed on.
_OPENAI = Rules(root_banned=frozenset(("anyOf", "oneOf", "allOf", "enum", "const", "not")), needs_items=True)


def _openai_strict(of: ProviderLimits) -> Rules:
    # https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    return Rules(
        keywords=_BASE
        | _REFS
        | _BOUNDS
        | {"additionalProperties", "const", "pattern", "format", "minItems", "maxItems"},
        root_banned=frozenset(("anyOf", "enum", "const")),
        formats=frozenset(_OPENAI_FORMATS),
        lone_refs=True,
        needs_type=True,
        any_value=False,
        needs_items=True,
        closed=True,
        all_required=True,
        strict_limits=of,
    )


_CLAUDE_FORMATS = frozenset((*_OPENAI_FORMATS, "uri"))

# https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
_CLAUDE_STRICT = Rules(
    keywords=_BASE | _REFS | {"additionalProperties", "const", "default", "format", "minItems"},
    root_banned=frozenset(("anyOf",)),
    formats=_CLAUDE_FORMATS,
    recursion=False,
    enum_values="plain",
    min_items=frozenset((0, 1)),
    needs_type=True,
    any_value=False,
    needs_items=True,
    closed=True,
    strict_limits=provider_limits.ANTHROPIC,
    name_limits=provider_limits.ANTHROPIC,
)

OPENAI_CHAT = Dialect(
    name="openai_chat",
    limits=provider_limits.OPENAI_CHAT,
    rules=_OPENAI,
    strict_rules=_openai_strict(provider_limits.OPENAI_CHAT),
)

OPENAI_RESPONSES = Dialect(
    name="openai_responses",
    limits=provider_limits.OPENAI_RESPONSES,
    rules=_OPENAI,
    strict_rules=_openai_strict(provider_limits.OPENAI_RESPONSES),
)

ANTHROPIC = Dialect(
    name="anthropic",
    limits=provider_limits.ANTHROPIC,
    rules=Rules(
        root_banned=frozenset(("anyOf", "oneOf", "allOf")),
        name_limits=provider_limits.ANTHROPIC,
    ),
    strict_rules=_CLAUDE_STRICT,
)

# The `parameters` of a FunctionDeclaration: https://ai.google.dev/api/caching#Schema
GEMINI = Dialect(
    name="gemini",
    limits=provider_limits.GEMINI,
    rules=Rules(
        keywords=_BASE
        | {"minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
        | {"pattern", "format", "default", "example", "propertyOrdering"},
        root_banned=frozenset(("anyOf",)),
        formats=frozenset(("float", "double", "int32", "int64", "date-time")),
        inline=True,
        lone_unions=True,
        type_lists=False,
        enum_values="strings",
        needs_type=True,
        needs_items=True,
        needs_properties=True,
        name_limits=provider_limits.GEMINI,
    ),
)

# Nova accepts three keywords at the top level, and Claude on Bedrock no unions there, so references must be inlined.
# https://docs.aws.amazon.com/nova/latest/userguide/tool-use-definition.html
BEDROCK = Dialect(
    name="bedrock",
    limits=provider_limits.BEDROCK,
    rules=Rules(
        root_keywords=frozenset(("type", "properties", "required")),
        inline=True,
        name_limits=provider_limits.BEDROCK,
    ),
    strict_rules=_CLAUDE_STRICT,
)

MCP = Dialect(name="mcp", limits=provider_limits.MCP, rules=Rules(as_written=True))

ALL = (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI, BEDROCK, MCP)
