"""The limits of each provider as data, with sources and dates; the rules of schema lowering; and name mapping."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from types import MappingProxyType
from typing import Literal, TypeAlias

from spindle.errors import NameClashError

_READ = date(2026, 11, 16)


@dataclass(frozen=True, slots=True)
class LimitSource:
    """Where a limit is documented."""

    url: str
    read_on: date
    statement: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderLimits:
    """The limits of one dialect; `None` means no known limit."""

    name_pattern: str
    """Pattern for the full name of a tool."""
    max_name_chars: int
    max_tools: int | None = None
    tools_limit: Literal["refuse", "warn"] = "refuse"
    """Whether a list longer than `max_tools` is rejected, or only causes a warning."""
    property_pattern: str | None = None
    """Pattern for the names of arguments."""
    max_property_chars: int | None = None
    max_schema_depth: int | None = None
    """Nesting levels of objects and arrays, including the arguments object; in strict mode."""
    max_properties: int | None = None
    """Total properties of all objects of one tool; in strict mode."""
    max_enum_values: int | None = None
    """Total values of all enums of one tool; in strict mode."""
    max_enum_chars: int | None = None
    """Characters of one enum with more than `long_enum_values` values; in strict mode."""
    long_enum_values: int | None = None
    max_schema_chars: int | None = None
    """Total characters of property names, definition names, enum and const values; in strict mode."""
    max_strict_tools: int | None = None
    """Strict tools of one request; further tools are sent in the loose form."""
    max_strict_optional: int | None = None
    """Total optional properties of all strict tools of one request."""
    max_strict_unions: int | None = None
    """Total properties of more than one type in all strict tools of one request."""
    id_pattern: str | None = None
    """Pattern for call ids when the conversation is sent back."""
    max_id_chars: int | None = None
    max_media_bytes: int | None = None
    """Size limit of one image or document."""
    sources: tuple[LimitSource, ...]


_OPENAI_NAMES = LimitSource(
    "https://github.com/openai/openai-python/blob/main/src/openai/types/shared_params/function_definition.py",
    _READ,
    "a function's name is of a-z, A-Z, 0-9, underscores and dashes, at most 64 of them",
)
_OPENAI_COUNT = LimitSource(
    "https://github.com/openai/openai-openapi/pull/76",
    _READ,
    "a list of functions has at most 128; the API answers a longer one with array_above_max_length",
)
_OPENAI_STRICT = LimitSource(
    "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas",
    _READ,
    "strict schemas: 5,000 properties in all, 10 levels, 1,000 enum values, 120,000 characters of names and values, "
    "15,000 characters in an enum of more than 250 values (read at "
    "https://jsonschemaprofiles.unitvectorylabs.com/schemas/openai)",
)

OPENAI_CHAT = ProviderLimits(
    name_pattern=r"[a-zA-Z0-9_-]{1,64}",
    max_name_chars=64,
    max_tools=128,
    max_schema_depth=10,
    max_properties=5_000,
    max_enum_values=1_000,
    max_enum_chars=15_000,
    long_enum_values=250,
    max_schema_chars=120_000,
    sources=(_OPENAI_NAMES, _OPENAI_COUNT, _OPENAI_STRICT),
)

OPENAI_RESPONSES = replace(OPENAI_CHAT)
"""Same as Chat Completions: both APIs share the function tool type."""

_CLAUDE_STRICT = LimitSource(
    "https://github.com/camel-ai/camel/pull/4171",
    _READ,
    "a request takes at most 20 strict tools, with 24 optional parameters and 16 of a union type in all of them (the "
    "API's own words for the second: https://github.com/elie222/inbox-zero/issues/2323)",
)

ANTHROPIC = ProviderLimits(
    name_pattern=r"[a-zA-Z0-9_-]{1,128}",
    max_name_chars=128,
    property_pattern=r"[a-zA-Z0-9_.-]{1,64}",
    max_property_chars=64,
    max_strict_tools=20,
    max_strict_optional=24,
    max_strict_unions=16,
    id_pattern=r"[a-zA-Z0-9_-]{1,64}",
    max_id_chars=64,
    max_media_bytes=3_900_000,
    sources=(
        LimitSource(
            "https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools",
            _READ,
            "a tool's name matches ^[a-zA-Z0-9_-]{1,128}$",
        ),
        LimitSource(
            "https://platform.claude.com/docs/en/managed-agents/self-hosted-sandboxes",
            _READ,
            "names of properties are of letters, digits, underscores, dots and hyphens, 1 to 64 of them",
        ),
        LimitSource(
            "https://github.com/anthropics/claude-code/issues/14887",
            _READ,
            "an image of more than 5,242,880 bytes, written as base64, is refused",
        ),
        _CLAUDE_STRICT,
    ),
)

GEMINI = ProviderLimits(
    name_pattern=r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}",
    max_name_chars=128,
    max_tools=512,
    tools_limit="warn",
    property_pattern=r"[a-zA-Z_][a-zA-Z0-9_]{0,63}",
    max_property_chars=64,
    sources=(
        LimitSource(
            "https://github.com/googleapis/python-genai/blob/main/google/genai/types.py",
            _READ,
            "a function's name starts with a letter or an underscore, then letters, digits, underscores, dots, colons "
            "and dashes, at most 128; a parameter's name letters, digits and underscores, at most 64; at most 512 "
            "declarations (models differ, so a longer list is only warned about)",
        ),
    ),
)

BEDROCK = ProviderLimits(
    name_pattern=r"[a-zA-Z0-9_-]{1,64}",
    max_name_chars=64,
    property_pattern=ANTHROPIC.property_pattern,
    max_property_chars=ANTHROPIC.max_property_chars,
    max_strict_tools=ANTHROPIC.max_strict_tools,
    max_strict_optional=ANTHROPIC.max_strict_optional,
    max_strict_unions=ANTHROPIC.max_strict_unions,
    id_pattern=r"[a-zA-Z0-9_.:-]{1,64}",
    max_id_chars=64,
    max_media_bytes=3_750_000,
    sources=(
        LimitSource(
            "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html",
            _READ,
            "a tool's name is 1 to 64 characters of [a-zA-Z0-9_-]+",
        ),
        ANTHROPIC.sources[1],
        LimitSource(
            "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolUseBlock.html",
            _READ,
            "a toolUseId is 1 to 64 characters of [a-zA-Z0-9_.:-]+",
        ),
        LimitSource(
            "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html",
            _READ,
            "an image is at most 3.75 MB, a document at most 4.5 MB; the smaller is taken for both",
        ),
        _CLAUDE_STRICT,
    ),
)

MCP = ProviderLimits(
    name_pattern=r"[A-Za-z0-9_.-]{1,128}",
    max_name_chars=128,
    sources=(
        LimitSource(
            "https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names",
            _READ,
            "tool names should be 1 to 128 characters of letters, digits, underscores, dashes and dots",
        ),
    ),
)


EnumValues: TypeAlias = Literal["any", "plain", "strings"]
"""Values allowed in an `enum`: any, no objects or lists, or only non-empty strings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """The subset of JSON Schema that a dialect (or its strict form) accepts, and how the rest is lowered."""

    as_written: bool = False
    """Whether the schema is emitted unchanged, in its own draft."""
    keywords: frozenset[str] | None = None
    """Accepted keywords; `None` accepts all, unknown ones too."""
    root_keywords: frozenset[str] | None = None
    """Keywords accepted in the root schema, if fewer."""
    root_banned: frozenset[str] = frozenset()
    """Keywords rejected in the root schema."""
    formats: frozenset[str] | None = None
    """Accepted values of `format`; `None` accepts all."""
    inline: bool = False
    """Whether every reference is inlined; recursion is then left open after a few levels."""
    recursion: bool = True
    """Whether recursive references are accepted."""
    lone_refs: bool = False
    """Whether a reference may have no sibling keywords, such as a description."""
    lone_unions: bool = False
    """Whether `anyOf` may have no sibling keywords, such as a description."""
    type_lists: bool = True
    """Whether `type` may be a list; if not, null is expressed by `nullable`, and other lists by `anyOf`."""
    enum_values: EnumValues = "any"
    min_items: frozenset[int] | None = None
    """Accepted values of `minItems`; `None` accepts all."""
    needs_type: bool = False
    """Whether every subschema must have a `type`, an `anyOf` or a reference."""
    any_value: bool = True
    """Whether a value of any type can be expressed."""
    needs_properties: bool = False
    """Whether the schema of arguments without properties must be omitted."""
    needs_items: bool = False
    """Whether every array must have `items`."""
    closed: bool = False
    """Whether every object must have `additionalProperties: false`; maps cannot be expressed then."""
    all_required: bool = False
    """Whether every property must be required; optional ones accept null instead, which is restored in the call."""
    strict_limits: ProviderLimits | None = None
    """Limits of the strict form; a tool that exceeds them is sent in the loose form."""
    name_limits: ProviderLimits | None = None
    """Limits for argument names; other names are mapped, and mapped back in the call."""

    def accepts(self, keyword: str, *, root: bool) -> bool:
        """Return whether a subschema may have a keyword."""
        if root and (
            keyword in self.root_banned or (self.root_keywords is not None and keyword not in self.root_keywords)
        ):
            return False
        return self.keywords is None or keyword in self.keywords


_DIGEST_CHARS = 8


@dataclass(frozen=True, slots=True)
class NameMap:
    """A two-way mapping between the tools' own names and their wire names.

    Raises:
        NameClashError: Two tools would have the same name on the wire.
    """

    wire: Mapping[str, str]
    """The wire name of each tool."""
    own: Mapping[str, str]
    """The tool of each wire name."""

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[str, str]], *, dialect: str) -> "NameMap":
        """Build the map from `(own, wire)` pairs."""
        wire: dict[str, str] = {}
        own: dict[str, str] = {}
        for name, wire_name in pairs:
            other = own.setdefault(wire_name, name)
            if other != name:
                raise NameClashError(
                    f"the tools {other!r} and {name!r} would both be named {wire_name!r} in {dialect}, which restricts "
                    "tool names; rename or remove one of them",
                    tool=name,
                    wire_name=wire_name,
                    tools=(other, name),
                )
            wire[name] = wire_name
        return cls(MappingProxyType(wire), MappingProxyType(own))

    def to_wire(self, name: str) -> str:
        """Return the wire name of a tool; a name that is not in the map is returned unchanged."""
        return self.wire.get(name, name)

    def to_own(self, wire_name: str) -> str:
        """Return the tool's own name; a name that is not in the map is returned unchanged."""
        return self.own.get(wire_name, wire_name)

    @property
    def mapped(self) -> dict[str, str]:
        """The tools whose name had to be changed, with their wire names."""
        return {name: wire_name for name, wire_name in self.wire.items() if name != wire_name}

    def __iter__(self) -> Iterator[str]:
        return iter(self.wire)

    def __len__(self) -> int:
        return len(self.wire)


def wire_name(name: str, limits: ProviderLimits, *, attempt: int = 0) -> str:
    """Return a tool's name if the provider accepts it, else the nearest valid name with a digest of the own name.

    The digest depends on the name alone, so a name does not change when another tool appears. `attempt` selects other
    names, for the rare case that the first one is taken.
    """
    if not attempt and re.fullmatch(limits.name_pattern, name):
        return name
    return _append_digest(_replace_illegal(name, limits.name_pattern), name, limits.max_name_chars, attempt)


def property_name(name: str, limits: ProviderLimits) -> str:
    """Return an argument's name if the provider accepts it, else the nearest valid name."""
    if limits.property_pattern is None or limits.max_property_chars is None:
        return name
    return fit_name(name, limits.property_pattern, limits.max_property_chars)


def fit_name(name: str, pattern: str, max_chars: int) -> str:
    """Return the name if it matches `pattern`, else the nearest name that does."""
    if re.fullmatch(pattern, name):
        return name
    legal = _replace_illegal(name, pattern)
    # A truncated or emptied name may be ambiguous.
    return _append_digest(legal, name, max_chars) if len(legal) > max_chars or not legal.strip("_") else legal


def _replace_illegal(name: str, pattern: str) -> str:
    legal = "".join(letter if re.fullmatch(pattern, f"a{letter}") else "_" for letter in name)
    return legal if re.fullmatch(pattern, legal[:1]) else f"_{legal}"


def _append_digest(legal: str, name: str, max_chars: int, attempt: int = 0) -> str:
    salted = f"{name}\0{attempt}" if attempt else name
    digest = hashlib.sha256(salted.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{legal[: max_chars - _DIGEST_CHARS - 1].rstrip('_')}_{digest}"
